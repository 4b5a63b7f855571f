// The node's folders of music, and what of them is taken.

import { messageOf } from "./api.js";
import { Dialog, Icon, LongList, choosing, focusOn, ticked, typed } from "./controls.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { count, megabytes } from "./text.js";

/** @import { Uploads } from "./adding.js" */
/** @import { NodeApi } from "./api.js" */
/** @import { On, Take } from "./types.js" */
/** @import { LibraryEntry, LibraryFiles } from "./wire.js" */

const PAGE = 200; // entries asked for at once
const ALL_PAGE = 1000;
const TYPED_MS = 250;
const ROW_PX = 40;

/** @param {{ api: NodeApi, uploads: Uploads, take: Take, close: () => void }} props */
export function ChooseMusic({ api, uploads, take, close }) {
  const [places, setPlaces] = useState([{ path: "", name: "Library" }]);
  const [words, setWords] = useState("");
  const [total, setTotal] = useState(0);
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set())); // by what can be queued
  const [problem, setProblem] = useState("");
  const [, setLoaded] = useState(0); // pages so far
  const [canSend, setCanSend] = useState(false);
  const shown = useRef({ pages: /** @type {Map<number, LibraryEntry[]>} */ (new Map()) }).current; // of the folder and words that are shown
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const files = useRef(/** @type {HTMLInputElement | null} */ (null));
  const { path } = places[places.length - 1];
  /**
   * @param {number} offset
   * @param {number} limit
   * @returns {Promise<LibraryFiles>}
   */
  const ask = (offset, limit) => {
    const query = words.trim() ? `&query=${encodeURIComponent(words.trim())}` : "";
    return api.get(`v0/files?path=${encodeURIComponent(path)}${query}&offset=${offset}&limit=${limit}`);
  };
  const entryAt = (/** @type {number} */ index) => shown.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  const load = async (/** @type {number} */ page) => {
    const { pages } = shown;
    if (pages.has(page)) return;
    pages.set(page, []);
    try {
      const answer = await ask(page * PAGE, PAGE);
      if (pages !== shown.pages) return; // another folder is shown by now
      pages.set(page, answer.entries);
      setLoaded((before) => before + 1);
      setTotal(answer.total);
      setCanSend(answer.takesFiles);
      setProblem(answer.total ? "" : "There is nothing here that can be played.");
    } catch (error) {
      pages.delete(page);
      if (pages !== shown.pages) return;
      if (!page) setTotal(0);
      setProblem(messageOf(error));
    }
  };
  useEffect(() => {
    const timer = setTimeout(
      async () => {
        shown.pages = new Map();
        await load(0);
        list.current?.scrollTo(0, 0);
        if (!words) focusOn("button, input", list.current);
      },
      words ? TYPED_MS : 0,
    );
    return () => clearTimeout(timer);
  }, [path, words]);
  const needs = (/** @type {number} */ first, /** @type {number} */ last) => {
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) load(page);
  };
  const go = (/** @type {typeof places} */ next) => {
    setWords("");
    setPlaces(next);
  };
  const choose = (/** @type {LibraryEntry[]} */ entries, /** @type {boolean} */ isChosen) => {
    const uris = entries.map(({ uri }) => uri);
    setChosen((before) => choosing(before, uris, isChosen));
  };
  const all = async () => {
    try {
      /** @type {LibraryEntry[]} */
      const found = [];
      for (let offset = 0; offset < total; offset += ALL_PAGE) found.push(...(await ask(offset, ALL_PAGE)).entries);
      choose(
        found.filter(({ kind }) => kind !== "folder"),
        true,
      );
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  const submit = () => {
    if (!chosen.size) return;
    take([...chosen]);
    close();
  };
  const key = (/** @type {On<HTMLInputElement, KeyboardEvent>} */ event) => {
    const to = Number(event.key === "ArrowDown") - Number(event.key === "ArrowUp");
    const index = Number(event.target.closest("li")?.dataset.index);
    const entry = entryAt(index);
    if (event.key === "ArrowLeft" && places.length > 1) go(places.slice(0, -1));
    else if (event.key === "Enter" && event.target.type === "checkbox" && !chosen.size && entry) {
      take([entry.uri]);
      close();
    } else if (to) focusOn(`[data-index="${index + to}"] :is(button, input)`, list.current);
    else return;
    event.preventDefault();
  };
  const row = (/** @type {number} */ index) => {
    const entry = entryAt(index);
    if (!entry) return html`<span class="quiet">…</span>`;
    if (entry.kind === "folder") {
      return html`<button type="button" class="one-line" onClick=${() => go([...places, entry])}><${Icon} name="folder" />${entry.name}</button>`;
    }
    return html`<label class="choice"><input type="checkbox" checked=${chosen.has(entry.uri)} onChange=${ticked((isChosen) => choose([entry], isChosen))} />
      <span class="one-line" dir="auto">${entry.name}</span></label><span class="quiet number">${megabytes(entry.bytes)}</span>`;
  };
  const send = (/** @type {On<HTMLInputElement>} */ { target }) => {
    uploads.takeFiles([...(target.files ?? [])], { api, take });
    target.value = ""; // so that the same file can be chosen again
  };
  return html`<${Dialog} title="Choose music" close=${close} submit=${submit} done=${`Add ${count(chosen.size, "track")}`} isReady=${chosen.size > 0}>
    <nav aria-label="Folders" class="tools">${places.map(
      (one, at) => html`<button type="button" key=${one.path}
      aria-current=${at === places.length - 1 ? "location" : null} onClick=${() => go(places.slice(0, at + 1))}>${one.name}</button>`,
    )}</nav>
    <div class="row"><input type="search" aria-label="Search files" placeholder="Search files" value=${words} onInput=${typed(setWords)} />
      <button type="button" disabled=${!total} onClick=${all}>Select all</button>
      ${
        canSend &&
        html`<button type="button" onClick=${() => files.current?.click()}>Upload</button>
        <input type="file" multiple accept="audio/*,video/*" hidden ref=${files} onChange=${send} />`
      }
    </div>
    <p role="status" class="quiet">${problem}</p>
    <${LongList} label="Files" of=${list} total=${total} rowPx=${ROW_PX} row=${row} needs=${needs} onKeyDown=${key} />
  <//>`;
}
