// What waits, and what was played. Tracks are moved by dragging, by buttons, or with Alt and an arrow key.

import { IconButton, Panel } from "./controls.js";
import { Search, droppedAddresses } from "./new_player.js";
import { addressesIn, clock, count, timeOfDay, titleOf } from "./text.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact-standalone.js";

const DRAGGED = "application/x-tonearm-track";
const PLAYED_SHOWN = 10;

export function Queue({ api, feed, state, act }) {
  const [text, setText] = useState("");
  const list = useRef(null);
  const focused = useRef(null); // the button that moved a track keeps the focus where the track went
  const tracks = feed.queue ?? [];
  useEffect(() => {
    if (!focused.current) return;
    const { id, name } = focused.current;
    const enabled = [...(list.current?.querySelectorAll(`[data-track="${id}"] [data-verb]:not(:disabled)`) ?? [])];
    (enabled.find(({ dataset }) => dataset.verb === name) ?? enabled.at(-1))?.focus();
    focused.current = null;
  }, [feed.queue]);
  const add = async (uris) => {
    if (!uris.length) return false;
    const body = uris.length === 1 ? { uri: uris[0] } : { tracks: uris.map((uri) => ({ uri })) };
    return act("POST", "/queue", body, ({ trackIds, leftOut }) => {
      const added = `${count(trackIds?.length ?? 1, "track")} added.`;
      return leftOut ? `${added} ${leftOut.count} left out: ${leftOut.reasons.join(" ")}` : added;
    });
  };
  const submit = async (event) => {
    event.preventDefault();
    const sent = text;  // more may be typed before the answer comes
    if (await add(addressesIn(sent))) setText((now) => (now === sent ? "" : now));
  };
  const paste = (event) => {
    const lines = addressesIn(event.clipboardData.getData("text"));
    if (lines.length < 2) return;
    event.preventDefault();
    add(lines);
  };
  const move = (track, index, verb) => {
    focused.current = { id: track.id, name: verb };
    return act("PATCH", `/queue/${track.id}`, { index });
  };
  const drop = async (event, index) => {
    event.stopPropagation();
    const id = event.dataTransfer.getData(DRAGGED);
    if (!id) {
      await add(await droppedAddresses(event));
      return;
    }
    event.preventDefault();
    await act("PATCH", `/queue/${id}`, { index });
  };
  const more = state.queueLength - tracks.length;
  const aside = html`<span class="buttons">
    <button type="button" disabled=${tracks.length < 2} onClick=${() => act("POST", "/queue/shuffle")}>Shuffle</button>
    <button type="button" disabled=${!tracks.length} onClick=${() => act("DELETE", "/queue", undefined, "The queue is empty.")}>Clear queue</button>
  </span>`;
  return html`<${Panel} title="Waiting" aside=${aside}>
    <form class="row" onSubmit=${submit} onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => drop(event, tracks.length)}>
      <input type="text" aria-label="Add to queue" placeholder="Address of a file, link, station or playlist" value=${text} spellcheck=${false}
        onPaste=${paste} onInput=${(event) => setText(event.target.value)} />
      <button class="strong">Add</button>
    </form>
    <${Search} api=${api} take=${(uri) => add([uri])} />
    <ol aria-label="Queue" class="queue" ref=${list} onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => drop(event, tracks.length - 1)}>
      ${tracks.map((track, index) => html`<${Waiting} key=${track.id} track=${track} index=${index} last=${state.queueLength - 1} move=${move} drop=${drop} act=${act} />`)}
    </ol>
    ${!tracks.length && html`<p class="quiet">Nothing waits. Paste addresses above, many at once if you like, or drop an M3U file.</p>`}
    ${more > 0 && html`<p class="quiet">and ${count(more, "more track")}</p>`}
  <//>`;
}

function Waiting({ track, index, last, move, drop, act }) {
  const name = titleOf(track);
  const [isOver, setOver] = useState(false);
  const key = (event) => {
    if (!event.altKey) return;
    const to = index + { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!(to >= 0 && to <= last)) return;
    event.preventDefault();
    move(track, to, event.target.dataset.verb);
  };
  const dragged = (event) => {
    event.dataTransfer.setData(DRAGGED, track.id);
    event.dataTransfer.effectAllowed = "move";
  };
  const dropped = (event) => {
    setOver(false);
    drop(event, index);
  };
  return html`<li data-track=${track.id} draggable class=${isOver ? "over" : ""} onKeyDown=${key} onDragStart=${dragged}
      onDragEnter=${() => setOver(true)} onDragLeave=${() => setOver(false)} onDrop=${dropped}>
    <span class="place" aria-hidden="true">${index + 1}</span>
    <span class="name">${name}${track.author && html` <span class="quiet">${track.author}</span>`}</span>
    <span class="quiet length">${track.length ? clock((track.endMs || track.length) - (track.startMs || 0)) : ""}</span>
    <span class="verbs">
      <${IconButton} label=${`Jump to ${name}`} icon="skip" data-verb="skip" onClick=${() => act("POST", "/skip", { to: track.id })} />
      <${IconButton} label=${`Move up ${name}`} icon="up" data-verb="up" disabled=${index === 0} onClick=${() => move(track, index - 1, "up")} />
      <${IconButton} label=${`Move down ${name}`} icon="down" data-verb="down" disabled=${index === last} onClick=${() => move(track, index + 1, "down")} />
      <${IconButton} label=${`Remove ${name}`} icon="remove" data-verb="remove" onClick=${() => act("DELETE", `/queue/${track.id}`)} />
    </span>
  </li>`;
}

export function History({ feed, act }) {
  if (!feed.history.length) return null;
  return html`<${Panel} title="Played">
    <ol class="queue" aria-label="History">
      ${feed.history.slice(0, PLAYED_SHOWN).map((track) => html`<li key=${track.id + track.endedAt}>
        <span class="place quiet">${timeOfDay(track.endedAt)}</span>
        <span class="name">${titleOf(track)}</span>
        <span class="quiet">${track.reason}</span>
        <span class="verbs"><${IconButton} label=${`Queue again ${titleOf(track)}`} icon="up"
          onClick=${() => act("POST", "/queue", again(track), "It waits at the end of the queue.")} /></span>
      </li>`)}
    </ol>
  <//>`;
}

function again({ uri, metadata, startMs, endMs }) {
  return { uri, metadata, startMs, endMs };
}
