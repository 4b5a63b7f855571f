// What is to be read about a player: the way of its sound, how well it does, where to hear it, its metadata.

import { messageOf } from "./api.js";
import { Panel, typed, useStore } from "./controls.js";
import { words } from "./effects.js";
import { LATENESS_LIMITS_MS } from "./frames.js";
import { effectsAtWork } from "./player_state.js";
import { html, useRef, useState } from "./preact.js";
import { count, rounded } from "./text.js";

/** @import { PlayerParts } from "./types.js" */
/** @import { SourceForm } from "./wire.js" */

const PLACES = new Map([
  ["http", "from the web"],
  ["file", "from a file"],
]);

/** @param {SourceForm} source */
function codedAs({ codec, sampleRate, channels, bitrate }) {
  const rate = `${rounded(sampleRate / 1000, 1)} kHz`;
  const sides = ["", "mono", "stereo"][channels] || `${channels} channels`;
  return [codec, rate, sides, bitrate ? kilobits(bitrate) : ""].filter(Boolean).join(" · ");
}

/** @param {number} bitrate */
function kilobits(bitrate) {
  return `${Math.round(bitrate / 1000)} kbit/s`;
}

/** @param {PlayerParts} props */
export function SignalPath({ api, feed, state, listening, effects: schema }) {
  useStore(listening);
  const mine = listening.of(api, feed.id);
  const { info } = state.track;
  const place = PLACES.get(info.sourceName) ?? info.sourceName;
  const source = state.source ? codedAs(state.source) : "source";
  const about = [info.isStream ? "live" : "", state.source?.container, place].filter(Boolean).join(", ");
  const work = effectsAtWork(state, schema);
  const { pcm, opus, mp3, voice } = state.listenersByFormat;
  const heard =
    mine.isPassedThrough === null || !mine.bitrate
      ? ""
      : `${kilobits(mine.bitrate)}, ${mine.isPassedThrough ? "passed through" : "encoded"}`;
  /** @type {Array<[string, number, string]>} */
  const all = [
    ["PCM", pcm, "1536 kbit/s"],
    ["Opus", opus, mine.way.startsWith("Opus") ? heard : ""],
    ["MP3", mp3, ""],
    ["Discord voice", voice, state.voice?.dave.ready ? "end-to-end encrypted" : ""],
  ];
  const outputs = all.filter(([, listeners]) => listeners);
  const isPassed = mine.isPassedThrough;
  return html`<${Panel} title="Signal path">
    <ol class="path">
      <li class="source"><b>${state.trackId ? source : "nothing"}</b><span class="quiet">${state.trackId ? about : ""}</span></li>
      <li><b>${isPassed ? "packets as they are" : "48 kHz, stereo"}</b><span class="quiet">${isPassed ? "nothing is decoded" : "decoded"}</span></li>
      ${
        work.length
          ? work.map((name) => html`<li class="work"><b>${name === "eq" ? "Equalizer" : words(name)}</b></li>`)
          : !isPassed && html`<li class="quiet">no filters</li>`
      }
      <li class="ends">
        ${
          outputs.length
            ? outputs.map(
                ([name, listeners, rate]) =>
                  html`<span><b>${name}</b> ${count(listeners, "listener")} <span class="quiet">${rate}</span></span>`,
              )
            : html`<span class="quiet">nobody listens</span>`
        }
      </li>
    </ol>
  <//>`;
}

/** @param {PlayerParts} props */
export function Quality({ api, feed, state, listening }) {
  useStore(listening);
  const { quality } = state;
  const figures = [
    ["Frames sent", quality.framesSent.toLocaleString()],
    ["Lost", quality.framesLostByListeners],
    ["Dropouts", quality.timesRunDry],
    ["Left out", quality.lateFrames],
    ["Late changes", quality.latePlans],
    ["Listeners closed", quality.listenersClosed.tooSlow + quality.listenersClosed.failed],
    ["Decoder process", quality.decoderProcess ?? "none"],
  ];
  return html`<${Panel} title="Quality">
    <dl class="figures">${figures.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${quality.waitingForRoomMs !== null && html`<p class="problem">It waits because the node is overloaded.</p>`}
    <${Lateness} counts=${listening.of(api, feed.id).lateness} />
  <//>`;
}

// How late frames came to this page, against the earliest.
/** @param {{ counts: number[] }} props */
function Lateness({ counts }) {
  const all = counts.reduce((sum, one) => sum + one, 0);
  if (!all) return html`<p class="quiet">Listen here to see how evenly the frames come.</p>`;
  const names = [...LATENESS_LIMITS_MS.map((limit) => `≤ ${limit} ms`), `> ${LATENESS_LIMITS_MS.at(-1)} ms`];
  return html`<table class="histogram" aria-label="Lateness">
    <thead><tr><th scope="col">Late by</th><th scope="col">Frames</th><td aria-hidden="true"></td></tr></thead>
    <tbody>${counts.map(
      (one, index) => html`<tr><th scope="row">${names[index]}</th><td class="number">${one.toLocaleString()}</td>
      <td class="bar" aria-hidden="true"><span style=${{ width: `${(100 * one) / all}%` }}></span></td></tr>`,
    )}</tbody>
  </table>`;
}

/** @param {PlayerParts} props */
export function Links({ api, feed, notices }) {
  const { streams } = api;
  if (!streams) return null;
  const link = (/** @type {string} */ kind) => new URL(feed.path(`/stream.${kind}`), streams).href;
  const links = [
    ["mpv", `mpv ${link("ogg")}`],
    ["VLC", `vlc ${link("mp3")}`],
    ["<audio>", `<audio controls src="${link("mp3")}"></audio>`],
    ["Least delay", link("wav")],
  ];
  // A page that is neither by https nor from this machine has no clipboard.
  const copy = (/** @type {string} */ text) => notices.of(navigator.clipboard.writeText(text), "Copied.");
  return html`<${Panel} title="Elsewhere">
    <ul class="links">${links.map(
      ([name, text]) => html`<li><span>${name}</span><code tabindex="0">${text}</code>
      ${navigator.clipboard && html`<button type="button" aria-label=${`Copy for ${name}`} onClick=${() => copy(text)}>Copy</button>`}</li>`,
    )}</ul>
  <//>`;
}

/** @param {PlayerParts} props */
export function Metadata({ state, act, notices }) {
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const now = JSON.stringify(state.metadata, null, 2);
  const before = useRef(now); // what the draft was made of
  const type = typed((text) => {
    if (draft === null) before.current = now;
    setDraft(text);
  });
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (draft === null) return;
    let value;
    try {
      value = JSON.parse(draft);
    } catch (error) {
      notices.show(`This is no JSON: ${messageOf(error)}`, { isProblem: true });
      return;
    }
    if (before.current !== now) {
      before.current = now;
      notices.show("The metadata was changed meanwhile. Save again to replace it, or Undo to see it.", {
        isProblem: true,
      });
      return;
    }
    if (await act("PATCH", "/metadata", { value, merge: false }, "The metadata was saved.")) setDraft(null);
  };
  const text = draft ?? now;
  return html`<${Panel} title="Metadata">
    <form onSubmit=${save}>
      <textarea class="code" aria-label="Metadata, as JSON" rows=${Math.min(12, text.split("\n").length + 1)} spellcheck=${false} value=${text}
        onInput=${type}></textarea>
      <p class="buttons"><button type="button" disabled=${draft === null} onClick=${() => setDraft(null)}>Undo</button>
        <button disabled=${draft === null}>Save</button></p>
    </form>
  <//>`;
}
