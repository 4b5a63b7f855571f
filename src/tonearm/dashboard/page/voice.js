// The voice of a player in a Discord channel: how it is doing, and what the bot has to do about it.

import { Panel } from "./controls.js";
import { html } from "./preact.js";

/** @import { PlayerParts } from "./types.js" */
/** @import { VoiceEncryption } from "./wire.js" */

/** @type {Partial<Record<string, string>>} */
const STATES = {
  connecting: "connecting",
  connected: "connected",
  resuming: "the control connection is lost, the sound goes on",
  closed: "given up",
};
const ACTIONS = {
  wait: "The bot waits for what Discord says next.",
  rejoin: "The bot has to join the channel again.",
  stop: "Discord wants no further try: a person has to look.",
  fix: "The node lacks something: look at its network, its configuration and its version.",
};

/** @param {PlayerParts} props */
export function Voice({ state, act }) {
  const { voice } = state;
  if (!voice) return null;
  const { close, dave, packets } = voice;
  const figures = [
    ["Channel", voice.channelId],
    ["Server (guild)", voice.guildId],
    ["State", STATES[voice.state] ?? voice.state],
    ["Ping", voice.pingMs === null ? "" : `${voice.pingMs} ms`],
    ["Packets", `${packets.sent.toLocaleString()} sent, ${packets.dropped.toLocaleString()} dropped`],
    ["End-to-end encryption", encryption(dave)],
    ["Privacy code", dave.privacyCode ?? ""],
  ];
  return html`<${Panel} title="Discord voice">
    <dl class="figures">${figures.filter(([, value]) => value !== "").map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${close && html`<p class="problem">${close.code === null ? "" : `${close.code}: `}${close.reason}. ${ACTIONS[close.action] ?? close.action}</p>`}
    <p class="buttons"><button type="button" onClick=${() => act("DELETE", "/voice", undefined, "The channel was left.")}>Leave the channel</button></p>
  <//>`;
}

/** @param {VoiceEncryption} dave */
function encryption({ version, ready }) {
  if (!version) return "none in this channel";
  return ready ? "on" : "on; nothing is sent until somebody else is there";
}
