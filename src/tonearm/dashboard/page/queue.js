// What waits, and what was played. Tracks are moved by dragging, by buttons, or with Alt and an arrow key.

import { add } from "./adding.js";
import { ChooseMusic } from "./choose_music.js";
import { Icon, IconButton, LongList, Panel, typed } from "./controls.js";
import { Search } from "./new_player.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { enqueue } from "./queue_requests.js";
import { addressesIn, clock, count, timeOfDay, titleOf } from "./text.js";

/** @import { On, PlayerParts, TrackToQueue } from "./types.js" */
/** @import { PlayerFeed } from "./feeds.js" */
/** @import { PlayedTrack, QueuedTrackDetails } from "./wire.js" */

const DRAGGED = "application/x-tonearm-track";
const PLAYED_SHOWN = 10;
const ROW_PX = 42;
const LOOPS = { none: "off", track: "track", queue: "queue" };

/** @param {PlayerParts} props */
export function Queue({ api, feed, state, act, notices, uploads, isGone }) {
  const [text, setText] = useState("");
  const [isChoosing, setChoosing] = useState(false);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const focused = useRef(/** @type {{ id: string, index: number, verb: string } | null} */ (null)); // what had the focus that a change takes away
  const { queueLength } = state;
  // The button that moved a track keeps the focus where the track went; where the track is gone the next one's has it.
  useEffect(() => {
    if (!focused.current || !list.current) return;
    const { id, index, verb } = focused.current;
    const isGoing = verb === "remove" || verb === "skip";
    if (isGoing && feed.queue.tracks.some((track) => track.id === id)) return; // it is still there
    focused.current = null;
    if (document.activeElement !== document.body && !list.current.contains(document.activeElement)) return; // it is elsewhere by now
    const rows = [`[data-track="${id}"]`, `[data-index="${index}"]`, "li:last-child"].map((row) => {
      /** @type {NodeListOf<HTMLButtonElement> | undefined} */
      const buttons = list.current?.querySelectorAll(`${row} [data-verb]:not(:disabled)`);
      return [...(buttons ?? [])];
    });
    const enabled = rows.find((buttons) => buttons.length) ?? [];
    (enabled.find(({ dataset }) => dataset.verb === verb) ?? enabled.at(-1) ?? field.current)?.focus();
  }, [feed.queue]);
  /**
   * @param {QueuedTrackDetails} track
   * @param {number} index
   * @param {string} verb
   * @param {Promise<unknown>} work
   */
  const changing = (track, index, verb, work) => {
    focused.current = { id: track.id, index, verb };
    return work;
  };
  const addAll = (/** @type {string[]} */ uris) => add(api, feed.id, notices, uris);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const sent = text; // more may be typed before the answer comes
    if (await addAll(addressesIn(sent))) setText((now) => (now === sent ? "" : now));
  };
  const paste = (/** @type {ClipboardEvent} */ event) => {
    const lines = addressesIn(event.clipboardData?.getData("text") ?? "");
    if (event.clipboardData?.files.length || lines.length < 2) return;
    event.preventDefault();
    addAll(lines);
  };
  const move = (/** @type {QueuedTrackDetails} */ track, /** @type {number} */ index, /** @type {string} */ verb) =>
    changing(track, index, verb, act("PATCH", `/queue/${track.id}`, { index }));
  const back = (/** @type {QueuedTrackDetails[]} */ tracks, /** @type {number} */ index) =>
    notices.of(enqueue(api, feed.id, tracks.map(asQueued), { index }));
  const remove = async (/** @type {QueuedTrackDetails} */ track, /** @type {number} */ index) => {
    if (await changing(track, index, "remove", act("DELETE", `/queue/${track.id}`)))
      notices.went(`${titleOf(track)} was removed.`, () => back([track], index));
  };
  const clear = async () => {
    /** @type {QueuedTrackDetails[] | undefined} */
    const tracks = await notices.of(api.get(feed.path("/queue?details=true")));
    if (!tracks || !(await act("DELETE", "/queue"))) return;
    notices.went(`${count(tracks.length, "track")} ${tracks.length === 1 ? "was" : "were"} cleared.`, () =>
      back(tracks, 0),
    );
    field.current?.focus();
  };
  const drop = (/** @type {DragEvent} */ event, /** @type {number} */ index) => {
    const id = event.dataTransfer?.getData(DRAGGED);
    if (!id) return;
    event.preventDefault();
    act("PATCH", `/queue/${id}`, { index });
  };
  const entry = (/** @type {number} */ index) => {
    const track = feed.trackAt(index);
    if (!track) return {};
    const key = (/** @type {On<HTMLElement, KeyboardEvent>} */ event) => {
      const to = index + Number(event.key === "ArrowDown") - Number(event.key === "ArrowUp");
      if (!event.altKey || to === index || to < 0 || to >= queueLength) return;
      event.preventDefault();
      move(track, to, event.target.dataset.verb ?? "");
    };
    const dragged = (/** @type {DragEvent} */ event) => {
      if (!event.dataTransfer) return;
      event.dataTransfer.setData(DRAGGED, track.id);
      event.dataTransfer.effectAllowed = "move";
    };
    return {
      key: track.id,
      "data-track": track.id,
      draggable: true,
      onKeyDown: key,
      onDragStart: dragged,
      onDrop: (/** @type {DragEvent} */ event) => drop(event, index),
    };
  };
  const row = (/** @type {number} */ index) => {
    const track = feed.trackAt(index);
    if (!track) return html`<span class="place">${index + 1}</span><span class="quiet">…</span>`;
    const name = titleOf(track);
    const jump = () => changing(track, index, "skip", act("POST", "/skip", { to: track.id }));
    return html`<span class="place" aria-hidden="true">${index + 1}</span>
      <span class="name one-line" dir="auto" title=${name}>${name}${track.author && html` <span class="quiet">${track.author}</span>`}</span>
      <span class="quiet length">${track.length ? clock(lengthOf(track)) : ""}</span>
      <span class="verbs">
        <${IconButton} label=${`Jump to ${name}`} icon="skip" data-verb="skip" onClick=${jump} />
        <${IconButton} label=${`Move up ${name}`} icon="up" data-verb="up" disabled=${index === 0} onClick=${() => move(track, index - 1, "up")} />
        <${IconButton} label=${`Move down ${name}`} icon="down" data-verb="down" disabled=${index === queueLength - 1} onClick=${() => move(track, index + 1, "down")} />
        <${IconButton} label=${`Remove ${name}`} icon="remove" data-verb="remove" onClick=${() => remove(track, index)} />
      </span>`;
  };
  const aside = html`<span class="quiet number">${totalOf(feed, queueLength)}</span><span class="gap"></span><span class="buttons">
    <label class="round loop" title=${`Loop: ${LOOPS[state.loop]}`}><${Icon} name=${state.loop} />
      <select aria-label="Loop" value=${state.loop} onChange=${typed((mode) => act("PATCH", "/loop", { mode }))}>
        ${Object.entries(LOOPS).map(([mode, name]) => html`<option value=${mode}>${name}</option>`)}</select></label>
    <button type="button" disabled=${isGone || queueLength < 2} onClick=${() => act("POST", "/queue/shuffle")}>Shuffle</button>
    <button type="button" disabled=${isGone || !queueLength} onClick=${clear}>Clear queue</button>
  </span>`;
  return html`<${Panel} title="Up next" aside=${aside}>
    <form class="row" onSubmit=${submit}>
      <input type="text" ref=${field} aria-label="Add to queue" placeholder="Address of a file, link, station or playlist" value=${text} spellcheck=${false}
        data-shortcut="/" onPaste=${paste} onInput=${typed(setText)} />
      <button class="strong" disabled=${isGone}>Add</button><button type="button" disabled=${isGone} onClick=${() => setChoosing(true)}>Browse</button>
    </form>
    <${Search} api=${api} take=${(/** @type {string} */ uri) => addAll([uri])} />
    <fieldset disabled=${isGone}>
      <${LongList} label="Queue" of=${list} total=${queueLength} rowPx=${ROW_PX} row=${row} entry=${entry} onDragOver=${(/** @type {Event} */ event) => event.preventDefault()}
        needs=${(/** @type {number} */ first, /** @type {number} */ last) => feed.showQueue(first, last)} />
    </fieldset>
    ${!queueLength && html`<p class="quiet">Nothing waits. Paste addresses above, many at once if you like, or drop music or a list on this page.</p>`}
    ${isChoosing && html`<${ChooseMusic} api=${api} uploads=${uploads} take=${addAll} close=${() => setChoosing(false)} />`}
  <//>`;
}

