// How tracks fade into each other.

import { Panel, Slider } from "./controls.js";
import { html } from "./preact.js";
import { rounded } from "./text.js";

const LONGEST_MS = 12000;

export function Crossfade({ state, act }) {
  const { durationMs, curve, onSkip } = state.crossfade;
  const set = (fields) => act("PATCH", "/crossfade", fields);
  const text = (value) => (value ? `${rounded(value / 1000, 1)} s` : "off");
  return html`<${Panel} title="Crossfade" aside=${html`<output>${text(durationMs)}</output>`}>
    <div class="crossfade">
      <${Slider} label="Duration" value=${durationMs} min="0" max=${LONGEST_MS} step="100" text=${text} send=${(value) => set({ durationMs: value })} />
      <label class="choice">Curve <select value=${curve} onChange=${(event) => set({ curve: event.target.value })}>
        <option value="equalPower">equal power</option><option value="linear">linear</option></select></label>
      <label class="choice"><input type="checkbox" checked=${onSkip} onChange=${(event) => set({ onSkip: event.target.checked })} /> also when a track is left early</label>
    </div>
  <//>`;
}
