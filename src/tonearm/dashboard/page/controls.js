// What several parts of the page are made of: hooks, sliders, buttons with pictures, and the messages below.

import { messageOf } from "./api.js";
import { html, useEffect, useReducer, useRef, useState } from "./preact.js";
import { Store } from "./store.js";

/** @import { ComponentChildren, Ref } from "preact" */
/** @import { PlayerFeed } from "./feeds.js" */
/** @import { Act, Connection as ConnectionState, Done, On } from "./types.js" */

const SHOWN_MS = 6000;
const UNDO_MS = 10_000;
export const DRAFT_KEPT_MS = 300; // until the event that says the same has come

// A function that has the component shown again.
function useAgain() {
  const [, count] = useReducer((/** @type {number} */ shown) => shown + 1, 0);
  return () => count(undefined);
}

// Handlers of a field's events: they hand on what it holds, or whether it is ticked.
/** @param {(value: string) => unknown} take */
export function typed(take) {
  return (/** @type {On<HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>} */ { target }) =>
    take(target.value);
}

/** @param {(isTicked: boolean) => unknown} take */
export function ticked(take) {
  return (/** @type {On<HTMLInputElement>} */ { target }) => take(target.checked);
}

/**
 * @param {string} selector
 * @param {ParentNode | null} within
 */
export function focusOn(selector, within = document) {
  const found = within?.querySelector(selector);
  if (found instanceof HTMLElement) found.focus();
}

// `chosen` with `those` chosen, or without them.
/**
 * @template T
 * @param {Set<T>} chosen
 * @param {T[]} those
 * @param {boolean} isChosen
 */
export function choosing(chosen, those, isChosen) {
  const next = new Set(chosen);
  for (const one of those) isChosen ? next.add(one) : next.delete(one);
  return next;
}

// Shows the component again whenever `store` tells.
/**
 * @template {Store | null} S
 * @param {S} store
 */
export function useStore(store) {
  const again = useAgain();
  useEffect(() => store?.subscribe(again), [store]);
  return store;
}

// The time, as often as asked for; it stands still while `moves` is false.
/**
 * @param {number} everyMs
 * @param {boolean} moves
 */
