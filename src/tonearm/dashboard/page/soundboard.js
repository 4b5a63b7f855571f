// Sounds over the music. The player's metadata keeps which ones there are, so every browser has them; the node plays them.

import { IconButton, Panel, Slider, useNow } from "./controls.js";
import { percent } from "./deck.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { keep, kept } from "./store.js";
import { clock, titleOf } from "./text.js";

const KEYS = 9; // sounds that have one

export function boardOf({ metadata }) {
  return Array.isArray(metadata?.board) ? metadata.board.filter((sound) => typeof sound?.uri === "string") : [];
}

// Plays a sound of the board over what the player of `feed` plays. One that cannot be played is marked at its button.
export async function playSound(feed, act, { uri, volume = 1, duckDb = -12 }) {
  const answer = await act("POST", "/overlays", { uri, volume, duckDb });
  if (answer) feed.sounds.set(answer.overlayId, uri);
}

// Why a sound failed when it was played last; "" when it did not.
function failureOf(feed, uri) {
  const told = feed.events.find(
    ({ op, overlayId }) => ["OverlayStart", "OverlayException"].includes(op) && feed.sounds.get(overlayId) === uri,
  );
  return told?.error ? told.error.message : "";
}

export function Soundboard({ feed, state, act, notices }) {
  const [uri, setUri] = useState("");
  const [opened, setOpened] = useState("");
  const field = useRef(null);
  const sounds = boardOf(state);
  const save = (changed) => {
    const { metadata } = state;
    if (typeof metadata !== "object" || Array.isArray(metadata)) {
      notices.show("The board is kept in the player's metadata, which must be an object for it: {}.", {
        isProblem: true,
      });
      return undefined;
    }
    const board = changed.map((sound, at) => ({
      volume: 1,
      duckDb: -12,
      ...sound,
      name: sound.name || titleOf(sound),
      key: at < KEYS ? String(at + 1) : "",
    }));
    return act("PATCH", "/metadata", { value: { board } });
  };
  useEffect(() => {
    const before = kept("soundboard", []); // what a browser kept by itself
    const missing = before.filter((sound) => sound?.uri && !sounds.some((known) => known.uri === sound.uri));
    if (missing.length)
      Promise.resolve(save([...sounds, ...missing])).then((saved) => saved && keep("soundboard", null));
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    const address = uri.trim();
    if (!address || sounds.some((sound) => sound.uri === address)) return;
    if (await save([...sounds, { uri: address }])) setUri("");
  };
  const forget = async (at) => {
    if (await save(sounds.filter((_, other) => other !== at))) {
      notices.went(`${sounds[at].name} was taken off the board.`, () => save(sounds));
      field.current?.focus();
    }
  };
  const set = (at, fields) => save(sounds.map((sound, other) => (other === at ? { ...sound, ...fields } : sound)));
  return html`<${Panel} title="Soundboard">
    <div class="pads">
      ${sounds.map((sound, at) => {
        const failure = failureOf(feed, sound.uri);
        const name = sound.name || titleOf(sound);
        return html`<span class=${`pad ${failure ? "failed" : ""}`} key=${sound.uri}>
          <button type="button" title=${sound.uri} aria-describedby=${failure ? `failure-${at}` : null} onClick=${() => playSound(feed, act, sound)}>${name}</button>
          ${failure && html`<span class="problem" id=${`failure-${at}`}>${failure}</span>`}
          <button type="button" class="fold" aria-expanded=${opened === sound.uri} aria-label=${`Settings of ${name}`}
            onClick=${() => setOpened(opened === sound.uri ? "" : sound.uri)}>${opened === sound.uri ? "−" : "+"}</button>
          <${IconButton} label=${`Forget ${name}`} icon="remove" onClick=${() => forget(at)} />
        </span>`;
      })}
    </div>
    ${sounds.map(
      (sound, at) =>
        sound.uri === opened &&
        html`<div class="fields" role="group" aria-label=${sound.name} key=${sound.uri}>
      <label class="amount">Name<input type="text" value=${sound.name} onChange=${(event) => set(at, { name: event.target.value })} /></label>
      <${Slider} label="Loudness" value=${sound.volume ?? 1} min="0" max="2" step="0.05" text=${percent} isLive=${false} send=${(volume) => set(at, { volume })} />
      <${Slider} label="Music meanwhile" value=${sound.duckDb ?? -12} min="-60" max="0" step="1" text=${(value) => `${value} dB`} isLive=${false} send=${(duckDb) => set(at, { duckDb })} />
    </div>`,
    )}
    <form class="row" onSubmit=${submit}>
      <input type="text" ref=${field} aria-label="Sound" placeholder="Address of a jingle, a horn, an announcement" value=${uri} spellcheck=${false} onInput=${(event) => setUri(event.target.value)} />
      <button>Keep</button>
    </form>
    <p class="quiet">Keys 1 to 9 play the first nine.</p>
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
