// A music bot for Discord in JavaScript: /play /skip /queue /now /seek /volume /preset /leave.
//
// npm install discord.js @discordjs/voice, then DISCORD_TOKEN=… node music_bot.mjs, with Node.js 22.12 or newer, as
// @discordjs/voice wants it; TONEARM_URL and TONEARM_PASSWORD name the node, if it is elsewhere.

import { Readable } from "node:stream";
import * as voice from "@discordjs/voice";
import { ApplicationCommandOptionType, Client, Events, GatewayIntentBits } from "discord.js";

const NODE = `${process.env.TONEARM_URL ?? "http://127.0.0.1:2333"}/v0`;
const HEADERS = process.env.TONEARM_PASSWORD ? { Authorization: process.env.TONEARM_PASSWORD } : {};
const PRESETS = {
  flat: {},
  bassboost: { equalizer: [0.2, 0.15, 0.1, 0.05, 0, -0.05].map((gain, band) => ({ band, gain })) },
  nightcore: { timescale: { speed: 1.2, pitch: 1.2 } },
  vaporwave: { timescale: { speed: 0.85, pitch: 0.8 }, tremolo: { frequency: 14, depth: 0.3 } },
  "8d": { rotation: { rotationHz: 0.2 } },
};

async function ask(method, path, body) {
  const answer = await fetch(NODE + path, { method, headers: HEADERS, body: body && JSON.stringify(body) });
  const value = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.message), { code: value.code }); // the message is for people
  return value;
}

/** The player's Opus packets. The node's clock and Discord's differ, so what is too much is left out: a packet when
 *  there were more than ten for two seconds, all but the newest five after a standstill. What is missing is silence. */
function sound(player) {
  const packets = new Readable({ objectMode: true, read() {} });
  const at = `${NODE.replace("http", "ws")}${player}/ws?format=opus&maxLatencyMs=200`;
  let socket, fewAt;
  const connect = () => {
    socket = new WebSocket(at, { headers: HEADERS });
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      packets.push(Buffer.from(data));
      if (packets.readableLength > 25) while (packets.readableLength > 5) packets.read();
      if (packets.readableLength <= 10) fewAt = Date.now();
      else if (Date.now() - fewAt > 2000) fewAt = packets.read() && Date.now();
    };
    socket.onclose = () => packets.destroyed || setTimeout(connect, 1000);
  };
  connect();
  packets.once("close", () => socket.close());
  return voice.createAudioResource(packets, { inputType: voice.StreamType.Opus });
}

/** The guild's player, joined where the user is if there is none yet. The node may have lost it in a restart. */
async function playerOf({ guildId, member }) {
  const player = `/players/guild-${guildId}`;
  const channel = member.voice.channel;
  if (!channel && !voice.getVoiceConnection(guildId)) throw new Error("Join a voice channel first.");
  await ask("POST", "/players", { id: `guild-${guildId}`, idle: true }).catch((error) => {
    if (error.code !== "player_exists") throw error;
  });
  if (voice.getVoiceConnection(guildId)) return player;
  const { id, guild: { voiceAdapterCreator: adapterCreator } } = channel;
  const connection = voice.joinVoiceChannel({ guildId, channelId: id, adapterCreator });
  const audio = voice.createAudioPlayer({ behaviors: { maxMissedFrames: Infinity } }); // a pause is no end
  audio.on("error", console.error);
  audio.play(sound(player));
  connection.subscribe(audio);
  connection.on("disconnected", () => voice.entersState(connection, "connecting", 5000).catch(() => {
    if (connection.state.status !== "destroyed") connection.destroy(); // it was sent away
  }));
  connection.once("destroyed", () => audio.stop(true) && ask("DELETE", player).catch(console.error));
  return player;
}

const length = (ms) => `${Math.floor(ms / 60_000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}`;
const line = (track) => `${track.title ?? track.uri} (${length(track.length ?? 0)})`;

/** Each command: its description, its option with the type, and what it does with that one. */
const COMMANDS = {
  play: ["Play a link, a playlist, or what is found by words", ["what", "String"], async (player, what, { user }) => {
    const { loadType, data } = await ask("GET", `/load?limit=1&identifier=${encodeURIComponent(what)}`);
    if (loadType === "error") return `${data.message} ${data.hint}`;
    const found = { track: [data], search: data, playlist: data.tracks }[loadType] ?? [];
    if (!found.length) return "Nothing was found.";
    await ask("POST", `${player}/queue`, { tracks: found.map(({ encoded }) => ({ encoded, metadata: { by: user.id } })) });
    return `Queued: ${line(found[0].info)}${found.length > 1 ? ` and ${found.length - 1} more` : ""}`;
  }],
  skip: ["Play the next track", null, async (player) => (await ask("POST", `${player}/skip`), "Skipped.")],
  queue: ["Show what waits", null, async (player) => {
    const tracks = await ask("GET", `${player}/queue?details=true&limit=10&wait=2000`);
    return tracks.map((track, index) => `${index + 1}. ${line(track)}`).join("\n") || "Nothing waits.";
  }],
  now: ["Show what plays", null, async (player) => {
    const { state, position, track: { info } } = await ask("GET", player);
    return state === "idle" ? "Nothing plays." : `${info.title}: ${length(position)} of ${length(info.length)}`;
  }],
  seek: ["Jump to a second of the track", ["second", "Integer"], async (player, second) =>
    (await ask("PATCH", `${player}/position`, { position: second * 1000 }), `At ${length(second * 1000)}.`)],
  volume: ["Set the volume in percent", ["percent", "Integer"], async (player, percent) =>
    (await ask("PATCH", `${player}/filters`, { volume: percent / 100 }), `Volume ${percent} %.`)],
  preset: [`Change the sound: ${Object.keys(PRESETS).join(", ")}`, ["name", "String"], async (player, name) => {
    if (!(name in PRESETS)) return `There are ${Object.keys(PRESETS).join(", ")}.`;
    await ask("PATCH", `${player}/filters`, { reset: true, ...PRESETS[name] });
    return `Sound: ${name}.`;
  }],
  leave: ["Leave the channel", null, (_, __, { guildId }) => (voice.getVoiceConnection(guildId).destroy(), "Bye.")],
};

const bot = new Client({ intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildVoiceStates] });
const asked = (name, type) => ({ name, description: name, type: ApplicationCommandOptionType[type], required: true });
bot.once(Events.ClientReady, () => bot.application.commands.set(Object.entries(COMMANDS).map(
  ([name, [description, option]]) => ({ name, description, options: option ? [asked(...option)] : [] }))));
bot.on(Events.InteractionCreate, async (interaction) => {
  if (!interaction.isChatInputCommand()) return;
  await interaction.deferReply();
  const [, option, run] = COMMANDS[interaction.commandName];
  const value = option && interaction.options.get(option[0]).value;
  const said = playerOf(interaction).then((player) => run(player, value, interaction));
  await interaction.editReply(await said.catch((error) => error.message));
});
bot.login(process.env.DISCORD_TOKEN);
