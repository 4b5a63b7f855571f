// Picture, title, and what is steered most: on the page of a player, and in the bar of the one that is heard.

import { Icon, IconButton, Slider, typed, useNow, useStore } from "./controls.js";
import { endOf, isMoving, positionAt, shownTitle } from "./player_state.js";
import { html, useRef, useState } from "./preact.js";
import { clock, rounded } from "./text.js";

/** @import { NodeApi } from "./api.js" */
/** @import { Notices } from "./controls.js" */
/** @import { PlayerFeed } from "./feeds.js" */
/** @import { Listening } from "./listening.js" */
/** @import { Act, PlayerNow, PlayerParts } from "./types.js" */

const SEEK_BY_KEY_MS = 5000;
const USUAL_VOLUME = 2;
export const HIGHEST_VOLUME = 5;

/** @param {number} value */
export function percent(value) {
  return `${rounded(100 * value, 0)} %`;
}

/** @param {PlayerParts} props */
export function Deck({ api, node, feed, state, act, notices, listening, isGone }) {
  const { title, author } = shownTitle(state);
  const stuck = state.stuck && !state.error ? `Waiting: ${state.stuck}.` : "";
  return html`<section class="panel deck" aria-label="Now">
    <${Artwork} feed=${feed} state=${state} isGone=${isGone} />
    <div class="now">
      <div aria-live="polite">
        <p class="playing-title" dir="auto">${title || "Nothing"}</p>
        <p class="quiet" dir="auto">${author || (state.trackId ? "" : "Add something to the queue.")}</p>
      </div>
      <p role="alert" class="problem">${state.error ? `${state.error.message} ${state.error.hint}` : stuck}</p>
      ${state.state === "failed" && html`<${Mend} act=${act} isGone=${isGone} />`}
      <fieldset disabled=${isGone} class="now">
        <${Progress} state=${state} act=${act} />
        <div class="transport"><${Transport} state=${state} act=${act} kind="main" />
          <${IconButton} label="Stop" icon="stop" onClick=${() => act("DELETE", "/track")} />
          <${Volume} state=${state} act=${act} /></div>
      </fieldset>
      <${ListenHere} api=${api} node=${node} id=${feed.id} state=${state} notices=${notices} listening=${listening} />
    </div>
  </section>`;
}

/** @param {{ act: Act, isGone: boolean }} props */
function Mend({ act, isGone }) {
  const [address, setAddress] = useState(/** @type {string | null} */ (null)); // while it is changed
  const replace = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const uri = address?.trim();
    if (uri && (await act("PUT", "/track", { uri }))) setAddress(null);
  };
  return html`<fieldset disabled=${isGone} class="buttons">
    <button type="button" class="strong" onClick=${() => act("POST", "/play")}>Try again</button>
    <button type="button" aria-expanded=${address !== null} onClick=${() => setAddress(address === null ? "" : null)}>Change address</button>
    ${
      address !== null &&
      html`<form class="row" onSubmit=${replace}>
      <input type="text" aria-label="New address" value=${address} spellcheck=${false} onInput=${typed(setAddress)} /><button>Replace</button></form>`
    }
  </fieldset>`;
}

/**
 * @typedef {object} ListenHereProps
 * @property {NodeApi} api
 * @property {number} node
 * @property {string} id
 * @property {PlayerNow} state
 * @property {Notices} notices
 * @property {Listening} listening
 */
/** @param {ListenHereProps} props */
function ListenHere({ api, node, id, state, notices, listening }) {
  useStore(listening);
  const isHere = listening.isAt(api, id);
  const text = {
    off: "",
    starting: "connecting …",
    on: state.paused ? "paused" : listening.of(api, id).way,
    lost: "connection lost, trying again",
  };
  return html`<div class="listen">
    <button type="button" class=${isHere ? "on" : "strong"} onClick=${() => notices.of(listening.toggle(api, node, id))}>
      <${Icon} name="headphones" />${isHere ? "Stop listening" : "Listen here"}</button>
    <p class="quiet" role="status">${isHere ? text[listening.state] : "Hear it in this page, a quarter of a second after the node."}</p>
  </div>`;
}