/** @param {QueuedTrackDetails} track */
function lengthOf({ length = 0, startMs, endMs }) {
  return (endMs || length) - (startMs || 0);
}

// How many wait and for how long, as far as it is known.
/**
 * @param {PlayerFeed} feed
 * @param {number} queueLength
 */
function totalOf(feed, queueLength) {
  if (!queueLength) return "";
  const known = feed.queue.tracks.filter(({ length }) => length);
  const sum = known.reduce((all, track) => all + lengthOf(track), 0);
  return `${count(queueLength, "track")}${sum ? `, ${known.length < queueLength ? "over " : ""}${clock(sum)}` : ""}`;
}

/** @param {PlayerParts} props */
export function Played({ feed, act }) {
  if (!feed.history.length) return null;
  const again = (/** @type {PlayedTrack} */ track) =>
    act("POST", "/queue", asQueued(track), "It waits at the end of the queue.");
  return html`<${Panel} title="Played">
    <ol class="queue" aria-label="History">
      ${feed.history.slice(0, PLAYED_SHOWN).map((track) => {
        const name = titleOf({ ...track, ...feed.titles.get(track.id) });
        return html`<li key=${track.id + track.endedAt}>
          <span class="place quiet">${timeOfDay(track.endedAt)}</span>
          <span class="name one-line" dir="auto" title=${name}>${name}</span>
          <span class="quiet">${track.reason}</span>
          <span class="verbs"><${IconButton} label=${`Queue again ${name}`} icon="up" onClick=${() => again(track)} /></span>
        </li>`;
      })}
    </ol>
  <//>`;
}

/**
 * @param {TrackToQueue} track
 * @returns {TrackToQueue}
 */
function asQueued({ uri, metadata, startMs, endMs }) {
  return { uri, metadata, startMs, endMs };
}