export function useNow(everyMs, moves) {
  const again = useAgain();
  useEffect(() => {
    if (!moves) return undefined;
    const timer = setInterval(again, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, moves]);
  return performance.now();
}

// Messages about what was done, or why it was not. One at a time is read out; beside it stands what can be undone.
export class Notices extends Store {
  /** @type {{ text: string, isProblem: boolean } | null} */
  shown = null;
  /** @type {Array<{ text: string, forget(): void, undo(): void }>} */
  undoable = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;

  /** @param {string} text */
  show(text, { isProblem = false } = {}) {
    clearTimeout(this.timer);
    this.shown = { text, isProblem };
    const hide = () => {
      this.shown = null;
      this.tell();
    };
    this.timer = setTimeout(hide, isProblem ? 2 * SHOWN_MS : SHOWN_MS);
    this.tell();
  }

  // Says what went; `undo` brings it back.
  /**
   * @param {string} text
   * @param {() => unknown} undo
   */
  went(text, undo) {
    const forget = () => {
      this.undoable = this.undoable.filter((one) => one !== entry);
      this.tell();
    };
    const entry = {
      text,
      forget,
      undo() {
        forget();
        undo();
      },
    };
    this.undoable = [...this.undoable, entry];
    setTimeout(forget, UNDO_MS);
    this.tell();
  }

  // Does requests about the player of `feed`, and shows what came of them.
  /**
   * @param {PlayerFeed} feed
   * @returns {Act}
   */
  acting(feed) {
    return (method, path, body, done) => this.of(feed.api.ask(method, feed.path(path), body), done);
  }

  // Waits for `work` and says that it is done, or the node's own message. The result, or undefined.
  /**
   * @template T
   * @param {Promise<T>} work
   * @param {string | ((result: T) => string)} done
   * @returns {Promise<Done<T> | undefined>}
   */
  async of(work, done = "") {
    try {
      const result = await work;
      if (done) this.show(typeof done === "function" ? done(result) : done);
      return /** @type {Done<T>} */ (result ?? true);
    } catch (error) {
      this.show(messageOf(error), { isProblem: true });
      return undefined;
    }
  }
}

/** @param {{ notices: Notices }} props */
export function NoticeBar({ notices }) {
  const { shown } = useStore(notices);
  const problem = shown?.isProblem ? shown.text : "";
  const done = shown && !shown.isProblem ? shown.text : "";
  return html`<div class="notices">
    <div role="status" class="undos">${notices.undoable.map((entry) => html`<p class="notice" key=${entry}>${entry.text} <button type="button" onClick=${entry.undo}>Undo</button></p>`)}</div>
    <p role="alert" class=${problem ? "notice problem" : ""}>${problem}</p>
    <p role="status" class=${done ? "notice" : ""}>${done}</p>
  </div>`;
}

// Sends the newest value, one request at a time: what came meanwhile and is old already is left out. What the function
// gives is done when everything was sent.
/**
 * @template T
 * @param {(value: T) => unknown} send
 */
export function useNewest(send) {
  /** @type {{ work: Promise<void> | null, next: { value: T } | null, send: (value: T) => unknown }} */
  const first = { work: null, next: null, send };
  const kept = useRef(first).current;
  kept.send = send;
  const sendAll = async () => {
    while (kept.next) {
      const { value: newest } = kept.next;
      kept.next = null;
      await kept.send(newest);
    }
    kept.work = null;
  };
  return (/** @type {T} */ value) => {
    kept.next = { value };
    return (kept.work ??= sendAll());
  };
}

const ROWS_SEEN = 30;
const ROWS_AROUND = 20;

const UP_KEYS = ["ArrowRight", "ArrowUp"];
const DOWN_KEYS = ["ArrowLeft", "ArrowDown"];

// A slider. `send` gets the value while it is moved (`isLive`), or when it is let go. An arrow key moves it by `keyStep`. What
// was begun when `of` was another value is not sent.
/**
 * @typedef {object} SliderProps
 * @property {string} label
 * @property {number} value
 * @property {number} min
 * @property {number} max
 * @property {number} step
 * @property {(value: number) => string} text
 * @property {(value: number) => unknown} send
 * @property {string} [of]
 * @property {number} [keyStep]
 * @property {boolean} [isLive]
 * @property {boolean} [disabled]
 * @property {boolean} [showsLabel]
 * @property {boolean} [showsValue]
 */
/** @param {SliderProps} props */
export function Slider({
  label,
  value,
  min,
  max,
  step,
  text,
  send,
  of = "",
  keyStep = 0,
  isLive = true,
  disabled = false,
  showsLabel = true,
  showsValue = true,
}) {
  const [draft, setDraft] = useState(/** @type {number | null} */ (null));
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const moves = useRef({ of, count: 0 }).current;
  const newest = useNewest(send);
  const change = async (/** @type {number} */ moved, /** @type {boolean} */ isLast) => {
    clearTimeout(timer.current);
    const move = (moves.count += 1);
    if (draft === null) moves.of = of;
    const isOfAnother = moves.of !== of;
    setDraft(isOfAnother && isLast ? null : moved);
    if (isOfAnother || !(isLive || isLast)) return;
    await newest(moved);
    if (moves.count === move) timer.current = setTimeout(() => setDraft(null), DRAFT_KEPT_MS);
  };
  const shown = draft ?? value;
  const range = max - min || 1;
  const key = (/** @type {KeyboardEvent} */ event) => {
    const direction = Number(UP_KEYS.includes(event.key)) - Number(DOWN_KEYS.includes(event.key));
    if (!keyStep || !direction) return;
    event.preventDefault();
    change(Math.min(max, Math.max(min, shown + direction * keyStep)), true);
  };
  return html`<label class="slider">
    <span class=${showsLabel ? "" : "unseen"}>${label}</span>
    <input type="range" aria-label=${label} aria-valuetext=${text(shown)} min=${min} max=${max} step=${step}
      value=${shown} disabled=${disabled} style=${{ "--filled": `${(100 * (shown - min)) / range}%` }}
      onKeyDown=${key}
      onInput=${typed((moved) => change(Number(moved), false))} onChange=${typed((moved) => change(Number(moved), true))} />
    ${showsValue && html`<output aria-hidden="true">${text(shown)}</output>`}
  </label>`;
}

// A number to be typed, which `send` gets when the field is left. What is being typed stays when the state changes meanwhile.
/** @param {{ value: string, send: (value: number) => unknown, [attribute: string]: unknown }} props */
export function NumberField({ value, send, ...more }) {
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const input = typed((text) => {
    clearTimeout(timer.current); // it was left a moment ago
    setDraft(text);
  });
  const change = (/** @type {On<HTMLInputElement>} */ { target }) => send(target.valueAsNumber);
  const leave = () => {
    timer.current = setTimeout(() => setDraft(null), DRAFT_KEPT_MS);
  };
  return html`<input type="number" value=${draft ?? value} onInput=${input} onChange=${change} onBlur=${leave} ...${more} />`;
}

const PATHS = {
  play: "M8 5v14l11-7z",
  pause: "M7 5h4v14H7zM13 5h4v14h-4z",
  skip: "M5 5v14l9-7zM15 5h3v14h-3z",
  previous: "M19 5v14l-9-7zM6 5h3v14H6z",
  stop: "M6 6h12v12H6z",
  up: "M12 7l7 8H5z",
  down: "M12 17l7-8H5z",
  remove: "M6.4 5L12 10.6 17.6 5 19 6.4 13.4 12l5.6 5.6-1.4 1.4L12 13.4 6.4 19 5 17.6 10.6 12 5 6.4z",
  folder: "M3 6h6l2 2h10v11H3z",
  none: "M5 8h11V5l5 4-5 4v-3H5zM5 16h14v2H5z",
  queue: "M7 7h10V4l4 4-4 4V9H9v3H7zM17 17H7v3l-4-4 4-4v3h8v-3h2z",
  track:
    "M7 7h10V4l4 4-4 4V9H5v4H3v-2a4 4 0 0 1 4-4zM17 17H7v3l-4-4 4-4v3h12v-4h2v2a4 4 0 0 1-4 4zM11.3 10h1.6v5h-1.6z",
  keys: "M3 6h18v12H3zM5 8v2h2V8zm3.5 0v2h2V8zM12 8v2h2V8zm3.5 0v2H19V8zM5 11.5v2h2v-2zm3.5 0v2h2v-2zm3.5 0v2h2v-2zm3.5 0v2H19v-2zM8 15v1.5h8V15z",
  headphones: "M12 3a9 9 0 0 0-9 9v6a3 3 0 0 0 3 3h2v-8H5v-1a7 7 0 0 1 14 0v1h-3v8h2a3 3 0 0 0 3-3v-6a9 9 0 0 0-9-9z",
  mute: "M4 9v6h4l5 5V4L8 9zM15.2 9.2l1.3-1.3 2 2 2-2 1.3 1.3-2 2 2 2-1.3 1.3-2-2-2 2-1.3-1.3 2-2z",
  speaker: "M4 9v6h4l5 5V4L8 9zM15 8.5v7a4 4 0 0 0 0-7zM15 4.2v2.1a6 6 0 0 1 0 11.4v2.1a8 8 0 0 0 0-15.6z",
};

/** @typedef {keyof typeof PATHS} Picture */
/** @param {{ name: Picture }} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}

// A button that shows a picture only; `label` is its name.
/**
 * @typedef {object} IconButtonProps
 * @property {string} label
 * @property {Picture} icon
 * @property {() => unknown} onClick
 * @property {boolean} [disabled]
 * @property {string} [kind]
 */
/** @param {IconButtonProps} props */
export function IconButton({ label, icon, onClick, disabled = false, kind = "", ...more }) {
  return html`<button type="button" class=${`round ${kind}`} aria-label=${label} title=${label} disabled=${disabled}
    onClick=${onClick} ...${more}><${Icon} name=${icon} /></button>`;
}

/**
 * @param {string} kind
 * @param {string} title
 */
function idOf(kind, title) {
  return `${kind}-${title.toLowerCase().replaceAll(" ", "-")}`;
}

// A part of the page with its heading.
/** @param {{ title: string, children: ComponentChildren, aside?: ComponentChildren, kind?: string }} props */
export function Panel({ title, children, aside = null, kind = "" }) {
  const id = idOf("panel", title);
  return html`<section class=${`panel ${kind}`} aria-labelledby=${id}>
    <header><h2 id=${id}>${title}</h2>${aside}</header>
    ${children}
  </section>`;
}

// What is asked beside the page, until it is closed: `close` is called then. Its last button, `done`, works when it `isReady`,
// and not again before what it does is done.
/**
 * @typedef {object} DialogProps
 * @property {string} title
 * @property {ComponentChildren} children
 * @property {() => unknown} close
 * @property {() => unknown} [submit]
 * @property {string} [done]
 * @property {boolean} [isReady]
 */
/** @param {DialogProps} props */
export function Dialog({ title, children, close, submit, done, isReady = true }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const isBusy = useRef(false);
  const once = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy.current) return;
    isBusy.current = true;
    await submit?.();
    isBusy.current = false;
  };
  const id = idOf("dialog", title);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return html`<dialog ref=${dialog} aria-labelledby=${id} onClose=${close}>
    <form onSubmit=${once}>
      <h2 id=${id}>${title}</h2>
      ${children}
      <p class="buttons"><button type="button" onClick=${() => dialog.current?.close()}>${submit ? "Cancel" : "Close"}</button>
        ${submit && html`<button class="strong" disabled=${!isReady}>${done}</button>`}</p>
    </form>
  </dialog>`;
}

