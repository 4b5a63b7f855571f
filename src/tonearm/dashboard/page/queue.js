// What waits, and what was played. Tracks are moved by dragging, by buttons, or with Alt and an arrow key.

import { add } from "./adding.js";
import { ChooseMusic } from "./choose_music.js";
import { Icon, IconButton, LongList, Panel } from "./controls.js";
import { Search } from "./new_player.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { enqueue } from "./queue_requests.js";
import { addressesIn, clock, count, timeOfDay, titleOf } from "./text.js";

const DRAGGED = "application/x-tonearm-track";
const PLAYED_SHOWN = 10;
const ROW_PX = 42;
const LOOPS = { none: "off", track: "track", queue: "queue" };

export function Queue({ api, feed, state, act, notices, uploads, isGone }) {
  const [text, setText] = useState("");
  const [isChoosing, setChoosing] = useState(false);
  const list = useRef(null);
  const field = useRef(null);
  const focused = useRef(null); // what had the focus that a change takes away
  const { queueLength } = state;
  // The button that moved a track keeps the focus where the track went; where the track is gone the next one's has it.
  useEffect(() => {
    if (!focused.current) return;
    const { id, index, verb } = focused.current;
    const isGoing = verb === "remove" || verb === "skip";
    if (isGoing && feed.queue.tracks.some((track) => track.id === id)) return; // it is still there
    focused.current = null;
    if (document.activeElement !== document.body && !list.current.contains(document.activeElement)) return; // it is elsewhere by now
    const of = (row) => [...list.current.querySelectorAll(`${row} [data-verb]:not(:disabled)`)];
    const enabled = [`[data-track="${id}"]`, `[data-index="${index}"]`, "li:last-child"]
      .map(of)
      .find((found) => found.length) ?? [field.current];
    (enabled.find(({ dataset }) => dataset.verb === verb) ?? enabled.at(-1)).focus();
  }, [feed.queue]);
  const changing = (track, index, verb, work) => {
    focused.current = { id: track.id, index, verb };
    return work;
  };
  const addAll = (uris) => add(api, feed.id, notices, uris);
  const submit = async (event) => {
    event.preventDefault();
    const sent = text; // more may be typed before the answer comes
    if (await addAll(addressesIn(sent))) setText((now) => (now === sent ? "" : now));
  };
  const paste = (event) => {
    const lines = addressesIn(event.clipboardData.getData("text"));
    if (event.clipboardData.files.length || lines.length < 2) return;
    event.preventDefault();
    addAll(lines);
  };
  const move = (track, index, verb) => changing(track, index, verb, act("PATCH", `/queue/${track.id}`, { index }));
  const back = (tracks, index) => notices.of(enqueue(api, feed.id, tracks.map(asQueued), { index }));
  const remove = async (track, index) => {
    if (await changing(track, index, "remove", act("DELETE", `/queue/${track.id}`)))
      notices.went(`${titleOf(track)} was removed.`, () => back([track], index));
  };
  const clear = async () => {
    const tracks = await notices.of(api.get(feed.path("/queue?details=true")));
    if (!tracks || !(await act("DELETE", "/queue"))) return;
    notices.went(`${count(tracks.length, "track")} ${tracks.length === 1 ? "was" : "were"} cleared.`, () =>
      back(tracks, 0),
    );
    field.current.focus();
  };
  const drop = (event, index) => {
    const id = event.dataTransfer.getData(DRAGGED);
    if (!id) return;
    event.preventDefault();
    act("PATCH", `/queue/${id}`, { index });
  };
  const entry = (index) => {
    const track = feed.trackAt(index);
    if (!track) return {};
    const key = (event) => {
      const to = index + { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!event.altKey || !(to >= 0 && to < queueLength)) return;
      event.preventDefault();
      move(track, to, event.target.dataset.verb);
    };
    const dragged = (event) => {
      event.dataTransfer.setData(DRAGGED, track.id);
      event.dataTransfer.effectAllowed = "move";
    };
    return {
      key: track.id,
      "data-track": track.id,
      draggable: true,
      onKeyDown: key,
      onDragStart: dragged,
      onDrop: (event) => drop(event, index),
    };
  };
  const row = (index) => {
    const track = feed.trackAt(index);
    if (!track) return html`<span class="place">${index + 1}</span><span class="quiet">…</span>`;
    const name = titleOf(track);
    const jump = () => changing(track, index, "skip", act("POST", "/skip", { to: track.id }));
    return html`<span class="place" aria-hidden="true">${index + 1}</span>
      <span class="name one-line" title=${name}>${name}${track.author && html` <span class="quiet">${track.author}</span>`}</span>
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
      <select aria-label="Loop" value=${state.loop} onChange=${(event) => act("PATCH", "/loop", { mode: event.target.value })}>
        ${Object.entries(LOOPS).map(([mode, name]) => html`<option value=${mode}>${name}</option>`)}</select></label>
    <button type="button" disabled=${isGone || queueLength < 2} onClick=${() => act("POST", "/queue/shuffle")}>Shuffle</button>
    <button type="button" disabled=${isGone || !queueLength} onClick=${clear}>Clear queue</button>
  </span>`;
  return html`<${Panel} title="Up next" aside=${aside}>
    <form class="row" onSubmit=${submit}>
      <input type="text" ref=${field} aria-label="Add to queue" placeholder="Address of a file, link, station or playlist" value=${text} spellcheck=${false}
        data-shortcut="/" onPaste=${paste} onInput=${(event) => setText(event.target.value)} />
      <button class="strong" disabled=${isGone}>Add</button><button type="button" disabled=${isGone} onClick=${() => setChoosing(true)}>Browse</button>
    </form>
    <${Search} api=${api} take=${(uri) => addAll([uri])} />
    <fieldset disabled=${isGone}>
      <${LongList} label="Queue" of=${list} total=${queueLength} rowPx=${ROW_PX} row=${row} entry=${entry} onDragOver=${(event) => event.preventDefault()}
        needs=${(first, last) => feed.showQueue(first, last)} />
    </fieldset>
    ${!queueLength && html`<p class="quiet">Nothing waits. Paste addresses above, many at once if you like, or drop music or a list on this page.</p>`}
    ${isChoosing && html`<${ChooseMusic} api=${api} uploads=${uploads} take=${addAll} close=${() => setChoosing(false)} />`}
  <//>`;
}

function lengthOf({ length, startMs, endMs }) {
  return (endMs || length) - (startMs || 0);
}

// How many wait and for how long, as far as it is known.
function totalOf(feed, queueLength) {
  if (!queueLength) return "";
  const known = feed.queue.tracks.filter(({ length }) => length);
  const sum = known.reduce((all, track) => all + lengthOf(track), 0);
  return `${count(queueLength, "track")}${sum ? `, ${known.length < queueLength ? "over " : ""}${clock(sum)}` : ""}`;
}

export function Played({ feed, act }) {
  if (!feed.history.length) return null;
  const again = (track) => act("POST", "/queue", asQueued(track), "It waits at the end of the queue.");
  return html`<${Panel} title="Played">
    <ol class="queue" aria-label="History">
      ${feed.history.slice(0, PLAYED_SHOWN).map((track) => {
        const name = titleOf({ ...track, ...feed.titles.get(track.id) });
        return html`<li key=${track.id + track.endedAt}>
          <span class="place quiet">${timeOfDay(track.endedAt)}</span>
          <span class="name one-line" title=${name}>${name}</span>
          <span class="quiet">${track.reason}</span>
          <span class="verbs"><${IconButton} label=${`Queue again ${name}`} icon="up" onClick=${() => again(track)} /></span>
        </li>`;
      })}
    </ol>
  <//>`;
}

function asQueued({ uri, metadata, startMs, endMs }) {
  return { uri, metadata, startMs, endMs };
}
