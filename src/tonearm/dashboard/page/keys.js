// Single keys that steer the player on the page, else the one that is heard.

import { Dialog, focusOn, ticked, useNewest } from "./controls.js";
import { HIGHEST_VOLUME, isPlaying } from "./deck.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { boardOf, playSound } from "./soundboard.js";
import { keep, kept } from "./store.js";

/** @import { PlayerFeed } from "./feeds.js" */
/** @import { Listening } from "./listening.js" */
/** @import { Notices } from "./controls.js" */
/** @import { Act, PlayerNow } from "./types.js" */

// What a key steers. `volume` is what keys asked for last, else what is.
/** @typedef {{ feed: PlayerFeed, state: PlayerNow, act: Act, listening: Listening, volume: number, setVolume: (volume: number) => unknown }} Steered */
/** @typedef {{ keys: string[], name: string, does: string, press: (steered: Steered, key: string) => unknown }} Command */

const VOLUME_STEP = 0.05;
const FIELD_MS = 1000; // until the page that has it is there

/**
 * @param {Steered} steered
 * @param {number} offset
 */
function seek({ act }, offset) {
  return act("PATCH", "/position", { offset });
}

// By the state as it will be: keys are faster than the node's answers and events.
/** @param {Steered} steered */
function toggle({ feed, state, act }) {
  const paused = isPlaying(state);
  feed.state = { ...state, paused };
  return act("POST", paused ? "/pause" : "/play");
}

/**
 * @param {Steered} steered
 * @param {number} step
 */
function louder({ volume, setVolume }, step) {
  return setVolume(Math.round(100 * Math.max(0, Math.min(HIGHEST_VOLUME, volume + step))) / 100);
}

/** @param {Steered} steered */
function mute({ listening }) {
  if (listening.isOn) listening.mute();
}

/**
 * @param {Steered} steered
 * @param {string} key
 */
function playPad({ feed, state, act }, key) {
  const sound = boardOf(state)[Number(key) - 1];
  return sound && playSound(feed, act, sound);
}

/** @type {Command[]} */
const COMMANDS = [
  { keys: [" ", "k"], name: "Space, K", does: "Play and pause", press: toggle },
  { keys: ["j"], name: "J", does: "10 s back", press: (steered) => seek(steered, -10_000) },
  { keys: ["l"], name: "L", does: "10 s on", press: (steered) => seek(steered, 10_000) },
  { keys: ["ArrowLeft"], name: "←", does: "5 s back", press: (steered) => seek(steered, -5000) },
  { keys: ["ArrowRight"], name: "→", does: "5 s on", press: (steered) => seek(steered, 5000) },
  { keys: ["ArrowUp"], name: "↑", does: "Louder by 5 %", press: (steered) => louder(steered, VOLUME_STEP) },
  { keys: ["ArrowDown"], name: "↓", does: "Softer by 5 %", press: (steered) => louder(steered, -VOLUME_STEP) },
  { keys: ["n"], name: "N", does: "Next", press: ({ act }) => act("POST", "/skip") },
  { keys: ["p"], name: "P", does: "Previous", press: ({ act }) => act("POST", "/previous") },
  { keys: ["m"], name: "M", does: "Mute, and sound again", press: mute },
  { keys: [..."123456789"], name: "1 to 9", does: "Play a sound of the board", press: playPad },
];

// A key by its sign, and by its place where that is no Latin letter: on Greek, Hebrew or Russian keyboards.
/** @param {KeyboardEvent} event */
function signOf({ key, code }) {
  return key.length === 1 && key > "~" && code.startsWith("Key") ? code.slice(3) : key;
}

// Whether what has the focus uses the key itself.
/** @param {KeyboardEvent} event */
function isUsed({ target, key }) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.matches("textarea, select, input:not([type=range], [type=checkbox])"))
    return true;
  if (key === " ") return target.matches("button, summary, input");
  return key.startsWith("Arrow") && target.matches("input, [role=tab], [data-index] *, [tabindex='0']");
}

/**
 * @typedef {object} KeysProps
 * @property {Listening} listening
 * @property {Notices} notices
 * @property {() => PlayerFeed | null | undefined} steered
 * @property {() => void} showQueue
 * @property {boolean} isShown
 * @property {(isShown: boolean) => void} show
 */
/** @param {KeysProps} props */
export function Keys({ listening, notices, steered, showQueue, isShown, show }) {
  const [isOn, setOn] = useState(kept("keys", true));
  const asked = useRef(/** @type {{ feed: PlayerFeed, volume: number } | null} */ (null)); // until it was done
  const sendVolume = useNewest(async (/** @type {{ feed: PlayerFeed, volume: number }} */ { feed, volume }) => {
    const isDone = await notices.acting(feed)("PATCH", "/filters", { volume });
    if (isDone && feed.state) feed.state = { ...feed.state, volume }; // the event may come later
  });
  useEffect(() => {
    const press = (/** @type {KeyboardEvent} */ event) => {
      if (!isOn || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
      if (document.querySelector("dialog[open]") || !event.key || isUsed(event)) return; // autofill has none
      const key = signOf(event);
      const feed = steered();
      const found = COMMANDS.find(({ keys }) => keys.includes(key.length === 1 ? key.toLowerCase() : key));
      if (key === "?") show(true);
      else if (key === "/") focusField(showQueue);
      else if (!found || !feed?.state || feed.isGone) return;
      else if (!event.repeat || key.startsWith("Arrow")) {
        const state = feed.state;
        const volume = asked.current?.feed === feed ? asked.current.volume : state.volume;
        const setVolume = async (/** @type {number} */ wanted) => {
          const mine = (asked.current = { feed, volume: wanted });
          await sendVolume(mine);
          if (asked.current === mine) asked.current = null;
        };
        found.press({ feed, state, act: notices.acting(feed), listening, volume, setVolume }, key);
      }
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  const change = ticked((isTicked) => {
    setOn(isTicked);
    keep("keys", isTicked);
  });
  if (!isShown) return null;
  const rows = [...COMMANDS, { name: "/", does: "To “Add to queue”, or “Search”" }, { name: "?", does: "This list" }];
  return html`<${Dialog} title="Keys" close=${() => show(false)}>
    <label class="choice"><input type="checkbox" checked=${isOn} onChange=${change} /> Keys</label>
    <table><tbody>${rows.map(({ name, does }) => html`<tr><th scope="row"><kbd>${name}</kbd></th><td>${does}</td></tr>`)}</tbody></table>
  <//>`;
}

/** @param {() => void} showQueue */
async function focusField(showQueue) {
  const field = "[data-shortcut='/']";
  showQueue(); // even where the field is still there: another tab may have been chosen that is not drawn yet
  for (const until = performance.now() + FIELD_MS; !document.querySelector(field) && performance.now() < until;)
    await new Promise(requestAnimationFrame);
  focusOn(field);
}