// A list of any length: only what is seen of it is made, and some around. `row(index)` is what stands in an entry, `rowPx`
// high; `entry(index)` are more attributes of it. `needs(first, last)` is told what is seen, and `of` gets the element.
/**
 * @typedef {object} LongListProps
 * @property {string} label
 * @property {number} total
 * @property {number} rowPx
 * @property {(index: number) => ComponentChildren} row
 * @property {(index: number) => object} [entry]
 * @property {(first: number, last: number) => unknown} needs
 * @property {Ref<HTMLElement>} of
 */
/** @param {LongListProps} props */
export function LongList({ label, total, rowPx, row, entry = () => ({}), needs, of, ...more }) {
  const [seen, setSeen] = useState(0);
  const first = Math.max(0, Math.min(seen, total) - ROWS_AROUND);
  const last = Math.min(total, seen + ROWS_SEEN + ROWS_AROUND);
  useEffect(() => void needs(first, last), [first, last]);
  const scroll = (/** @type {On<HTMLElement>} */ { target }) => setSeen(Math.floor(target.scrollTop / rowPx));
  const indexes = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
  return html`<ol aria-label=${label} class="long" ref=${of} style=${{ "--row": `${rowPx}px`, "--before": `${first * rowPx}px`, "--after": `${(total - last) * rowPx}px` }}
      onScroll=${scroll} ...${more}>
    ${indexes.map((index) => html`<li data-index=${index} aria-setsize=${total} aria-posinset=${index + 1} ...${{ key: index, ...entry(index) }}>${row(index)}</li>`)}
  </ol>`;
}

// Whether the page still hears from the node.
/** @param {{ feed: { connection: ConnectionState } }} props */
export function Connection({ feed }) {
  const text = {
    connecting: "connecting",
    open: "live",
    lost: "connection lost, trying again",
    refused: "not let in any more",
  }[feed.connection];
  const again = html` <button type="button" onClick=${() => location.reload()}>Load the page again</button>`;
  return html`<span class=${`connection ${feed.connection}`} role="status">${text}</span>${feed.connection === "refused" && again}`;
}

/** @param {{ of: string }} props */
export function Badge({ of }) {
  return html`<span class=${`badge ${of}`}>${of}</span>`;
}
