// Something that tells those who subscribed to it that it is another now.
export class Store {
  constructor() {
    this.subscribers = new Set();
  }

  subscribe(subscriber) {
    this.subscribers.add(subscriber);
    return () => this.subscribers.delete(subscriber);
  }

  tell() {
    for (const subscriber of this.subscribers) subscriber();
  }
}

// What this browser keeps under a name, as JSON; `otherwise` where it keeps nothing, or something that is no JSON.
export function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`tonearm.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(`tonearm.${name}`, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
}
