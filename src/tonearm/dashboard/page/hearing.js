// A worker: gets a player's frames by WebSocket, decodes them and hands them to the audio thread, so that what the page
// draws holds no sound up. It is given `{url, format, output}`, and then `{moves}`: whether frames are to come. It tells of the
// connection and of how the frames come.

import { LastingSocket } from "./api.js";
import { FRAME_MS, LATENESS_LIMITS_MS, RATE_HZ } from "./frames.js";

/** @import { FromHearing, Hearer, ToHearing } from "./types.js" */

const HEADER_BYTES = 16;
const PASSED_THROUGH = 8; // flags of the header
const PRIMING = 4;
const NEW_PLACE = 2;
const PAUSE_MS = 500; // no frame for so long: the player was paused
const RATE_OVER_MS = 2000;
const FORGOTTEN_MS = 0.2; // a frame: one that came early does not make all others late for ever
const TOLD_EVERY_MS = 500;

const lateness = new Array(LATENESS_LIMITS_MS.length + 1).fill(0);
let framesMissed = 0;
/** @type {boolean | null} */
let isPassedThrough = null;
/** @type {Array<[number, number]>} */
let recent = []; // arrivals: time and bytes
/** @type {{ at: number, number: number, begin: number } | null} */
let last = null;
let toldAt = 0;
/** @type {AudioDecoder | null} */
let decoder = null;

let moves = false;

onmessage = ({ data }) => {
  if ("moves" in data) moves = data.moves;
  else hear(data);
};

/** @param {ToHearing} how */
function hear({ url, format, output }) {
  const play = format === "opus" ? decodeOpus.bind(null, output) : playPcm.bind(null, output);
  /** @type {Hearer<ArrayBuffer>} */
  const on = {
    state(connection) {
      last = null;
      tell({ connection });
    },
    message(message) {
      const header = new DataView(message);
      const flags = header.getUint8(1);
      const number = header.getUint32(4);
      isPassedThrough = (flags & PASSED_THROUGH) !== 0;
      measure(number, flags, message.byteLength);
      play(message.slice(HEADER_BYTES), number);
    },
    expects: () => moves,
  };
  new LastingSocket({ url: () => new URL(url) }, async () => "", on, "arraybuffer");
}

/** @param {FromHearing} told */
function tell(told) {
  postMessage(told);
}

/**
 * @param {MessagePort} output
 * @param {ArrayBuffer} data
 * @param {number} number
 */
function decodeOpus(output, data, number) {
  if (decoder?.state !== "configured") {
    const decoded = (/** @type {AudioData} */ sound) => {
      const samples = new Float32Array(2 * sound.numberOfFrames);
      sound.copyTo(samples, { planeIndex: 0, format: "f32" });
      sound.close();
      output.postMessage(samples, [samples.buffer]);
    };
    decoder = new AudioDecoder({ output: decoded, error: () => {} }); // the next frame begins a new one
    decoder.configure({ codec: "opus", sampleRate: RATE_HZ, numberOfChannels: 2 });
  }
  decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: number * FRAME_MS * 1000, data }));
}

/**
 * @param {MessagePort} output
 * @param {ArrayBuffer} data
 */
function playPcm(output, data) {
  const samples = Float32Array.from(new Int16Array(data), (sample) => sample / 32768);
  output.postMessage(samples, [samples.buffer]);
}

// How late this frame is against the earliest one: a frame each 20 ms.
/**
 * @param {number} number
 * @param {number} flags
 * @param {number} bytes
 */
function measure(number, flags, bytes) {
  if (flags & PRIMING) return;
  const now = performance.now();
  recent.push([now, bytes - HEADER_BYTES]);
  if (last && !(flags & NEW_PLACE)) framesMissed += Math.max(0, number - last.number - 1);
  const begin = now - number * FRAME_MS;
  if (!last || now - last.at > PAUSE_MS) last = { at: now, number, begin };
  else last = { at: now, number, begin: Math.min(begin, last.begin + FORGOTTEN_MS) };
  const late = begin - last.begin;
  const place = LATENESS_LIMITS_MS.findIndex((limit) => late <= limit);
  lateness[place < 0 ? LATENESS_LIMITS_MS.length : place] += 1;
  if (now - toldAt < TOLD_EVERY_MS) return;
  toldAt = now;
  recent = recent.filter(([at]) => now - at <= RATE_OVER_MS);
  const size = recent.reduce((sum, [, one]) => sum + one, 0);
  const bitrate = (size * 8000) / (recent.length * FRAME_MS);
  tell({ figures: { lateness, framesMissed, isPassedThrough, bitrate } });
}
