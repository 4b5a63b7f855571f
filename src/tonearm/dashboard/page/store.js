// Something that tells those who subscribed to it that it is another now.
export class Store {
  constructor() {
    /** @type {Set<() => unknown>} */
    this.subscribers = new Set();
  }

  /** @param {() => unknown} subscriber */
  subscribe(subscriber) {
    this.subscribers.add(subscriber);
    return () => this.subscribers.delete(subscriber);
  }

  tell() {
    for (const subscriber of this.subscribers) subscriber();
  }
}

// What this browser keeps under a name, as JSON; `otherwise` where it keeps nothing, or something that is no JSON.
/**
 * @template T
 * @param {string} name
 * @param {T} otherwise
 * @returns {T}
 */
export function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`tonearm.${name}`) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 */
export function keep(name, value) {
  try {
    localStorage.setItem(`tonearm.${name}`, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
}
