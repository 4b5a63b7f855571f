// The node's folders of music, and what of them is taken.

import { Dialog, Icon, LongList } from "./controls.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { count, megabytes } from "./text.js";

const PAGE = 200; // entries asked for at once
const ALL_PAGE = 1000;
const TYPED_MS = 250;
const ROW_PX = 40;

export function ChooseMusic({ api, uploads, take, close }) {
  const [places, setPlaces] = useState([{ path: "", name: "Library" }]);
  const [words, setWords] = useState("");
  const [total, setTotal] = useState(0);
  const [chosen, setChosen] = useState(new Map()); // by what can be queued
  const [problem, setProblem] = useState("");
  const [, setLoaded] = useState(0); // pages so far
  const [canSend, setCanSend] = useState(false);
  const shown = useRef({ pages: new Map() }).current; // of the folder and words that are shown
  const list = useRef(null);
  const files = useRef(null);
  const { path } = places.at(-1);
  const ask = (offset, limit) => {
    const query = words.trim() ? `&query=${encodeURIComponent(words.trim())}` : "";
    return api.get(`v0/files?path=${encodeURIComponent(path)}${query}&offset=${offset}&limit=${limit}`);
  };
  const entryAt = (index) => shown.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  const load = async (page) => {
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
      setTotal(0);
      setProblem(error.message);
    }
  };
  useEffect(() => {
    const timer = setTimeout(
      async () => {
        shown.pages = new Map();
        await load(0);
        list.current?.scrollTo(0, 0);
        if (!words) list.current?.querySelector("button, input")?.focus();
      },
      words ? TYPED_MS : 0,
    );
    return () => clearTimeout(timer);
  }, [path, words]);
  const needs = (first, last) => {
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) load(page);
  };
  const go = (next) => {
    setWords("");
    setPlaces(next);
  };
  const choose = (entries, isChosen) => {
    const next = new Map(chosen);
    for (const { uri } of entries) isChosen ? next.set(uri, true) : next.delete(uri);
    setChosen(next);
  };
  const all = async () => {
    try {
      const found = [];
      for (let offset = 0; offset < total; offset += ALL_PAGE) found.push(...(await ask(offset, ALL_PAGE)).entries);
      choose(
        found.filter(({ kind }) => kind !== "folder"),
        true,
      );
    } catch (error) {
      setProblem(error.message);
    }
  };
  const submit = (event) => {
    event?.preventDefault();
    if (!chosen.size) return;
    take([...chosen.keys()]);
    close();
  };
  const key = (event) => {
    const to = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "ArrowLeft" && places.length > 1) go(places.slice(0, -1));
    else if (event.key === "Enter" && event.target.type === "checkbox" && !chosen.size) {
      take([entryAt(Number(event.target.closest("li").dataset.index)).uri]);
      close();
    } else if (to) {
      const index = Number(event.target.closest("li").dataset.index) + to;
      list.current.querySelector(`[data-index="${index}"] :is(button, input)`)?.focus();
    } else return;
    event.preventDefault();
  };
  const row = (index) => {
    const entry = entryAt(index);
    if (!entry) return html`<span class="quiet">…</span>`;
    if (entry.kind === "folder") {
      return html`<button type="button" class="one-line" onClick=${() => go([...places, entry])}><${Icon} name="folder" />${entry.name}</button>`;
    }
    return html`<label class="choice"><input type="checkbox" checked=${chosen.has(entry.uri)} onChange=${(event) => choose([entry], event.target.checked)} />
      <span class="one-line">${entry.name}</span></label><span class="quiet number">${megabytes(entry.bytes)}</span>`;
  };
  const send = (event) => uploads.takeFiles([...event.target.files], { api, take });
  return html`<${Dialog} title="Choose music" close=${close} submit=${submit} done=${`Add ${count(chosen.size, "track")}`} isReady=${chosen.size > 0}>
    <nav aria-label="Folders" class="tools">${places.map(
      (one, at) => html`<button type="button" key=${one.path}
      aria-current=${at === places.length - 1 ? "location" : null} onClick=${() => go(places.slice(0, at + 1))}>${one.name}</button>`,
    )}</nav>
    <div class="row"><input type="search" aria-label="Search files" placeholder="Search files" value=${words} onInput=${(event) => setWords(event.target.value)} />
      <button type="button" disabled=${!total} onClick=${all}>Select all</button>
      ${
        canSend &&
        html`<button type="button" onClick=${() => files.current.click()}>Upload</button>
        <input type="file" multiple accept="audio/*,video/*" hidden ref=${files} onChange=${send} />`
      }
    </div>
    <p role="status" class="quiet">${problem}</p>
    <${LongList} label="Files" of=${list} total=${total} rowPx=${ROW_PX} row=${row} needs=${needs} onKeyDown=${key} />
  <//>`;
}
