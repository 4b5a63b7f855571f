// Picture, title, and what is steered most: on the page of a player, and in the bar of the one that is heard.

import { Icon, IconButton, Slider, useNow, useStore } from "./controls.js";
import { doing, endOf, isMoving, positionAt, shownTitle } from "./player_state.js";
import { html, useState } from "./preact.js";
import { clock, rounded } from "./text.js";

const SEEK_BY_KEY_MS = 5000;
const USUAL_VOLUME = 2;
const HIGHEST_VOLUME = 5;

export function percent(value) {
  return `${rounded(100 * value, 0)} %`;
}

export function Deck({ api, node, feed, state, act, notices, listening, isGone }) {
  const { title, author } = shownTitle(state);
  const stuck = state.stuck && !state.error ? `Waiting: ${state.stuck}.` : "";
  return html`<section class="panel deck" aria-label="Now">
    <${Artwork} feed=${feed} state=${state} isGone=${isGone} />
    <div class="now">
      <div aria-live="polite">
        <p class="playing-title">${title || "Nothing"}</p>
        <p class="quiet">${author || (state.trackId ? "" : "Add something to the queue.")}</p>
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

function Mend({ act, isGone }) {
  const [address, setAddress] = useState(null); // while it is changed
  const replace = async (event) => {
    event.preventDefault();
    if (address.trim() && (await act("PUT", "/track", { uri: address.trim() }))) setAddress(null);
  };
  return html`<fieldset disabled=${isGone} class="buttons">
    <button type="button" class="strong" onClick=${() => act("POST", "/play")}>Try again</button>
    <button type="button" aria-expanded=${address !== null} onClick=${() => setAddress(address === null ? "" : null)}>Change address</button>
    ${
      address !== null &&
      html`<form class="row" onSubmit=${replace}>
      <input type="text" aria-label="New address" value=${address} spellcheck=${false} onInput=${(event) => setAddress(event.target.value)} /><button>Replace</button></form>`
    }
  </fieldset>`;
}

function ListenHere({ api, node, id, state, notices, listening }) {
  useStore(listening);
  const isHere = listening.isAt(api, id);
  const text = {
    starting: "connecting …",
    on: state.paused ? "paused" : listening.of(api, id).way,
    lost: "connection lost, trying again",
  };
  return html`<div class="listen">
    <button type="button" class=${isHere ? "on" : "strong"} onClick=${() => notices.of(listening.toggle(api, node, id))}>
      <${Icon} name="headphones" />${isHere ? "Stop listening" : "Listen here"}</button>
    <p class="quiet" role="status">${isHere ? text[listening.state] : "Hear it in this page, a fifth of a second after the node."}</p>
  </div>`;
}

export function isPlaying(state) {
  return !state.paused && state.state !== "idle" && state.state !== "failed";
}

export function Transport({ state, act, kind = "" }) {
  const toggle = isPlaying(state) ? "pause" : "play";
  return html`<${IconButton} label="Previous" icon="previous" onClick=${() => act("POST", "/previous")} />
    <${IconButton} label=${toggle === "pause" ? "Pause" : "Play"} icon=${toggle} kind=${kind} onClick=${() => act("POST", `/${toggle}`)} />
    <${IconButton} label="Skip" icon="skip" onClick=${() => act("POST", "/skip")} />`;
}

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

export function artworkOf(feed, state) {
  return `${feed.api.url(feed.path("/artwork"))}?of=${state.trackId}`;
}

function Progress({ state, act }) {
  const now = useNow(250, isMoving(state));
  const begin = state.startMs ?? 0;
  const end = endOf(state);
  const position = positionAt(state, now);
  const canSeek = Boolean(end) && state.track.info.isSeekable;
  const text = (value) => (end ? `${clock(value)} of ${clock(end)}` : clock(value));
  const seek = (value) => act("PATCH", "/position", { position: Math.round(value) });
  return html`<div class="progress">
    <${Slider} label="Position" value=${Math.max(begin, position)} min=${begin} max=${end || begin + 1} step="1" keyStep=${SEEK_BY_KEY_MS}
      text=${text} send=${seek} isLive=${false} disabled=${!canSeek} showsLabel=${false} showsValue=${false} />
    <p class="times"><span>${clock(position)}</span><span>${end ? clock(end) : state.track.info.isStream ? "live" : ""}</span></p>
  </div>`;
}

function Volume({ state, act }) {
  const most = state.volume > USUAL_VOLUME ? HIGHEST_VOLUME : USUAL_VOLUME;
  return html`<div class="volume" style=${{ "--usual": 1 / most }}>
    <${Icon} name="speaker" />
    <${Slider} label="Volume" showsLabel=${false} value=${state.volume} min="0" max=${most} step="0.01" text=${percent}
      send=${(volume) => act("PATCH", "/filters", { volume })} />
  </div>`;
}
