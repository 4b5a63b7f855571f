// Hears one player of all in the page, whichever page is shown, under 0.3 s after the node sent it: Opus where the browser
// has WebCodecs, else PCM. A media element plays it, so that a phone's lock screen shows it. Where there is no
// AudioWorklet, on pages that are neither https nor from this machine, the element plays a stream.

import { messageOf } from "./api.js";
import { PlayerFeed } from "./feeds.js";
import { LATENESS_LIMITS_MS, RATE_HZ } from "./frames.js";
import { isMoving } from "./player_state.js";
import { Store, keep, kept } from "./store.js";

/** @import { NodeApi } from "./api.js" */
/** @import { FromHearing, Heard, Measured } from "./types.js" */

const ELEMENT_MS = 105; // by which the media element is behind the graph: measured in Chromium with PulseAudio, 105 to 110
const RETRY_MS = 2000; // of a stream that was lost

// What is known of the frames that come; `way` is how they come, `told` what the audio thread said.
/** @type {Heard} */
const NOTHING_HEARD = {
  way: "",
  told: null,
  lateness: new Array(LATENESS_LIMITS_MS.length + 1).fill(0),
  framesMissed: 0,
  isPassedThrough: null,
  bitrate: 0,
};

export class Listening extends Store {
  /** @type {NodeApi | null} */
  api = null;
  node = 0;
  id = "";
  /** @type {PlayerFeed | null} */
  feed = null;
  /** @type {AudioContext | null} */
  context = null;
  /** @type {HTMLAudioElement | null} */
  element = null;
  /** @type {GainNode | null} */
  gain = null;
  /** @type {AudioWorkletNode | null} */
  output = null;
  /** @type {Worker | null} */
  worker = null;
  /** @type {() => unknown} */
  leave = () => {}; // what the feed tells

  constructor() {
    super();
    this.meters = new Store(); // tells twenty times a second, for what shows it
    this.volume = kept("volume", 1);
    this.isMuted = false;
    /** @type {"off" | "starting" | "on" | "lost"} */
    this.state = "off";
    this.heard = NOTHING_HEARD;
  }

  get isOn() {
    return this.state !== "off";
  }

  /**
   * @param {NodeApi} api
   * @param {string} id
   */
  isAt(api, id) {
    return this.isOn && this.api === api && this.id === id;
  }

  // What is known of the sound of this player, which may be another than the one that is heard.
  /**
   * @param {NodeApi} api
   * @param {string} id
   */
  of(api, id) {
    return this.isAt(api, id) ? this.heard : NOTHING_HEARD;
  }

  // What is heard is so much behind what the node sends, as far as the page knows: frames in hand, element, sound card.
  get delayMs() {
    const outputS = this.context?.outputLatency || this.context?.baseLatency || 0;
    return (this.heard.told?.inHandMs ?? 0) + ELEMENT_MS + 1000 * outputS;
  }

  // By the state as it is now: of many clicks between two pictures the last one counts.
  /**
   * @param {NodeApi} api
   * @param {number} node
   * @param {string} id
   */
  async toggle(api, node, id) {
    if (!this.isAt(api, id)) return this.start(api, node, id);
    this.stop();
  }

  // Called by a click: browsers let no page sound before one. Where `created` fails there is no such player, and what was
  // heard before goes on.
  /**
   * @param {NodeApi} api
   * @param {number} node
   * @param {string} id
   * @param {Promise<unknown> | null} created
   */
  async start(api, node, id, created = null) {
    const context = new AudioContext({ latencyHint: "interactive", sampleRate: RATE_HZ });
    const element = new Audio();
    const begun = context.audioWorklet ? this.begin(context, element) : Promise.resolve(null);
    begun.catch(() => {}); // it is said below
    try {
      if (created) await created;
    } catch {
      silence(context, element);
      return;
    }
    this.stop();
    const feed = PlayerFeed.of(api, id);
    Object.assign(this, { api, node, id, context, element, feed, state: "starting" });
    this.leave = feed.subscribe(() => {
      if (feed.connection === "refused") this.stop();
      else this.tellMoves();
    });
    this.tell();
    try {
      const graph = await begun;
      if (this.context !== context) return; // it was stopped meanwhile
      Object.assign(this, graph);
      this.sound();
      if (graph) await this.connect(context, graph.output, api);
      else await this.playStream(element, api);
    } catch (error) {
      if (this.context !== context) return;
      this.stop();
      throw new Error(`The page cannot play it: ${messageOf(error)}`);
    }
  }

