// The 15 bands as a curve: drawn with the pointer, or typed.

import { DRAFT_KEPT_MS, NumberField, Panel, useNewest } from "./controls.js";
import { RATE_HZ } from "./frames.js";
import { html, useRef, useState } from "./preact.js";
import { PRESETS } from "./presets.js";
import { rounded } from "./text.js";

/** @import { On, PlayerParts } from "./types.js" */
/** @import { Band } from "./wire.js" */

const GAIN_MAX_DB = 24;
const Q = 2.145;
const WIDTH = 600;
const HEIGHT = 200;
const LOWEST_HZ = 20;
const HIGHEST_HZ = 20000;
const POINTS = 150;

/** @param {number} hertz */
function xOf(hertz) {
  return (WIDTH * Math.log(hertz / LOWEST_HZ)) / Math.log(HIGHEST_HZ / LOWEST_HZ);
}

/** @param {number} gain */
function yOf(gain) {
  return HEIGHT / 2 - (gain / GAIN_MAX_DB) * (HEIGHT / 2 - 8);
}

// What a peaking filter does at a frequency, in dB: R. Bristow-Johnson, "Audio EQ Cookbook".
/**
 * @param {number} center
 * @param {number} gain
 * @param {number} hertz
 */
function responseDb(center, gain, hertz) {
  if (gain === 0) return 0;
  const a = 10 ** (gain / 40);
  const w0 = (2 * Math.PI * center) / RATE_HZ;
  const alpha = Math.sin(w0) / (2 * Q);
  const cos = Math.cos(w0);
  const phi = Math.sin((Math.PI * hertz) / RATE_HZ) ** 2;
  const power = (/** @type {number} */ b0, /** @type {number} */ b1, /** @type {number} */ b2) =>
    (b0 + b1 + b2) ** 2 - 4 * (b0 * b1 + 4 * b0 * b2 + b1 * b2) * phi + 16 * b0 * b2 * phi * phi;
  return 10 * Math.log10(power(1 + alpha * a, -2 * cos, 1 - alpha * a) / power(1 + alpha / a, -2 * cos, 1 - alpha / a));
}

/** @param {Band[]} bands */
function curve(bands) {
  const points = [];
  for (let index = 0; index <= POINTS; index += 1) {
    const hertz = LOWEST_HZ * (HIGHEST_HZ / LOWEST_HZ) ** (index / POINTS);
    const gain = bands.reduce((sum, band) => sum + responseDb(band.frequency_hz, band.gain_db, hertz), 0);
    points.push(`${xOf(hertz).toFixed(1)},${yOf(Math.max(-30, Math.min(30, gain))).toFixed(1)}`);
  }
  return `M${points.join("L")}`;
}

/** @param {number} hertz */
function hertzText(hertz) {
  return hertz < 1000 ? `${hertz} Hz` : `${hertz / 1000} kHz`;
}

/** @param {PlayerParts} props */
export function Equalizer({ state, act, isGone }) {
  const [draft, setDraft] = useState(/** @type {number[] | null} */ (null)); // gains while they are drawn
  const drawing = useRef(/** @type {number[] | null} */ (null));
  const sending = useRef(Promise.resolve());
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const newest = useNewest((/** @type {number[]} */ gains) =>
    act("PATCH", "/filters", { eq: gains.map((gain_db, band) => ({ band, gain_db })) }),
  );
  const bands = state.eq.map((band, index) => ({ ...band, gain_db: draft ? draft[index] : band.gain_db }));
  const draw = (/** @type {On<SVGElement, PointerEvent>} */ event) => {
    const gains = drawing.current;
    if (!gains) return;
    const box = event.currentTarget.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    const y = ((event.clientY - box.top) / box.height) * HEIGHT;
    const gain = Math.round(2 * Math.max(-1, Math.min(1, (HEIGHT / 2 - y) / (HEIGHT / 2 - 8))) * GAIN_MAX_DB) / 2;
    const distance = (/** @type {Band} */ band) => Math.abs(xOf(band.frequency_hz) - x);
    const nearest = bands.reduce((best, band) => (distance(band) < distance(best) ? band : best));
    gains[nearest.band] = gain;
    setDraft([...gains]);
    sending.current = newest([...gains]);
  };
  const begin = (/** @type {On<SVGElement, PointerEvent>} */ event) => {
    if (isGone || event.button) return;
    clearTimeout(timer.current);
    event.currentTarget.setPointerCapture(event.pointerId);
    drawing.current = bands.map((band) => band.gain_db);
    draw(event);
  };
  const end = async () => {
    if (!drawing.current) return;
    drawing.current = null;
    await sending.current;
    if (!drawing.current) timer.current = setTimeout(() => setDraft(null), DRAFT_KEPT_MS);
  };
  const preset = (/** @type {On<HTMLSelectElement>} */ { target }) => {
    const chosen = target.value === "" ? undefined : PRESETS[Number(target.value)];
    target.value = "";
    if (chosen) act("PATCH", "/filters", { reset: true, ...chosen.filters }, `${chosen.name} is on.`);
  };
  const aside = html`<span class="buttons">
    <select aria-label="Preset" onChange=${preset}><option value="">Preset …</option>${PRESETS.map(({ name }, index) => html`<option value=${index}>${name}</option>`)}</select>
    <button type="button" onClick=${() => act("PATCH", "/filters", { eq: [] }, "The equalizer is flat.")}>Flat</button>
  </span>`;
  const lines = [-24, -12, 0, 12, 24];
  return html`<${Panel} title="Equalizer" aside=${aside}>
    <svg class="curve" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true" onPointerDown=${begin}
        onPointerMove=${draw} onPointerUp=${end} onPointerCancel=${end}>
      ${lines.map((gain) => html`<line class=${gain ? "" : "zero"} x1="0" x2=${WIDTH} y1=${yOf(gain)} y2=${yOf(gain)} />`)}
      <path class="area" d=${`${curve(bands)}L${WIDTH},${yOf(0)}L0,${yOf(0)}Z`} />
      <path class="line" d=${curve(bands)} />
      ${bands.map((band) => html`<ellipse cx=${xOf(band.frequency_hz)} cy=${yOf(band.gain_db)} rx="5" ry="5" />`)}
    </svg>
    <div class="bands" role="group" aria-label="Bands, in dB">
      ${bands.map(
        ({ band, frequency_hz, gain_db }) => html`<label><span>${hertzText(frequency_hz)}</span>
        <${NumberField} min=${-GAIN_MAX_DB} max=${GAIN_MAX_DB} step="0.5" value=${rounded(gain_db, 1)}
          send=${(/** @type {number} */ typed_db) => act("PATCH", "/filters", { eq: [{ band, gain_db: typed_db || 0 }] })} /></label>`,
      )}
    </div>
  <//>`;
}
