// What examples/music_bot.mjs uses of @discordjs/voice: each packet that the channel would hear goes as a line of JSON.

import { EventEmitter } from "node:events";

export const StreamType = { Opus: "opus" };

const connections = new Map();

export const getVoiceConnection = (guildId) => connections.get(guildId);

export function joinVoiceChannel({ guildId }) {
  const connection = new EventEmitter();
  connection.state = { status: "ready" };
  connection.subscribe = (audio) => (audio.connection = connection);
  connection.destroy = () => {
    connections.delete(guildId);
    connection.state = { status: "destroyed" };
    connection.emit("destroyed");
  };
  connections.set(guildId, connection);
  return connection;
}

export const entersState = async (connection) => connection;

export const createAudioResource = (playStream, { inputType }) => ({ playStream, inputType });

export function createAudioPlayer() {
  const audio = new EventEmitter();
  let cycle;
  audio.play = ({ playStream, inputType }) => {
    audio.stop = () => {
      clearInterval(cycle);
      return Boolean(playStream.destroy());
    };
    cycle = setInterval(() => {
      const packet = playStream.read();
      if (packet && audio.connection?.state.status === "ready") {
        console.log(JSON.stringify({ [inputType]: packet.toString("base64") }));
      }
    }, 20);
  };
  return audio;
}
