// What examples/music_bot.mjs uses of discord.js: commands come as lines of JSON, and replies go as such.

import { EventEmitter } from "node:events";
import { createInterface } from "node:readline";

export const Events = { ClientReady: "clientReady", InteractionCreate: "interactionCreate" };
export const GatewayIntentBits = { Guilds: 1, GuildVoiceStates: 128 };
export const ApplicationCommandOptionType = { String: 3, Integer: 4 };

const tell = (value) => console.log(JSON.stringify(value));

export class Client extends EventEmitter {
  application = { commands: { set: async (commands) => tell({ commands }) } };

  async login() {
    this.emit(Events.ClientReady, this);
    for await (const line of createInterface({ input: process.stdin })) {
      const { command, options } = JSON.parse(line);
      this.emit(Events.InteractionCreate, {
        commandName: command,
        guildId: "81",
        user: { id: "5" },
        member: { voice: { channel: { id: "7", guild: { voiceAdapterCreator: () => ({}) } } } },
        options: { get: (name) => (name in options ? { name, value: options[name] } : null) },
        isChatInputCommand: () => true,
        deferReply: async () => {},
        editReply: async (said) => tell({ said }),
      });
    }
    process.exit();
  }
}
