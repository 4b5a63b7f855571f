// A new player: by an address, by many that are pasted or dropped as a list, from the node's folders, or by a search.

import { ApiError, messageOf } from "./api.js";
import { ChooseMusic } from "./choose_music.js";
import { Dialog, ticked, typed } from "./controls.js";
import { isId, linkTo } from "./places.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { createPlayer } from "./queue_requests.js";
import { addressesIn, clock, titleOf } from "./text.js";

/** @import { NodeApi } from "./api.js" */
/** @import { On, PageParts } from "./types.js" */
/** @import { FoundTracks } from "./wire.js" */

/** @param {PageParts & { close: () => void, name?: string, uris?: string[] }} props */
export function NewPlayer({ api, node, notices, listening, uploads, close, name: wanted = "", uris = [] }) {
  const [name, setName] = useState(wanted);
  const [text, setText] = useState(uris.join("\n"));
  const [listens, setListens] = useState(true);
  const [problem, setProblem] = useState({ message: "", taken: "" });
  const [isChoosing, setChoosing] = useState(false);
  const isWrong = name !== "" && !isId(name);
  const open = (/** @type {string} */ id) => {
    close();
    location.hash = linkTo(node, id);
  };
  const create = async () => {
    if (!isId(name)) return;
    setProblem({ message: "", taken: "" });
    const created = createPlayer(api, name, addressesIn(text));
    // The sound begins with the click; a refusal is said once, below.
    if (listens) notices.of(listening.start(api, node, name, created));
    try {
      const leftOut = await created;
      notices.show(`The player ${name} was created.${leftOut}`);
      open(name);
    } catch (error) {
      const isTaken = error instanceof ApiError && error.code === "player_exists";
      setProblem({ message: messageOf(error), taken: isTaken ? name : "" });
    }
  };
  const key = (/** @type {On<HTMLTextAreaElement, KeyboardEvent>} */ event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    event.target.form?.requestSubmit();
  };
  const take = async (/** @type {string[]} */ more) => setText((now) => [...addressesIn(now), ...more].join("\n"));
  useEffect(() => uploads.towards({ api, take }), []); // what is dropped, too
  return html`<${Dialog} title="New player" close=${close} submit=${create} done="Create">
      <label>Name<input type="text" required maxlength="128" autocomplete="off" spellcheck=${false} value=${name} aria-invalid=${isWrong}
        aria-describedby="name-help" onInput=${typed((text) => setName(text.replace(/\s/g, "-")))} /></label>
      <p id="name-help" class=${isWrong ? "problem" : "quiet"}>Letters without accents, digits and . _ ~ : @ + - are for names.</p>
      <label>Address<textarea rows="4" spellcheck=${false} value=${text} onKeyDown=${key} aria-describedby="address-help"
        onInput=${typed(setText)}></textarea></label>
      <p class="help"><span id="address-help" class="quiet">A file on the node's machine, a link, a station or a playlist. Several, one a line,
        become the queue. Without one the player waits for its first track.</span>
        <button type="button" onClick=${() => setChoosing(true)}>Browse</button></p>
      <${Search} api=${api} take=${(/** @type {string} */ uri) => take([uri])} />
      <label class="choice"><input type="checkbox" checked=${listens} onChange=${ticked(setListens)} /> Listen here</label>
      <p role="alert" class="problem">${problem.message}
        ${problem.taken && html` <button type="button" onClick=${() => open(problem.taken)}>Open ${problem.taken}</button>`}</p>
    <//>
    ${isChoosing && html`<${ChooseMusic} api=${api} uploads=${uploads} take=${take} close=${() => setChoosing(false)} />`}`;
}

// Searches by the node's resolver; it shows nothing where that is off.
/** @param {{ api: NodeApi, take: (uri: string) => unknown }} props */
export function Search({ api, take }) {
  const [isThere, setThere] = useState(false);
  const [words, setWords] = useState("");
  const [found, setFound] = useState(/** @type {FoundTracks["tracks"]} */ ([]));
  const [problem, setProblem] = useState("");
  const newest = useRef(Symbol());
  useEffect(() => {
    api.hasResolver().then(setThere);
  }, []);
  if (!isThere) return null;
  const search = async () => {
    const mine = (newest.current = Symbol());
    setProblem("Searching …");
    /** @type {FoundTracks["tracks"]} */
    let tracks = [];
    let said = "Nothing was found.";
    try {
      /** @type {FoundTracks} */
      const answer = await api.get(`v0/search?limit=8&query=${encodeURIComponent(words)}`);
      tracks = answer.tracks;
    } catch (error) {
      said = messageOf(error);
    }
    if (newest.current !== mine) return; // other words were searched for meanwhile
    setFound(tracks);
    setProblem(tracks.length ? "" : said);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    search();
  };
  return html`<div class="search">
    <div class="row"><input type="search" aria-label="Words to search for" placeholder="Search by words" value=${words} onKeyDown=${key}
      onInput=${typed(setWords)} /><button type="button" onClick=${search}>Search</button></div>
    <p role="status" class="quiet">${problem}</p>
    <ul class="found">${found.map(
      ({ info }) => html`<li>
      <button type="button" onClick=${() => take(info.identifier)}>${titleOf(info)}</button>
      <span class="quiet">${info.author} ${info.length ? clock(info.length) : ""}</span>
    </li>`,
    )}</ul>
  </div>`;
}
