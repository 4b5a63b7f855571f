// Sounds over the music. The player's metadata keeps which ones there are, so every browser has them; the node plays them.

import { IconButton, Panel, Slider, typed, useNow } from "./controls.js";
import { percent } from "./deck.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { keep, kept } from "./store.js";
import { clock, titleOf } from "./text.js";

/** @import { PlayerFeed } from "./feeds.js" */
/** @import { Act, BoardSound, PlayerNow, PlayerParts } from "./types.js" */
/** @import { Json, OverlayCreated } from "./wire.js" */

const KEYS = 9; // sounds that have one

/**
 * @param {PlayerNow} state
 * @returns {Required<BoardSound>[]}
 */
export function boardOf({ metadata }) {
  const board = isObject(metadata) ? metadata.board : null;
  const sounds = Array.isArray(board) ? board.filter((sound) => isObject(sound) && typeof sound.uri === "string") : [];
  return complete(/** @type {BoardSound[]} */ (/** @type {unknown} */ (sounds))); // the page alone writes what else is in them
}

/**
 * @param {BoardSound[]} sounds
 * @returns {Required<BoardSound>[]}
 */
function complete(sounds) {
  return sounds.map((sound, at) => ({
    volume: 1,
    duckDb: -12,
    ...sound,
    name: sound.name || titleOf(sound),
    key: at < KEYS ? String(at + 1) : "",
  }));
}

/**
 * @param {Json} value
 * @returns {value is { [name: string]: Json }}
 */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// Plays a sound of the board over what the player of `feed` plays. One that cannot be played is marked at its button.
/**
 * @param {PlayerFeed} feed
 * @param {Act} act
 * @param {Required<BoardSound>} sound
 */
export async function playSound(feed, act, { uri, volume, duckDb }) {
  const answer = /** @type {OverlayCreated | undefined} */ (await act("POST", "/overlays", { uri, volume, duckDb }));
  if (answer) feed.sounds.set(answer.overlayId, uri);
}

// Why a sound failed when it was played last; "" when it did not.
/**
 * @param {PlayerFeed} feed
 * @param {string} uri
 */
function failureOf(feed, uri) {
  for (const event of feed.events) {
    if (event.op !== "OverlayStart" && event.op !== "OverlayException") continue;
    if (feed.sounds.get(event.overlayId) === uri) return event.op === "OverlayException" ? event.error.message : "";
  }
  return "";
}

/** @param {PlayerParts} props */
export function Soundboard({ feed, state, act, notices }) {
  const [uri, setUri] = useState("");
  const [opened, setOpened] = useState("");
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const sounds = boardOf(state);
  const save = async (/** @type {BoardSound[]} */ changed) => {
    if (state.metadata !== null && !isObject(state.metadata)) {
      notices.show("The board is kept in the player's metadata, which must be an object for it: {}.", {
        isProblem: true,
      });
      return undefined;
    }
    return act("PATCH", "/metadata", { value: { board: complete(changed) } });
  };
  useEffect(() => {
    const before = kept("soundboard", /** @type {BoardSound[]} */ ([])); // what a browser kept by itself
    const missing = before.filter((sound) => sound?.uri && !sounds.some((known) => known.uri === sound.uri));
    if (missing.length)
      Promise.resolve(save([...sounds, ...missing])).then((saved) => saved && keep("soundboard", null));
  }, []);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const address = uri.trim();
    if (!address || sounds.some((sound) => sound.uri === address)) return;
    if (await save([...sounds, { uri: address }])) setUri("");
  };
  const forget = async (/** @type {number} */ at) => {
    const sound = sounds[at];
    if (!(await save(sounds.filter((one) => one !== sound)))) return;
    const back = () => {
      const now = boardOf(feed.known()).filter(({ uri }) => uri !== sound.uri);
      return save([...now.slice(0, at), sound, ...now.slice(at)]);
    };
    notices.went(`${sound.name} was taken off the board.`, back);
    field.current?.focus();
  };
  const set = (/** @type {number} */ at, /** @type {Partial<BoardSound>} */ fields) =>
    save(sounds.map((sound, other) => (other === at ? { ...sound, ...fields } : sound)));
  return html`<${Panel} title="Soundboard">
    <div class="pads">
      ${sounds.map((sound, at) => {
        const failure = failureOf(feed, sound.uri);
        const { name } = sound;
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
      <label class="amount">Name<input type="text" value=${sound.name} onChange=${typed((name) => set(at, { name }))} /></label>
      <${Slider} label="Loudness" value=${sound.volume} min=${0} max=${2} step=${0.05} text=${percent} isLive=${false} send=${(/** @type {number} */ volume) => set(at, { volume })} />
      <${Slider} label="Music meanwhile" value=${sound.duckDb} min=${-60} max=${0} step=${1} text=${(/** @type {number} */ value) => `${value} dB`} isLive=${false} send=${(/** @type {number} */ duckDb) => set(at, { duckDb })} />
    </div>`,
    )}
    <form class="row" onSubmit=${submit}>
      <input type="text" ref=${field} aria-label="Sound" placeholder="Address of a jingle, a horn, an announcement" value=${uri} spellcheck=${false} onInput=${typed(setUri)} />
      <button>Keep</button>
    </form>
    <p class="quiet">Keys 1 to 9 play the first nine.</p>
    ${state.overlays.length > 0 && html`<${Sounding} state=${state} act=${act} />`}
  <//>`;
}

/** @param {{ state: PlayerNow, act: Act }} props */
function Sounding({ state, act }) {
  const now = useNow(250, true);
  return html`<ul class="sounding" aria-label="Sounding now">
    ${state.overlays.map((overlay) => {
      const passed = overlay.state === "playing" ? now - state.toldAt : 0;
      const position = overlay.length ? Math.min(overlay.position + passed, overlay.length) : overlay.position + passed;
      return html`<li key=${overlay.overlayId}><span class="name">${titleOf(overlay)}</span>
        <span class="quiet">${overlay.state === "loading" ? "loading" : `${clock(position)}${overlay.length ? ` / ${clock(overlay.length)}` : ""}`}</span>
        <${IconButton} label=${`End ${titleOf(overlay)}`} icon="remove" onClick=${() => act("DELETE", `/overlays/${overlay.overlayId}`)} /></li>`;
    })}
  </ul>`;
}
