// Single keys that steer the player on the page, else the one that is heard.

import { Dialog } from "./controls.js";
import { isPlaying } from "./deck.js";
import { html, useEffect, useState } from "./preact.js";
import { boardOf, playSound } from "./soundboard.js";
import { keep, kept } from "./store.js";

const VOLUME_STEP = 0.05;
const HIGHEST_VOLUME = 5;
const FIELD_MS = 1000; // until the page that has it is there

const seek =
  (offset) =>
  ({ act }) =>
    act("PATCH", "/position", { offset });
const post =
  (path) =>
  ({ act }) =>
    act("POST", path);
// By the state as it will be: keys are faster than the node's answers and events.
const toggle = ({ feed, act }) => {
  const paused = isPlaying(feed.state);
  feed.state = { ...feed.state, paused };
  return act("POST", paused ? "/pause" : "/play");
};
const louder =
  (step) =>
  ({ feed, act }) => {
    const volume = Math.round(100 * Math.max(0, Math.min(HIGHEST_VOLUME, feed.state.volume + step))) / 100;
    feed.state = { ...feed.state, volume };
    return act("PATCH", "/filters", { volume });
  };

const COMMANDS = [
  [[" ", "k"], "Space, K", "Play and pause", toggle],
  [["j"], "J", "10 s back", seek(-10_000)],
  [["l"], "L", "10 s on", seek(10_000)],
  [["ArrowLeft"], "←", "5 s back", seek(-5000)],
  [["ArrowRight"], "→", "5 s on", seek(5000)],
  [["ArrowUp"], "↑", "Louder by 5 %", louder(VOLUME_STEP)],
  [["ArrowDown"], "↓", "Softer by 5 %", louder(-VOLUME_STEP)],
  [["n"], "N", "Next", post("/skip")],
  [["p"], "P", "Previous", post("/previous")],
  [["m"], "M", "Mute, and sound again", ({ listening }) => listening.mute()],
  [
    [..."123456789"],
    "1 to 9",
    "Play a sound of the board",
    ({ feed, act }, key) => boardOf(feed.state)[key - 1] && playSound(feed, act, boardOf(feed.state)[key - 1]),
  ],
];

// Whether what has the focus uses the key itself.
function isUsed({ target, key }) {
  if (target.isContentEditable || target.matches("textarea, select, input:not([type=range], [type=checkbox])"))
    return true;
  if (key === " ") return target.matches("button, summary, input");
  return key.startsWith("Arrow") && target.matches("input, [role=tab], [data-index] *, [tabindex='0']");
}

export function Keys({ listening, notices, steered, showQueue, isShown, show }) {
  const [isOn, setOn] = useState(kept("keys", true));
  useEffect(() => {
    const press = (event) => {
      const { key } = event;
      if (!isOn || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
      if (document.querySelector("dialog[open]") || isUsed(event)) return;
      const feed = steered();
      const found = COMMANDS.find(([keys]) => keys.includes(key.length === 1 ? key.toLowerCase() : key));
      if (key === "?") show(true);
      else if (key === "/") focusField(showQueue);
      else if (!found || !feed?.state || feed.isGone) return;
      else if (!event.repeat || key.startsWith("Arrow")) found[3]({ feed, act: notices.acting(feed), listening }, key);
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  const change = (event) => {
    setOn(event.target.checked);
    keep("keys", event.target.checked);
  };
  if (!isShown) return null;
  const rows = [...COMMANDS, [[], "/", "To “Add to queue”, or “Search”"], [[], "?", "This list"]];
  return html`<${Dialog} title="Keys" close=${() => show(false)}>
    <label class="choice"><input type="checkbox" checked=${isOn} onChange=${change} /> Keys</label>
    <table><tbody>${rows.map(([, name, does]) => html`<tr><th scope="row"><kbd>${name}</kbd></th><td>${does}</td></tr>`)}</tbody></table>
  <//>`;
}

async function focusField(showQueue) {
  const find = () => document.querySelector("[data-shortcut='/']");
  showQueue(); // even where the field is still there: another tab may have been chosen that is not drawn yet
  for (const until = performance.now() + FIELD_MS; !find() && performance.now() < until;)
    await new Promise(requestAnimationFrame);
  find()?.focus();
}