/** @param {PlayerNow} state */
export function isPlaying(state) {
  return !state.paused && state.state !== "idle" && state.state !== "failed";
}

/** @param {{ state: PlayerNow, act: Act, kind?: string }} props */
export function Transport({ state, act, kind = "" }) {
  const toggle = isPlaying(state) ? "pause" : "play";
  return html`<${IconButton} label="Previous" icon="previous" onClick=${() => act("POST", "/previous")} />
    <${IconButton} label=${toggle === "pause" ? "Pause" : "Play"} icon=${toggle} kind=${kind} onClick=${() => act("POST", `/${toggle}`)} />
    <${IconButton} label="Skip" icon="skip" onClick=${() => act("POST", "/skip")} />`;
}

/** @param {{ feed: PlayerFeed, state: PlayerNow, isGone?: boolean }} props */
export function Artwork({ feed, state, isGone = false }) {
  const [missing, setMissing] = useState("");
  const isHere = state.trackId && missing !== state.trackId;
  return html`<div class=${`art ${isMoving(state) && !isGone ? "turning" : ""}`}>
    ${
      isHere
        ? html`<img alt="" src=${artworkOf(feed, state)} onError=${() => setMissing(state.trackId)} />`
        : html`<svg class="disc" viewBox="0 0 100 100" aria-hidden="true"><circle class="vinyl" cx="50" cy="50" r="48" />
          ${[43, 38, 33, 28].map((radius) => html`<circle class="groove" cx="50" cy="50" r=${radius} />`)}
          <path class="shine" d="M50 50L20 14A47 47 0 0 1 42 4zM50 50L80 86A47 47 0 0 1 58 96z" />
          <circle class="label" cx="50" cy="50" r="17" /><circle class="dot" cx="50" cy="40" r="2" /><circle class="hole" cx="50" cy="50" r="2.5" /></svg>`
    }
  </div>`;
}

/**
 * @param {PlayerFeed} feed
 * @param {PlayerNow} state
 */
export function artworkOf(feed, state) {
  return `${feed.api.url(feed.path("/artwork"))}?of=${state.trackId}`;
}

/** @param {{ state: PlayerNow, act: Act }} props */
function Progress({ state, act }) {
  const now = useNow(250, isMoving(state));
  const begin = state.startMs ?? 0;
  const end = endOf(state);
  const position = positionAt(state, now);
  const canSeek = Boolean(end) && state.track.info.isSeekable;
  const text = (/** @type {number} */ value) => (end ? `${clock(value)} of ${clock(end)}` : clock(value));
  const seek = (/** @type {number} */ value) => act("PATCH", "/position", { position: Math.round(value) });
  return html`<div class="progress">
    <${Slider} label="Position" of=${state.trackId} value=${Math.max(begin, position)} min=${begin} max=${end || begin + 1} step=${1} keyStep=${SEEK_BY_KEY_MS}
      text=${text} send=${seek} isLive=${false} disabled=${!canSeek} showsLabel=${false} showsValue=${false} />
    <p class="times"><span>${clock(position)}</span><span>${end ? clock(end) : state.track.info.isStream ? "live" : ""}</span></p>
  </div>`;
}

/** @param {{ state: PlayerNow, act: Act }} props */
function Volume({ state, act }) {
  const isHigh = useRef(false); // it stays: another scale under a pointer that goes down would be a leap
  isHigh.current ||= state.volume > USUAL_VOLUME;
  const most = isHigh.current ? HIGHEST_VOLUME : USUAL_VOLUME;
  return html`<div class="volume" style=${{ "--usual": 1 / most }}>
    <${Icon} name="speaker" />
    <${Slider} label="Volume" showsLabel=${false} value=${state.volume} min=${0} max=${most} step=${0.01} text=${percent}
      send=${(/** @type {number} */ volume) => act("PATCH", "/filters", { volume })} />
  </div>`;
}
