// The player that is heard in this browser, at the bottom of every page, on a phone's lock screen and at media keys.

import { IconButton, Slider, useNow, useStore } from "./controls.js";
import { Artwork, Transport, artworkOf, percent } from "./deck.js";
import { linkTo } from "./places.js";
import { endOf, isMoving, positionAt, shownTitle } from "./player_state.js";
import { html, useEffect, useLayoutEffect } from "./preact.js";
import { clock } from "./text.js";

/** @import { Notices } from "./controls.js" */
/** @import { PlayerFeed } from "./feeds.js" */
/** @import { Listening } from "./listening.js" */
/** @import { Act, PlayerNow } from "./types.js" */

/** @param {{ listening: Listening, notices: Notices }} props */
export function PlayerBar({ listening, notices }) {
  useStore(listening);
  const { feed } = listening;
  useStore(feed);
  if (!feed) return null;
  const state = feed.state;
  const title = state ? shownTitle(state) : { title: "connecting …", author: "" };
  const act = notices.acting(feed);
  return html`<section class="player-bar" aria-label="Player bar">
    ${state && html`<${Artwork} feed=${feed} state=${state} isGone=${feed.isGone} /><${MediaKeys} feed=${feed} state=${state} act=${act} listening=${listening} />`}
    <div class="bar-title">
      <p class="one-line"><a href=${linkTo(listening.node, feed.id)}>${feed.id}</a>${feed.isGone && html` <span class="problem">${feed.isDeleted ? "deleted" : "connection lost"}</span>`}</p>
      <p class="one-line" dir="auto"><b>${title.title || "Nothing"}</b> <span class="quiet">${title.author}</span></p>
    </div>
    ${
      state &&
      html`<${Place} state=${state} />
      <fieldset disabled=${feed.isGone}><${Transport} state=${state} act=${act} /></fieldset>`
    }
    <div class="my-volume">
      <${IconButton} label=${listening.isMuted ? "Unmute" : "Mute"} icon=${listening.isMuted ? "mute" : "speaker"} onClick=${() => listening.mute()} />
      <${Slider} label="My volume" showsLabel=${false} value=${listening.isMuted ? 0 : listening.volume} min=${0} max=${1} step=${0.01} text=${percent}
        send=${(/** @type {number} */ volume) => listening.setVolume(volume)} />
    </div>
    <${IconButton} label="Stop listening" icon="remove" onClick=${() => listening.stop()} />
  </section>`;
}

/** @param {{ state: PlayerNow }} props */
function Place({ state }) {
  const now = useNow(500, isMoving(state));
  const end = endOf(state);
  return html`<p class="bar-place quiet number">${clock(positionAt(state, now))}${end ? ` / ${clock(end)}` : ""}</p>`;
}

// What the system shows of the player, and the keys and buttons that it has for it.
/** @param {{ feed: PlayerFeed, state: PlayerNow, act: Act, listening: Listening }} props */
function MediaKeys({ feed, state, act, listening }) {
  /** @type {MediaSession | undefined} */
  const session = navigator.mediaSession; // not every browser has one
  const { title, author } = shownTitle(state);
  const isPaused = !isMoving(state);
  // Taken back at once: what is done after the next picture would take away the next player's.
  useLayoutEffect(() => {
    const seek = (/** @type {object} */ body) => act("PATCH", "/position", body);
    /** @type {Partial<Record<MediaSessionAction, MediaSessionActionHandler>>} */
    const handlers = {
      play: () => {
        listening.resume();
        act("POST", "/play");
      },
      pause: () => act("POST", "/pause"),
      nexttrack: () => act("POST", "/skip"),
      previoustrack: () => act("POST", "/previous"),
      seekto: ({ seekTime = 0 }) => seek({ position: Math.round(1000 * seekTime) }),
      seekbackward: ({ seekOffset = 10 }) => seek({ offset: Math.round(-1000 * seekOffset) }),
      seekforward: ({ seekOffset = 10 }) => seek({ offset: Math.round(1000 * seekOffset) }),
      stop: () => listening.stop(),
    };
    const set = (/** @type {boolean} */ isOn) => {
      for (const [name, handler] of Object.entries(handlers)) {
        try {
          session?.setActionHandler(/** @type {MediaSessionAction} */ (name), isOn ? handler : null);
        } catch {
          // This browser knows no such action.
        }
      }
    };
    set(true);
    return () => {
      set(false);
      if (session) Object.assign(session, { metadata: null, playbackState: "none" });
    };
  }, [feed]);
  useEffect(() => {
    if (session)
      session.metadata = new MediaMetadata({
        title,
        artist: author,
        album: feed.id,
        artwork: [{ src: artworkOf(feed, state) }],
      });
  }, [feed, title, author, state.trackId]);
  useEffect(() => {
    if (!session) return;
    session.playbackState = isPaused ? "paused" : "playing";
    const duration = endOf(state) / 1000;
    const position = Math.min(positionAt(state, performance.now()) / 1000, duration);
    session.setPositionState?.(
      duration > 0 ? { duration, position: Math.max(0, position), playbackRate: state.positionRate || 1 } : undefined,
    );
  }, [feed, isPaused, state.heardAt, state.trackId, endOf(state)]);
  return null;
}
