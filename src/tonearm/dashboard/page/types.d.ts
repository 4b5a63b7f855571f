// What the page's modules hand to each other. What a node answers and tells is in wire.d.ts.

import type { Uploads } from "./adding.js";
import type { NodeApi } from "./api.js";
import type { Notices } from "./controls.js";
import type { PlayerFeed } from "./feeds.js";
import type { Listening } from "./listening.js";
import type {
  EventsLost,
  Filters,
  ListenersByFormat,
  Player,
  PlayerCreate,
  PlayerEvent,
  QueuedTrackDetails,
} from "./wire.js";

// An entry of nodes.json.
export interface ShownNode {
  name: string;
  path: string;
  clip: string;
  streams: string;
  login: boolean;
  cluster: boolean;
}

// effects.json: the effects, and the JSON Schema of each.
export interface EffectsSchema {
  properties: Record<EffectName, { anyOf: Array<{ $ref?: string }> }>;
  $defs: Record<string, EffectModel>;
}
export type EffectName = Exclude<keyof Filters, "volume" | "eq">;
export interface EffectModel {
  description: string;
  properties: Record<string, EffectField>;
}
export type EffectField = EffectNumber | EffectChoice;
export interface EffectNumber {
  type: "number";
  description?: string;
  minimum: number;
  maximum: number;
  default?: number;
}
export interface EffectChoice {
  type?: "string" | "boolean";
  anyOf?: EffectChoice[];
  enum?: string[];
  const?: string;
}
export type EffectValue = string | number | boolean;

// A player as the page keeps it: `heardAt` says when `position` was true, in ms of performance.now(), and `toldAt` when
// the places of overlays were, which no event tells.
export interface PlayerNow extends Player {
  heardAt: number;
  toldAt: number;
  streamTitle: string;
  stuck: string;
}

// An event that a player's life counts.
export type NumberedEvent = Exclude<PlayerEvent, EventsLost | PlayerCreate>;

export type Connection = "connecting" | "open" | "lost" | "refused";

// What is told of a socket.
export interface Hearer<Message> {
  state?(connection: Connection, problem?: Error | null): void;
  message(data: Message): void;
  expects?(): boolean;
}

// An event of a form's field. `currentTarget` of one that came up from a part of `E` is `E`.
export type On<E extends Element, K extends Event = Event> = K & { target: E; currentTarget: E };

// Asks the node about the player that is shown, and says `done`, or what was wrong. undefined: it was refused.
export type Act = (method: string, path: string, body?: object, done?: string) => Promise<unknown>;

// What came of something that was waited for: true, where it has no result.
export type Done<T> = T extends null | undefined | void ? true : T;

export type Take = (uris: string[]) => unknown;

// What each page gets.
export interface PageParts {
  api: NodeApi;
  node: number;
  notices: Notices;
  listening: Listening;
  uploads: Uploads;
}

// What the page of a player gets.
export interface PlayerPageParts extends PageParts {
  id: string;
  tab: string;
  effects: EffectsSchema;
  creating: [boolean, (isCreating: boolean) => void];
}

// What each part of the page of a player gets.
export interface PlayerParts extends PlayerPageParts {
  feed: PlayerFeed;
  state: PlayerNow;
  act: Act;
  isGone: boolean;
}

// A track to be queued.
export type TrackToQueue = Pick<QueuedTrackDetails, "uri"> &
  Partial<Pick<QueuedTrackDetails, "metadata" | "startMs" | "endMs">>;

// A sound of the board, as the player's metadata keeps it.
export interface BoardSound {
  uri: string;
  name?: string;
  volume?: number;
  duckDb?: number;
  key?: string;
}

// A point of the node page's plots; `time` is in s.
export interface Figure {
  time: number;
  cpu: Record<"node" | "decoder" | "other", number>;
  listeners: ListenersByFormat;
  late: Record<"over5ms" | "over20ms" | "over100ms", number>;
}
export interface PlotLine {
  name: string;
  value(figure: Figure): number;
}

// What the audio thread measured.
export interface Measured {
  inHandMs: number;
  targetMs: number;
  underruns: number;
  peak: number[];
  rms: number[];
  lufs: number;
}

// How the frames came.
export interface Arrivals {
  lateness: number[];
  framesMissed: number;
  isPassedThrough: boolean | null;
  bitrate: number;
}
// What hearing.js is given to begin with.
export interface ToHearing {
  url: string;
  format: "opus" | "pcm";
  output: MessagePort;
}
// What hearing.js tells.
export interface FromHearing {
  connection?: Connection;
  figures?: Arrivals;
}

export interface Heard extends Arrivals {
  way: string;
  told: Measured | null;
}

// What worklet.js finds in the audio thread.
declare global {
  const currentTime: number;
  function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;
  abstract class AudioWorkletProcessor {
    readonly port: MessagePort;
    abstract process(inputs: Float32Array[][], outputs: Float32Array[][]): boolean;
  }
}
