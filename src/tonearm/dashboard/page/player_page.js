// A player: what it plays and how to steer it.

import { Connection } from "./connection.js";
import { Badge, Icon, IconButton, Slider, useNow, useStore } from "./controls.js";
import { Crossfade } from "./crossfade.js";
import { Effects } from "./effects.js";
import { Equalizer } from "./equalizer.js";
import { EventLog } from "./event_log.js";
import { PlayerFeed } from "./feeds.js";
import { Listening } from "./listening.js";
import { linkTo } from "./places.js";
import { Links, Metadata, Quality, SignalPath } from "./player_facts.js";
import { doing, endOf, isMoving, positionAt, shownTitle } from "./player_state.js";
import { History, Queue } from "./queue.js";
import { Sound } from "./sound.js";
import { Soundboard } from "./soundboard.js";
import { clock, rounded } from "./text.js";
import { html, useEffect, useMemo, useState } from "./vendor/htm-preact-standalone.js";

const SEEK_BY_KEY_MS = 5000;
const USUAL_VOLUME = 2;
const HIGHEST_VOLUME = 5;

export function PlayerPage({ api, node, id, notices, effects }) {
  const feed = useStore(useMemo(() => new PlayerFeed(api, id), [api, id]));
  const listening = useMemo(() => new Listening(api, id), [api, id]);
  useEffect(
    () => () => {
      feed.close();
      listening.stop();
    },
    [feed],
  );
  if (!feed.state) {
    return html`<div class="title-line"><h1>${id}</h1><${Connection} feed=${feed} /></div>
      <p>${feed.problem?.message ?? ""} ${feed.problem && html`<a href=${linkTo(node)}>All players</a>`}</p>`;
  }
  const { state } = feed;
  // Does a request about this player, and shows what came of it.
  const act = (method, path, body, done) => notices.of(api.ask(method, feed.path(path), body), done);
  const common = { api, feed, state, act, notices, listening };
  return html`
    <div class="title-line">
      <h1>${id}</h1><${Badge} of=${doing(state)} /><${Connection} feed=${feed} isGone=${feed.isDeleted} />
      <span class="gap"></span>
      <${DeleteButton} act=${act} node=${node} id=${id} />
    </div>
    ${feed.isDeleted && html`<p class="notice problem">There is no player of this name now. <a href=${linkTo(node)}>All players</a></p>`}
    <div class="player">
      <div class="column">
        <${Deck} ...${common} />
        <${Queue} ...${common} />
        <${Soundboard} ...${common} />
        <${Equalizer} ...${common} />
        <${Effects} ...${common} schema=${effects} />
        <${Crossfade} ...${common} />
        <${History} ...${common} />
      </div>
      <div class="column">
        <${Sound} ...${common} />
        <${SignalPath} ...${common} schema=${effects} />
        <${Quality} ...${common} />
        <${EventLog} feed=${feed} />
        <${Links} ...${common} />
        <${Metadata} ...${common} />
      </div>
    </div>`;
}

function DeleteButton({ act, node, id }) {
  const remove = async () => {
    if (!confirm(`Delete the player ${id}, with its queue?`)) return;
    if (await act("DELETE", "", undefined, `The player ${id} was deleted.`)) location.hash = linkTo(node);
  };
  return html`<button type="button" class="danger" onClick=${remove}>Delete</button>`;
}

// Picture, title, and what is steered most.
function Deck({ api, feed, state, act }) {
  const { title, author } = shownTitle(state);
  const isStopped = state.state === "idle" || state.state === "failed";
  const isPlaying = !state.paused && !isStopped;
  const problem = state.error ? `${state.error.message} ${state.error.hint}` : state.stuck ? `Waiting: ${state.stuck}.` : "";
  return html`<section class="panel deck" aria-label="Now">
    <${Artwork} api=${api} feed=${feed} state=${state} />
    <div class="now">
      <div aria-live="polite">
        <p class="playing-title">${title || "Nothing"}</p>
        <p class="quiet">${author || (state.trackId ? "" : "Add something to the queue.")}</p>
      </div>
      <p role="alert" class="problem">${problem}</p>
      <${Progress} state=${state} act=${act} />
      <div class="transport">
        <${IconButton} label="Previous" icon="previous" onClick=${() => act("POST", "/previous")} />
        ${isPlaying
          ? html`<${IconButton} label="Pause" icon="pause" kind="main" onClick=${() => act("POST", "/pause")} key="main" />`
          : html`<${IconButton} label="Play" icon="play" kind="main" onClick=${() => act("POST", "/play")} key="main" />`}
        <${IconButton} label="Skip" icon="skip" onClick=${() => act("POST", "/skip")} />
        <${IconButton} label="Stop" icon="stop" onClick=${() => act("DELETE", "/track")} />
        <${Volume} state=${state} act=${act} />
        <label class="loop"><span class="unseen">Loop</span>
          <select aria-label="Loop" value=${state.loop} onChange=${(event) => act("PATCH", "/loop", { mode: event.target.value })}>
            <option value="none">no loop</option><option value="track">loop track</option><option value="queue">loop queue</option>
          </select>
        </label>
      </div>
    </div>
  </section>`;
}

function Artwork({ api, feed, state }) {
  const [missing, setMissing] = useState("");
  const isHere = state.trackId && missing !== state.trackId;
  return html`<div class=${`art ${isMoving(state) ? "turning" : ""}`}>
    ${isHere
      ? html`<img alt="" src=${`${api.url(feed.path("/artwork"))}?of=${state.trackId}`} onError=${() => setMissing(state.trackId)} />`
      : html`<svg viewBox="0 0 100 100" aria-hidden="true"><g class="disc"><circle class="vinyl" cx="50" cy="50" r="48" />
          ${[43, 38, 33, 28].map((radius) => html`<circle class="groove" cx="50" cy="50" r=${radius} />`)}
          <path class="shine" d="M50 50L20 14A47 47 0 0 1 42 4zM50 50L80 86A47 47 0 0 1 58 96z" />
          <circle class="label" cx="50" cy="50" r="17" /><circle class="dot" cx="50" cy="40" r="2" /><circle class="hole" cx="50" cy="50" r="2.5" /></g></svg>`}
  </div>`;
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
      text=${text} send=${seek} isLive=${false} disabled=${!canSeek} showsLabel=${false} />
    <p class="times"><span>${clock(position)}</span><span>${end ? clock(end) : state.track.info.isStream ? "live" : ""}</span></p>
  </div>`;
}

function Volume({ state, act }) {
  const most = state.volume > USUAL_VOLUME ? HIGHEST_VOLUME : USUAL_VOLUME;
  const text = (value) => `${rounded(100 * value, 0)} %`;
  return html`<div class="volume">
    <${Icon} name="speaker" />
    <${Slider} label="Volume" showsLabel=${false} value=${state.volume} min="0" max=${most} step="0.01" text=${text}
      send=${(volume) => act("PATCH", "/filters", { volume })} />
    <output>${text(state.volume)}</output>
  </div>`;
}
