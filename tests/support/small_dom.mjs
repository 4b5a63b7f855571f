// As much of a document as preact asks for, so that parts of the dashboard's page run in node.

class Place {
  childNodes = [];
  parentNode = null;

  get ownerDocument() {
    return document;
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get nextSibling() {
    const beside = this.parentNode?.childNodes ?? [];
    return beside[beside.indexOf(this) + 1] ?? null;
  }

  get textContent() {
    return this.data ?? this.childNodes.map((one) => one.textContent).join("");
  }

  set textContent(text) {
    this.childNodes = text ? [document.createTextNode(text)] : [];
  }

  insertBefore(child, before) {
    child.remove();
    const at = before ? this.childNodes.indexOf(before) : this.childNodes.length;
    this.childNodes.splice(at, 0, child);
    child.parentNode = this;
    return child;
  }

  appendChild(child) {
    return this.insertBefore(child, null);
  }

  removeChild(child) {
    child.remove();
    return child;
  }

  remove() {
    const beside = this.parentNode?.childNodes;
    beside?.splice(beside.indexOf(this), 1);
    this.parentNode = null;
  }
}

class Part extends Place {
  nodeType = 1;
  attributes = {};
  hearers = {};
  style = { setProperty() {} };

  constructor(name) {
    super();
    this.localName = name;
    if (["input", "select", "textarea"].includes(name)) Object.assign(this, { value: "", checked: false });
  }

  setAttribute(name, value) {
    this.attributes[name] = String(value);
  }

  removeAttribute(name) {
    delete this.attributes[name];
  }

  addEventListener(type, hearer) {
    this.hearers[type] = hearer;
  }

  removeEventListener(type) {
    delete this.hearers[type];
  }

  // What is done to it, as by a person; `fields` are more of the event.
  tell(type, fields = {}) {
    return this.hearers[type]?.call(this, { type, target: this, currentTarget: this, preventDefault() {}, ...fields });
  }

  // All parts within that have this name, and this text or label.
  all(name, called = "") {
    const within = this.childNodes.flatMap((child) => child.all?.(name, called) ?? []);
    const isIt = this.localName === name && (!called || [this.textContent, this.attributes["aria-label"]].includes(called));
    return isIt ? [this, ...within] : within;
  }

  querySelector() {
    return null;
  }

  focus() {}
  scrollTo() {}
  showModal() {}
}

globalThis.document = {
  createElement: (name) => new Part(name),
  createElementNS: (_, name) => new Part(name),
  querySelector: () => null,
  createTextNode: (data) => Object.assign(new Place(), { nodeType: 3, data: String(data) }),
};
document.body = document.createElement("body");
globalThis.HTMLElement = Part;
const events = new EventTarget();
for (const name of ["addEventListener", "removeEventListener", "dispatchEvent"]) globalThis[name] = events[name].bind(events);
const later = setTimeout;
globalThis.requestAnimationFrame = (draw) => later(draw, 0);
globalThis.cancelAnimationFrame = clearTimeout;

// Waits until preact has drawn, and its effects are done.
export async function drawn() {
  for (let turn = 0; turn < 8; turn += 1) await new Promise((done) => setImmediate(() => later(done, 1)));
}

// From now on time stands still: what this gives is a function that lets some ms pass.
export function handTime() {
  let now = performance.now();
  performance.now = () => now;
  let timers = [];
  const add = (ring, ms = 0, everyMs = 0) => {
    const timer = { ring, everyMs, at: now + ms };
    timers.push(timer);
    return timer;
  };
  globalThis.setTimeout = (ring, ms) => add(ring, ms);
  globalThis.setInterval = (ring, ms) => add(ring, ms, ms);
  globalThis.clearTimeout = globalThis.clearInterval = (timer) => (timers = timers.filter((one) => one !== timer));
  return async (ms) => {
    const end = now + ms;
    for (;;) {
      timers.sort((one, other) => one.at - other.at);
      const [timer] = timers;
      if (!timer || timer.at > end) break;
      now = timer.at;
      if (timer.everyMs) timer.at += timer.everyMs;
      else timers.shift();
      timer.ring();
      await drawn();
    }
    now = end;
  };
}