  /**
   * @param {AudioContext} context
   * @param {HTMLAudioElement} element
   */
  async begin(context, element) {
    context.resume();
    const gain = new GainNode(context, { gain: 0 });
    const played = new MediaStreamAudioDestinationNode(context);
    gain.connect(played);
    element.srcObject = played.stream;
    const isPlaying = element.play();
    isPlaying.catch(() => {});
    await context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
    const output = new AudioWorkletNode(context, "tonearm-output", { numberOfInputs: 0, outputChannelCount: [2] });
    output.port.onmessage = (/** @type {MessageEvent<Measured>} */ { data }) => {
      if (this.output !== output) return;
      this.heard = { ...this.heard, told: data };
      this.meters.tell();
    };
    output.connect(gain);
    await isPlaying;
    return { gain, output };
  }

  /**
   * @param {AudioContext} context
   * @param {AudioWorkletNode} output
   * @param {NodeApi} api
   */
  async connect(context, output, api) {
    const { id } = this;
    const format = await opusOrPcm();
    if (this.context !== context) return;
    this.heard = { ...NOTHING_HEARD, way: format === "opus" ? "Opus by WebSocket" : "PCM by WebSocket" };
    const frames = new MessageChannel();
    output.port.postMessage(frames.port1, [frames.port1]);
    this.worker = new Worker(new URL("hearing.js", import.meta.url), { type: "module" });
    this.worker.onmessage = (/** @type {MessageEvent<FromHearing>} */ { data: { connection, figures } }) => {
      if (figures) this.heard = { ...this.heard, ...figures };
      else if (connection === "open") this.state = "on";
      else if (connection === "lost") this.state = "lost";
      this.tell();
    };
    const url = api.url(api.player(id, `/ws?format=${format}&header=1&maxLatencyMs=200`)).href;
    this.worker.postMessage({ url, format, output: frames.port2 }, [frames.port2]);
    this.tellMoves();
  }

  tellMoves() {
    const { feed } = this;
    const moves = feed?.state && isMoving(feed.state) && !feed.isGone;
    this.worker?.postMessage({ moves: Boolean(moves) });
  }

  /**
   * @param {HTMLAudioElement} element
   * @param {NodeApi} api
   */
  playStream(element, api) {
    this.heard = { ...NOTHING_HEARD, way: "WAV in an <audio> element" };
    const changed = (/** @type {"on" | "lost"} */ state) => {
      if (this.element !== element) return;
      this.state = state;
      this.tell();
    };
    const play = () => {
      element.src = api.url(api.player(this.id, "/stream.wav")).href;
      return element.play();
    };
    const again = () => this.element === element && play().catch(() => {}); // `onerror` is told of it
    element.onplaying = () => changed("on");
    element.onerror = element.onended = () => {
      changed("lost");
      setTimeout(again, RETRY_MS);
    };
    return play();
  }

  // My volume, in this browser only. Where the browser has a graph, the graph does it: an iPhone's element cannot.
  /** @param {number} volume */
  setVolume(volume) {
    keep("volume", volume);
    this.volume = volume;
    this.isMuted = false;
    this.sound();
  }

  mute() {
    this.isMuted = !this.isMuted;
    this.sound();
  }

  sound() {
    const volume = this.isMuted ? 0 : this.volume;
    if (this.gain) this.gain.gain.value = volume;
    else if (this.element) this.element.volume = volume;
    this.tell();
  }

  // A system that gave the sound to another program, or to a call, has paused the element, and does not play it again.
  resume() {
    this.context?.resume();
    this.element?.play().catch(() => {}); // it is silent as before
  }

  stop() {
    this.worker?.terminate();
    if (this.context && this.element) silence(this.context, this.element);
    this.leave();
    this.feed?.close();
    this.worker = this.element = this.context = this.output = this.gain = this.feed = null;
    this.state = "off";
    this.heard = NOTHING_HEARD;
    this.tell();
  }
}

/**
 * @param {AudioContext} context
 * @param {HTMLAudioElement} element
 */
function silence(context, element) {
  element.pause();
  element.removeAttribute("src");
  element.srcObject = null;
  context.close();
}

async function opusOrPcm() {
  if (!globalThis.AudioDecoder) return "pcm";
  const asked = { codec: "opus", sampleRate: RATE_HZ, numberOfChannels: 2 };
  const { supported } = await AudioDecoder.isConfigSupported(asked);
  return supported ? "opus" : "pcm";
}
