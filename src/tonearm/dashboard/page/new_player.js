// A new player: by an address, by many that are pasted or dropped as an M3U file, or by a search.

import { addressesIn, clock, titleOf } from "./text.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact-standalone.js";

// Creates a player with the first of `uris` and queues the others.
export async function createPlayers(api, name, uris) {
  const [first, ...others] = uris;
  await api.ask("POST", "v0/players", first ? { id: name, uri: first } : { id: name, idle: true });
  if (others.length) await api.ask("POST", api.player(name, "/queue"), { tracks: others.map((uri) => ({ uri })) });
}

// Why the path of a file or a folder, or a search, cannot be played; empty when it can. Links are believed: theirs may
// answer later.
async function problemOf(api, address) {
  if (!address || address.includes("://")) return "";
  const { error } = await api.get(`v0/loadtracks?explain=true&identifier=${encodeURIComponent(address)}`);
  return error ? `${address}: ${error.message} ${error.hint}` : "";
}

// The text of dropped files, which are lists of addresses, or of a dropped link.
export async function droppedAddresses(event) {
  event.preventDefault();
  const files = [...event.dataTransfer.files];
  if (!files.length) return addressesIn(event.dataTransfer.getData("text/uri-list") || event.dataTransfer.getData("text"));
  return (await Promise.all(files.map((file) => file.text()))).flatMap(addressesIn);
}

export function NewPlayer({ api, notices, open, close }) {
  const dialog = useRef(null);
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  useEffect(() => dialog.current.showModal(), []);
  const create = async (event) => {
    event?.preventDefault();
    setProblem("");
    const uris = addressesIn(text);
    try {
      const wrong = await problemOf(api, uris[0]);
      if (wrong) return setProblem(wrong);
      await createPlayers(api, name.trim(), uris);
    } catch (error) {
      return setProblem(error.message);
    }
    notices.show(`The player ${name.trim()} was created.`);
    close();
    open(name.trim());
  };
  const key = (event) => {
    if (event.key === "Enter" && !event.shiftKey) create(event);
  };
  const take = (uris) => setText([...addressesIn(text), ...uris].join("\n"));
  const drop = async (event) => take(await droppedAddresses(event));
  return html`<dialog ref=${dialog} aria-labelledby="new-player" onClose=${close}>
    <form onSubmit=${create} onDragOver=${(event) => event.preventDefault()} onDrop=${drop}>
      <h2 id="new-player">New player</h2>
      <label>Name<input type="text" required maxlength="128" autocomplete="off" spellcheck=${false} value=${name}
        onInput=${(event) => setName(event.target.value)} /></label>
      <label>Address<textarea rows="4" spellcheck=${false} value=${text} onKeyDown=${key} aria-describedby="address-help"
        onInput=${(event) => setText(event.target.value)}></textarea></label>
      <p id="address-help" class="quiet">A file on the node's machine, a link, a station or a playlist. Several, one a line,
      become the queue; an M3U file can be dropped here. Without one the player waits for its first track.</p>
      <${Search} api=${api} take=${(uri) => take([uri])} />
      <p role="alert" class="problem">${problem}</p>
      <p class="buttons"><button type="button" onClick=${close}>Cancel</button><button class="strong">Create</button></p>
    </form>
  </dialog>`;
}

// Searches by the node's resolver; it shows nothing where that is off.
export function Search({ api, take }) {
  const [isThere, setThere] = useState(null);
  const [words, setWords] = useState("");
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    api.canSearch().then(setThere);
  }, []);
  if (!isThere) return null;
  const search = async () => {
    setProblem("Searching …");
    try {
      const { tracks } = await api.get(`v0/search?limit=8&query=${encodeURIComponent(words)}`);
      setFound(tracks);
      setProblem(tracks.length ? "" : "Nothing was found.");
    } catch (error) {
      setProblem(error.message);
    }
  };
  const key = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    search();
  };
  return html`<div class="search">
    <div class="row"><input type="search" aria-label="Words to search for" placeholder="Search by words" value=${words} onKeyDown=${key}
      onInput=${(event) => setWords(event.target.value)} /><button type="button" onClick=${search}>Search</button></div>
    <p role="status" class="quiet">${problem}</p>
    <ul class="found">${(found ?? []).map(({ info }) => html`<li>
      <button type="button" onClick=${() => take(info.identifier)}>${titleOf(info)}</button>
      <span class="quiet">${info.author} ${info.length ? clock(info.length) : ""}</span>
    </li>`)}</ul>
  </div>`;
}
