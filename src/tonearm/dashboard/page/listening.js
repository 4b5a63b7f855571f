// Hears a player in the page, about 0.2 s after the node sent it: Opus where the browser has WebCodecs, else PCM; an
// <audio> element where it has no AudioWorklet, which is so on pages that are neither https nor from this machine.

import { LastingSocket } from "./api.js";

const RATE_HZ = 48000;
const HEADER_BYTES = 16;
const FRAME_MS = 20;
const PASSED_THROUGH = 8; // flags of the header
const PRIMING = 4;
const NEW_PLACE = 2;
const PAUSE_MS = 500; // no frame for so long: the player was paused
const RATE_OVER_MS = 2000;
const FORGOTTEN_MS = 0.2; // a frame: one that came early does not make all others late for ever

export const LATENESS_LIMITS_MS = [5, 10, 20, 50, 100];

export class Listening {
  constructor(api, playerId) {
    this.api = api;
    this.playerId = playerId;
    this.subscribers = new Set();
    this.clear();
  }

  clear() {
    this.state = "off"; // or "starting", "on", "lost"
    this.way = ""; // how the sound comes here
    this.told = null; // by the audio thread
    this.lateness = new Array(LATENESS_LIMITS_MS.length + 1).fill(0);
    this.framesMissed = 0;
    this.isPassedThrough = null;
    this.recent = []; // arrivals: time and bytes
    this.last = null;
  }

  subscribe(subscriber) {
    this.subscribers.add(subscriber);
    return () => this.subscribers.delete(subscriber);
  }

  tell() {
    for (const subscriber of this.subscribers) subscriber();
  }

  get isOn() {
    return this.state !== "off";
  }

  // What is heard is so much behind what the node sends, as far as the page knows: frames in hand and the sound card.
  get delayMs() {
    if (!this.told || !this.context) return null;
    return this.told.inHandMs + 1000 * (this.context.outputLatency || this.context.baseLatency || 0);
  }

  get bitrate() {
    if (this.recent.length < 2) return 0;
    const bytes = this.recent.reduce((sum, [, size]) => sum + size, 0);
    return (bytes * 8000) / (this.recent.length * FRAME_MS);
  }

  // Called by a click: browsers let no page sound before one.
  async start() {
    const context = new AudioContext({ latencyHint: "interactive", sampleRate: RATE_HZ });
    this.clear();
    this.context = context;
    this.changed("starting");
    try {
      await this.begin(context);
    } catch (error) {
      if (this.context !== context) return; // it was stopped meanwhile
      this.stop();
      throw new Error(`The page cannot play it: ${error.message}`);
    }
  }

  async begin(context) {
    context.resume();
    if (!context.audioWorklet) {
      await this.startElement();
      return;
    }
    await context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
    if (this.context !== context) return;
    this.output = new AudioWorkletNode(context, "tonearm-output", {
      numberOfInputs: 0,
      outputChannelCount: [2],
    });
    this.output.port.onmessage = ({ data }) => {
      this.told = data;
      this.tell();
    };
    this.analyser = new AnalyserNode(context, { fftSize: 4096, smoothingTimeConstant: 0.6 });
    this.output.connect(this.analyser).connect(context.destination);
    const format = await opusOrPcm();
    if (this.context !== context) return;
    this.way = format === "opus" ? "Opus by WebSocket" : "PCM by WebSocket";
    const path = this.api.player(this.playerId, `/ws?format=${format}&header=1&maxLatencyMs=200`);
    const play = format === "opus" ? this.decodingOpus() : playPcm.bind(null, this.output.port);
    this.socket = new LastingSocket(
      this.api,
      async () => path,
      {
        message: (data) => this.take(data, play),
        state: (connection) => {
          this.state = { connecting: this.state, open: "on", lost: "lost" }[connection];
          this.last = null;
          this.tell();
        },
      },
      "arraybuffer",
    );
  }

  startElement() {
    this.way = "WAV in an <audio> element";
    this.element = new Audio(this.api.url(this.api.player(this.playerId, "/stream.wav")).href);
    this.element.onplaying = () => this.changed("on");
    this.element.onerror = () => this.isOn && this.changed("lost");
    return this.element.play();
  }

  changed(state) {
    this.state = state;
    this.tell();
  }

  stop() {
    this.socket?.close();
    this.decoder?.close();
    this.element?.pause();
    this.context?.close();
    this.socket = this.decoder = this.element = this.context = this.output = this.analyser = null;
    this.clear();
    this.tell();
  }

  decodingOpus() {
    this.decoder = new AudioDecoder({
      output: (sound) => {
        const samples = new Float32Array(2 * sound.numberOfFrames);
        sound.copyTo(samples, { planeIndex: 0, format: "f32" });
        sound.close();
        this.output?.port.postMessage(samples, [samples.buffer]);
      },
      error: () => this.changed("lost"),
    });
    this.decoder.configure({ codec: "opus", sampleRate: RATE_HZ, numberOfChannels: 2 });
    return (data, number) =>
      this.decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: number * FRAME_MS * 1000, data }));
  }

  take(message, play) {
    const header = new DataView(message);
    const flags = header.getUint8(1);
    const number = header.getUint32(4);
    this.isPassedThrough = (flags & PASSED_THROUGH) !== 0;
    this.measure(number, flags, message.byteLength);
    play(message.slice(HEADER_BYTES), number);
  }

  // How late this frame is against the earliest one: a frame each 20 ms.
  measure(number, flags, bytes) {
    const now = performance.now();
    while (this.recent.length && now - this.recent[0][0] > RATE_OVER_MS) this.recent.shift();
    if (flags & PRIMING) return;
    this.recent.push([now, bytes - HEADER_BYTES]);
    const { last } = this;
    if (last && !(flags & NEW_PLACE)) this.framesMissed += Math.max(0, number - last.number - 1);
    const begin = now - number * FRAME_MS;
    if (!last || now - last.at > PAUSE_MS) this.last = { at: now, number, begin };
    else this.last = { at: now, number, begin: Math.min(begin, last.begin + FORGOTTEN_MS) };
    const late = begin - this.last.begin;
    const place = LATENESS_LIMITS_MS.findIndex((limit) => late <= limit);
    this.lateness[place < 0 ? LATENESS_LIMITS_MS.length : place] += 1;
  }
}

async function opusOrPcm() {
  if (!globalThis.AudioDecoder) return "pcm";
  const asked = { codec: "opus", sampleRate: RATE_HZ, numberOfChannels: 2 };
  const { supported } = await AudioDecoder.isConfigSupported(asked);
  return supported ? "opus" : "pcm";
}

function playPcm(port, data) {
  const frame = new Int16Array(data);
  const samples = Float32Array.from(frame, (sample) => sample / 32768);
  port.postMessage(samples, [samples.buffer]);
}
