// Many tracks at once, as the node takes them: in pieces, and all of them or none.

import { askForAll } from "./api.js";

/** @import { NodeApi } from "./api.js" */
/** @import { TrackToQueue } from "./types.js" */
/** @import { LeftOut, LoadResult, PlayerCreated, TrackQueued } from "./wire.js" */

const PIECE_TRACKS = 1000;
const PIECE_CHARACTERS = 250_000; // at most 4 bytes each; the node reads 1 MiB

/** @param {TrackToQueue[]} tracks */
function* pieces(tracks) {
  /** @type {TrackToQueue[]} */
  let piece = [];
  let size = 0;
  for (const track of tracks) {
    const more = JSON.stringify(track).length;
    if (piece.length && (piece.length === PIECE_TRACKS || size + more > PIECE_CHARACTERS)) {
      yield piece;
      piece = [];
      size = 0;
    }
    piece.push(track);
    size += more;
  }
  if (piece.length) yield piece;
}

// Queues `tracks`, `{uri, metadata?, startMs?, endMs?}`, in their order at `index`, else at the end. What it gives has
// `count`, what was left out, `leftOut`, and `warnings`, as the node says it. When one is refused, none is there afterwards, unless
// the player is not to stay.
/**
 * @param {NodeApi} api
 * @param {string} id
 * @param {TrackToQueue[]} tracks
 * @param {{ index?: number, stays?: boolean }} options
 */
export async function enqueue(api, id, tracks, { index, stays = true } = {}) {
  /** @type {string[]} */
  const added = [];
  let count = 0;
  const leftOut = { count: 0, reasons: /** @type {string[]} */ ([]) };
  /** @type {string[]} */
  let warnings = [];
  let sent = 0;
  try {
    for (const piece of pieces(tracks)) {
      const body = piece.length === 1 ? piece[0] : { tracks: piece };
      const place = index === undefined ? {} : { index: index + count };
      /** @type {TrackQueued} */
      const answer = await api.ask("POST", api.player(id, "/queue"), { ...body, ...place });
      const ids = answer.trackIds ?? [answer.trackId];
      added.push(...ids);
      count += ids.length;
      sent += piece.length;
      warnings = warnings.concat(answer.warnings ?? []);
      leftOut.count += answer.leftOut?.count ?? 0;
      leftOut.reasons.push(...(answer.leftOut?.reasons ?? []));
    }
  } catch (error) {
    if (stays) await askForAll(added, (track) => api.ask("DELETE", api.player(id, `/queue/${track}`))).catch(() => {});
    if (!(error instanceof Error)) throw error;
    error.message = error.message.replace(/^Track (\d+) \(counted from 0\)/, (_, at) => {
      const entry = sent + Number(at);
      return `Entry ${entry + 1} (${tracks[entry]?.uri})`;
    });
    throw error;
  }
  return { count, leftOut: notesOf(leftOut), warnings };
}

// What a node noted of what it took, to be said after a sentence.
/**
 * @param {LeftOut} [leftOut]
 * @param {string[]} warnings
 */
function notesOf(leftOut, warnings = []) {
  const counted = leftOut?.count ? [`${leftOut.count} left out:`, ...new Set(leftOut.reasons)] : [];
  return ["", ...counted, ...warnings].join(" ");
}

// Why the path of a file or a folder, or a search, cannot be played; empty when it can. Links are believed: theirs may
// answer later.
/**
 * @param {NodeApi} api
 * @param {string} uri
 */
async function problemOf(api, uri) {
  if (uri.includes("://")) return "";
  const error = await failureOf(api, uri);
  return error ? `${uri}: ${error.message} ${error.hint}` : "";
}

// Why the node cannot play it; undefined when it can, or does not say why.
/**
 * @param {NodeApi} api
 * @param {string} uri
 */
export async function failureOf(api, uri) {
  /** @type {LoadResult} */
  const answer = await api.get(`v0/loadtracks?explain=true&identifier=${encodeURIComponent(uri)}`);
  return answer.loadType === "empty" ? answer.error : undefined;
}

// Creates a player that plays `uris`. Of many it waits for all before it begins, and where one is refused there is no player.
/**
 * @param {NodeApi} api
 * @param {string} id
 * @param {string[]} uris
 */
export async function createPlayer(api, id, uris) {
  const problem = uris.length ? await problemOf(api, uris[0]) : "";
  if (problem) throw new Error(problem);
  if (uris.length < 2) {
    const body = uris.length ? { id, uri: uris[0] } : { id, idle: true };
    /** @type {PlayerCreated} */
    const { leftOut, warnings } = await api.ask("POST", "v0/players", body);
    return notesOf(leftOut, warnings);
  }
  await api.ask("POST", "v0/players", { id, idle: true, paused: true });
  try {
    const { leftOut, warnings } = await enqueue(
      api,
      id,
      uris.map((uri) => ({ uri })),
      { stays: false },
    );
    await api.ask("POST", api.player(id, "/play"));
    return leftOut + notesOf(undefined, warnings);
  } catch (error) {
    await api.ask("DELETE", api.player(id)).catch(() => {});
    throw error;
  }
}
