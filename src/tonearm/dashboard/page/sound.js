// Listens here, and shows what is heard: level, loudness, spectrum, delay.

import { Icon, Panel, useStore } from "./controls.js";
import { isLimiting } from "./player_state.js";
import { count } from "./text.js";
import { html, useEffect, useRef } from "./vendor/htm-preact-standalone.js";

const LOWEST_DB = -60;
const LOWEST_HZ = 30;
const HIGHEST_HZ = 18000;
const BARS = 48;

function decibels(amplitude) {
  return 20 * Math.log10(amplitude);
}

function shownDb(value) {
  return value > -100 ? value.toFixed(1) : "−∞";
}

function filled(db) {
  return `${Math.max(0, Math.min(100, 100 * (1 - db / LOWEST_DB)))}%`;
}

export function Sound({ state, listening, notices }) {
  useStore(listening);
  const { isOn, told } = listening;
  const toggle = () => (isOn ? listening.stop() : notices.of(listening.start()));
  const text = { off: "", starting: "connecting …", on: state.paused ? "paused" : "", lost: "connection lost, trying again" }[listening.state];
  return html`<${Panel} title="Sound" kind="sound">
    <div class="listen">
      <button type="button" class="strong" aria-pressed=${isOn} onClick=${toggle}><${Icon} name="headphones" />Listen here</button>
      <p class="quiet" role="status">${isOn ? text || listening.way : "Hear it in this page, a fifth of a second after the node."}</p>
    </div>
    ${told && html`<${Levels} told=${told} state=${state} /><${Spectrum} listening=${listening} />
      <dl class="figures">
        <div><dt>Delay</dt><dd>${Math.round(listening.delayMs)} ms</dd></div>
        <div><dt>Kept in hand</dt><dd>${Math.round(told.inHandMs)} / ${told.targetMs} ms</dd></div>
        <div><dt>Holes</dt><dd>${told.underruns}</dd></div>
        <div><dt>Never came</dt><dd>${count(listening.framesMissed, "frame")}</dd></div>
      </dl>`}
  <//>`;
}

function Levels({ told, state }) {
  const { peak, rms, lufs } = told;
  const highest = decibels(Math.max(...peak));
  const holds = isLimiting(state) && highest >= state.limiter.ceilingDb - 0.3;
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

// Bars by frequency, from the same sound.
function Spectrum({ listening }) {
  const canvas = useRef(null);
  useEffect(() => {
    const { analyser } = listening;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!analyser || still) return undefined;
    const values = new Float32Array(analyser.frequencyBinCount);
    const hertz = analyser.context.sampleRate / analyser.fftSize;
    let frame;
    const draw = () => {
      frame = requestAnimationFrame(draw);
      const { clientWidth: width, clientHeight: height } = canvas.current;
      const scale = devicePixelRatio;
      Object.assign(canvas.current, { width: width * scale, height: height * scale });
      const paint = canvas.current.getContext("2d");
      paint.scale(scale, scale);
      paint.fillStyle = getComputedStyle(canvas.current).color;
      analyser.getFloatFrequencyData(values);
      for (let bar = 0; bar < BARS; bar += 1) {
        const from = LOWEST_HZ * (HIGHEST_HZ / LOWEST_HZ) ** (bar / BARS);
        const to = LOWEST_HZ * (HIGHEST_HZ / LOWEST_HZ) ** ((bar + 1) / BARS);
        const first = Math.floor(from / hertz);
        const last = Math.max(first + 1, Math.ceil(to / hertz));
        const loudest = Math.max(...values.subarray(first, last));
        const size = Math.max(1, Math.min(1, Math.max(0, (loudest + 100) / 80)) * height);
        paint.fillRect((bar * width) / BARS, height - size, width / BARS - 1.5, size);
      }
    };
    draw();
    return () => cancelAnimationFrame(frame);
  }, [listening.analyser]);
  return html`<canvas class="spectrum" ref=${canvas} aria-hidden="true"></canvas>`;
}
