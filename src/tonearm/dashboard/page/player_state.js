// What a player does, as its events tell it: values only.

/** @import { EffectsSchema, NumberedEvent, PlayerNow } from "./types.js" */
/** @import { Filters, Player } from "./wire.js" */

// `player` as it was told at `heardAt` of performance.now(), all of it.
/**
 * @template {Player} P
 * @param {P} player
 * @param {number} heardAt
 */
export function seen(player, heardAt) {
  return { ...player, heardAt, toldAt: heardAt, streamTitle: "", stuck: "" };
}

// `state` after `event`, with `heardAt` of performance.now().
/**
 * @param {PlayerNow} state
 * @param {NumberedEvent} event
 * @param {number} heardAt
 * @returns {PlayerNow}
 */
export function applied(state, event, heardAt) {
  const at = { seq: event.seq ?? state.seq, heardAt: state.heardAt };
  switch (event.op) {
    case "PlayerState":
      return seen(event, heardAt);
    case "PlayerUpdate": {
      const { state: doing, paused, position, positionRate } = event;
      const stuck = doing === "loading" ? state.stuck : ""; // else it sounds again
      return { ...state, ...at, state: doing, paused, position, positionRate, heardAt, stuck };
    }
    case "TrackStart": {
      const { track, trackId, position, startMs, endMs } = event;
      return {
        ...state,
        ...at,
        track,
        trackId,
        position,
        startMs,
        endMs,
        heardAt,
        error: null,
        stuck: "",
        streamTitle: "",
      };
    }
    case "TrackEnd":
      return { ...state, ...at, stuck: "" };
    case "TrackException": {
      const { track, trackId, error } = event; // nothing else tells of a track that never sounded
      return { ...state, ...at, ...(trackId === state.trackId ? {} : { track, trackId, streamTitle: "" }), error };
    }
    case "TrackStuck":
      return { ...state, ...at, stuck: event.cause };
    case "StreamTitle":
      return { ...state, ...at, streamTitle: event.title };
    case "PlayerPause":
    case "PlayerResume":
      return { ...state, ...at, paused: event.op === "PlayerPause", position: event.position, heardAt };
    case "Seek":
      return { ...state, ...at, position: event.position, heardAt };
    case "QueueUpdate":
      return { ...state, ...at, queueLength: event.length };
    case "ListenersChange":
      return { ...state, ...at, listeners: event.listeners };
    case "LoopModeChange":
      return { ...state, ...at, loop: event.mode };
    case "FiltersChange":
      return { ...state, ...at, ...event.filters };
    case "CrossfadeChange":
      return { ...state, ...at, crossfade: event.crossfade };
    case "VoiceState":
      return { ...state, ...at, voice: event.voice };
    case "MetadataChange":
      return { ...state, ...at, metadata: event.metadata };
    default:
      return { ...state, ...at };
  }
}

/** @param {PlayerNow} state */
export function isMoving(state) {
  return state.state === "playing" && !state.paused;
}

// In ms of the file, at `now` of performance.now().
/**
 * @param {PlayerNow} state
 * @param {number} now
 */
export function positionAt(state, now) {
  const passed = isMoving(state) ? (now - state.heardAt) * state.positionRate : 0;
  const end = endOf(state) || Infinity;
  return Math.min(state.position + passed, end);
}

// Where the track ends in its file; 0 when that is not known.
/** @param {PlayerNow} state */
export function endOf(state) {
  return state.endMs || state.track.info.length;
}

// In one word, for a badge.
/** @param {PlayerNow} state */
export function doing(state) {
  return state.paused && state.state === "playing" ? "paused" : state.state;
}

/** @param {PlayerNow} state */
export function shownTitle(state) {
  const { title, author } = state.track.info;
  return { title: state.streamTitle || title || (state.trackId ? state.track.info.identifier : ""), author };
}

// Equalizer and volume are no effects: each stands before one in the way of the sound.
/** @type {Partial<Record<keyof Filters, keyof Filters>>} */
const JUST_BEFORE = { lowPass: "eq", limiter: "volume" };

// What does something to the sound now, in the order in which the sound goes through it, as `schema` has the effects.
/**
 * @param {PlayerNow} state
 * @param {EffectsSchema} schema
 */
export function effectsAtWork(state, schema) {
  const effects = /** @type {Array<keyof Filters>} */ (Object.keys(schema.properties));
  const names = effects.flatMap((name) => [JUST_BEFORE[name] ?? [], name].flat());
  return names.filter((name) => {
    if (name === "eq") return state.eq.some((band) => band.gain_db !== 0);
    if (name === "volume") return state.volume !== 1;
    if (name === "normalization") return isNormalizing(state);
    if (name === "limiter") return isLimiting(state);
    return Boolean(state[name]);
  });
}

/** @param {PlayerNow} state */
function isNormalizing({ normalization }) {
  return Boolean(normalization && normalization.mode !== "off");
}

/** @param {PlayerNow} state */
export function isLimiting(state) {
  const enabled = state.limiter?.enabled;
  const isWanted = state.compressor || isNormalizing(state) || state.crossfade.durationMs || state.overlays.length;
  return enabled === true || (enabled === "auto" && Boolean(isWanted));
}
