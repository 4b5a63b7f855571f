// Sounds over the music. The browser keeps which ones there are; the node plays them.

import { IconButton, Panel, Slider, useNow } from "./controls.js";
import { clock, rounded, titleOf } from "./text.js";
import { html, useState } from "./vendor/htm-preact-standalone.js";

const KEPT_AS = "tonearm.soundboard";

function kept() {
  try {
    const sounds = JSON.parse(localStorage.getItem(KEPT_AS) ?? "[]");
    return sounds.filter(({ uri }) => typeof uri === "string");
  } catch {
    return [];
  }
}

export function Soundboard({ state, act }) {
  const [sounds, setSounds] = useState(kept);
  const [uri, setUri] = useState("");
  const [settings, setSettings] = useState({ volume: 1, duckDb: -12 });
  const keep = (changed) => {
    setSounds(changed);
    localStorage.setItem(KEPT_AS, JSON.stringify(changed));
  };
  const submit = (event) => {
    event.preventDefault();
    const address = uri.trim();
    if (!address || sounds.some((sound) => sound.uri === address)) return;
    keep([...sounds, { uri: address }]);
    setUri("");
  };
  const sound = (address) => act("POST", "/overlays", { uri: address, ...settings });
  return html`<${Panel} title="Soundboard">
    <div class="pads">
      ${sounds.map((one) => html`<span class="pad" key=${one.uri}>
        <button type="button" title=${one.uri} onClick=${() => sound(one.uri)}>${titleOf(one)}</button>
        <${IconButton} label=${`Forget ${titleOf(one)}`} icon="remove" onClick=${() => keep(sounds.filter(({ uri: other }) => other !== one.uri))} />
      </span>`)}
    </div>
    <form class="row" onSubmit=${submit}>
      <input type="text" aria-label="Sound" placeholder="Address of a jingle, a horn, an announcement" value=${uri} spellcheck=${false} onInput=${(event) => setUri(event.target.value)} />
      <button>Keep</button>
    </form>
    <div class="amounts">
      <${Slider} label="Loudness" value=${settings.volume} min="0" max="2" step="0.05" text=${(value) => `${rounded(100 * value, 0)} %`} send=${async (volume) => setSettings({ ...settings, volume })} />
      <${Slider} label="Music meanwhile" value=${settings.duckDb} min="-60" max="0" step="1" text=${(value) => `${value} dB`} send=${async (duckDb) => setSettings({ ...settings, duckDb })} />
    </div>
    ${state.overlays.length > 0 && html`<${Sounding} state=${state} act=${act} />`}
  <//>`;
}

function Sounding({ state, act }) {
  const now = useNow(250, true);
  return html`<ul class="sounding" aria-label="Sounding now">
    ${state.overlays.map((overlay) => {
      const passed = overlay.state === "playing" ? now - state.heardAt : 0;
      const position = overlay.length ? Math.min(overlay.position + passed, overlay.length) : overlay.position + passed;
      return html`<li key=${overlay.overlayId}><span class="name">${titleOf(overlay)}</span>
        <span class="quiet">${overlay.state === "loading" ? "loading" : `${clock(position)}${overlay.length ? ` / ${clock(overlay.length)}` : ""}`}</span>
        <${IconButton} label=${`End ${titleOf(overlay)}`} icon="remove" onClick=${() => act("DELETE", `/overlays/${overlay.overlayId}`)} /></li>`;
    })}
  </ul>`;
}
