// How tracks fade into each other.

import { Panel, Slider, ticked, typed } from "./controls.js";
import { html } from "./preact.js";
import { rounded } from "./text.js";

/** @import { PlayerParts } from "./types.js" */
/** @import { Crossfade as Fields } from "./wire.js" */

const LONGEST_MS = 12000;

/** @param {PlayerParts} props */
export function Crossfade({ state, act }) {
  const { durationMs, curve, onSkip } = state.crossfade;
  const set = (/** @type {Partial<Fields>} */ fields) => act("PATCH", "/crossfade", fields);
  const text = (/** @type {number} */ value) => (value ? `${rounded(value / 1000, 1)} s` : "off");
  return html`<${Panel} title="Crossfade" aside=${html`<output>${text(durationMs)}</output>`}>
    <div class="crossfade">
      <${Slider} label="Duration" value=${durationMs} min=${0} max=${LONGEST_MS} step=${100} text=${text}
        send=${(/** @type {number} */ durationMs) => set({ durationMs })} />
      <label class="choice">Curve <select value=${curve} onChange=${typed((chosen) => set({ curve: chosen === "linear" ? chosen : "equalPower" }))}>
        <option value="equalPower">equal power</option><option value="linear">linear</option></select></label>
      <label class="choice"><input type="checkbox" checked=${onSkip} onChange=${ticked((isOn) => set({ onSkip: isOn }))} /> also when a track is left early</label>
    </div>
  <//>`;
}
