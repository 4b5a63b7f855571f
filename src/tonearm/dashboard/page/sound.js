// What is heard in this page: level, loudness, spectrum, delay.

import { Panel, useStore } from "./controls.js";
import { isLimiting } from "./player_state.js";
import { html, useEffect, useRef } from "./preact.js";
import { count } from "./text.js";

/** @import { Listening } from "./listening.js" */
/** @import { Measured, PlayerNow, PlayerParts } from "./types.js" */

const LOWEST_DB = -60;
const LOWEST_HZ = 30;
const HIGHEST_HZ = 18000;
const BARS = 48;
const DRAWN_EVERY_MS = 80;

/** @param {number} amplitude */
function decibels(amplitude) {
  return 20 * Math.log10(amplitude);
}

/** @param {number} value */
function shownDb(value) {
  return value > -100 ? value.toFixed(1) : "−∞";
}

/** @param {number} db */
function filled(db) {
  return `${Math.max(0, Math.min(100, 100 * (1 - db / LOWEST_DB)))}%`;
}

/** @param {PlayerParts} props */
export function Sound({ api, feed, state, listening }) {
  useStore(listening);
  useStore(listening.meters);
  const { told, framesMissed } = listening.of(api, feed.id);
  if (!told) return null;
  return html`<${Panel} title="Heard here">
    <${Levels} told=${told} state=${state} /><${Spectrum} listening=${listening} />
    <dl class="figures">
      <div><dt>Delay</dt><dd>${Math.round(listening.delayMs)} ms</dd></div>
      <div><dt>Buffer</dt><dd>${Math.round(told.inHandMs)} / ${told.targetMs} ms</dd></div>
      <div><dt>Dropouts</dt><dd>${told.underruns}</dd></div>
      <div><dt>Lost</dt><dd>${count(framesMissed, "frame")}</dd></div>
    </dl>
  <//>`;
}

/** @param {{ told: Measured, state: PlayerNow }} props */
function Levels({ told, state }) {
  const { peak, rms, lufs } = told;
  const highest = decibels(Math.max(...peak));
  const holds = isLimiting(state) && highest >= (state.limiter?.ceilingDb ?? 0) - 0.3;
  return html`<div class="levels" aria-hidden="true">
    ${["L", "R"].map((name, channel) => html`<span>${name}</span><div class="level" style=${{ "--rms": filled(decibels(rms[channel])), "--peak": filled(decibels(peak[channel])) }}></div>`)}
  </div>
  <dl class="figures">
    <div><dt>Peak</dt><dd>${shownDb(highest)} dB</dd></div>
    <div><dt>RMS</dt><dd>${shownDb(decibels(Math.max(...rms)))} dB</dd></div>
    <div><dt>Loudness</dt><dd>${shownDb(lufs)} LUFS</dd></div>
    <div><dt>Limiter</dt><dd>${isLimiting(state) ? (holds ? "holds peaks" : "ready") : "off"}</dd></div>
  </dl>`;
}

// Bars by frequency, from the same sound. The eye needs no more pictures a second.
/** @param {{ listening: Listening }} props */
function Spectrum({ listening }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  useEffect(() => {
    const { output, context } = listening;
    const { current: element } = canvas; // the last pictures may be drawn when it is gone from the page
    const paint = element?.getContext("2d");
    if (!output || !context || !element || !paint) return undefined;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return undefined;
    const analyser = new AnalyserNode(context, { fftSize: 4096, smoothingTimeConstant: 0.4 });
    output.connect(analyser);
    const values = new Float32Array(analyser.frequencyBinCount);
    const hertz = context.sampleRate / analyser.fftSize;
    const edge = (/** @type {number} */ bar) => (LOWEST_HZ * (HIGHEST_HZ / LOWEST_HZ) ** (bar / BARS)) / hertz;
    const bars = Array.from({ length: BARS }, (_, bar) => [
      Math.floor(edge(bar)),
      Math.max(Math.floor(edge(bar)) + 1, Math.ceil(edge(bar + 1))),
    ]);
    const draw = () => {
      if (document.hidden) return;
      const { width, height } = element;
      paint.clearRect(0, 0, width, height);
      paint.fillStyle = getComputedStyle(element).color;
      analyser.getFloatFrequencyData(values);
      bars.forEach(([first, last], bar) => {
        const loudest = Math.max(...values.subarray(first, last));
        const size = Math.max(1, Math.min(1, Math.max(0, (loudest + 100) / 80)) * height);
        paint.fillRect((bar * width) / BARS, height - size, width / BARS - 2, size);
      });
    };
    const timer = setInterval(draw, DRAWN_EVERY_MS);
    return () => {
      clearInterval(timer);
      analyser.disconnect();
      if (listening.output === output) output.disconnect(analyser);
    };
  }, [listening.output]);
  return html`<canvas class="spectrum" ref=${canvas} width="960" height="144" aria-hidden="true"></canvas>`;
}
