// Plays what comes over the network at the pace of the sound card, with as little in hand as the network allows, and
// measures what it plays. Runs in the audio thread.

/** @import { Measured } from "./types.js" */

const RATE_HZ = 48000;
const KEPT_SAMPLES = 4 * RATE_HZ; // for each channel
const FIRST_TARGET_MS = 120;
const LEAST_TARGET_MS = 60;
const MOST_TARGET_MS = 400;
const MORE_AFTER_UNDERRUN_MS = 40;
const LESS_AFTER_QUIET_MINUTE_MS = 10;
const PAUSE_S = 0.5; // nothing came for so long: the player was paused, which is no fault of the network
const DROPPED_OVER_TARGET_MS = 300;
const PACE = 0.005; // so much faster or slower, which nobody hears
const TOLD_EVERY_S = 0.05;
const MOMENT_BLOCKS = 8; // of 50 ms: the 400 ms of momentary loudness

// ITU-R BS.1770, the two filters at 48 kHz.
const SHELF = [1.53512485958697, -2.69169618940638, 1.19839281085285, -1.69065929318241, 0.73248077421585];
const HIGH_PASS = [1, -2, 1, -1.99004745483398, 0.99007225036621];

class Biquad {
  x = 0;
  y = 0;

  /** @param {number[]} coefficients */
  constructor([b0, b1, b2, a1, a2]) {
    this.b0 = b0;
    this.b1 = b1;
    this.b2 = b2;
    this.a1 = a1;
    this.a2 = a2;
  }

  /** @param {number} input */
  next(input) {
    /** @type {number} */
    const output = this.b0 * input + this.x;
    this.x = this.b1 * input - this.a1 * output + this.y;
    this.y = this.b2 * input - this.a2 * output;
    return output;
  }
}

class Meter {
  filters = [0, 1].map(() => [new Biquad(SHELF), new Biquad(HIGH_PASS)]);
  /** @type {number[]} */
  moments = [];
  peak = [0, 0];
  squares = [0, 0];
  weighted = 0;
  samples = 0;

  clear() {
    this.peak = [0, 0];
    this.squares = [0, 0];
    this.weighted = 0;
    this.samples = 0;
  }

  /**
   * @param {number} channel
   * @param {number} sample
   */
  add(channel, sample) {
    const size = Math.abs(sample);
    if (size > this.peak[channel]) this.peak[channel] = size;
    this.squares[channel] += sample * sample;
    const [shelf, highPass] = this.filters[channel];
    const heard = highPass.next(shelf.next(sample));
    this.weighted += heard * heard;
  }

  // What was measured since the last time.
  /** @returns {Pick<Measured, "peak" | "rms" | "lufs">} */
  take() {
    this.moments = [...this.moments, this.weighted / this.samples].slice(-MOMENT_BLOCKS);
    const power = this.moments.reduce((sum, moment) => sum + moment, 0) / this.moments.length;
    const told = {
      peak: this.peak,
      rms: this.squares.map((sum) => Math.sqrt(sum / this.samples)),
      lufs: -0.691 + 10 * Math.log10(power),
    };
    this.clear();
    return told;
  }
}

class Output extends AudioWorkletProcessor {
  constructor() {
    super();
    this.left = new Float32Array(KEPT_SAMPLES);
    this.right = new Float32Array(KEPT_SAMPLES);
    this.written = 0; // samples, since the beginning
    this.read = 0;
    this.targetMs = FIRST_TARGET_MS;
    this.isFilling = true;
    this.underruns = 0;
    /** @type {number | null} */
    this.dryAt = null;
    this.quietSince = currentTime;
    this.toldAt = currentTime;
    this.meter = new Meter();
    // Frames come by a port of their own, from the worker that decodes them.
    this.port.onmessage = (/** @type {MessageEvent<MessagePort>} */ { data: frames }) => {
      frames.onmessage = ({ data }) => this.take(data);
    };
  }

  get inHandMs() {
    return ((this.written - this.read) * 1000) / RATE_HZ;
  }

  // `samples` are interleaved.
  /** @param {Float32Array} samples */
  take(samples) {
    for (let index = 0; index < samples.length; index += 2) {
      const place = this.written++ % KEPT_SAMPLES;
      this.left[place] = samples[index];
      this.right[place] = samples[index + 1];
    }
    if (this.dryAt !== null && currentTime - this.dryAt < PAUSE_S) {
      this.underruns += 1;
      this.targetMs = Math.min(this.targetMs + MORE_AFTER_UNDERRUN_MS, MOST_TARGET_MS);
      this.quietSince = currentTime;
    }
    this.dryAt = null;
    if (this.written - this.read > KEPT_SAMPLES) this.trim();
  }

  trim() {
    this.read = this.written - (this.targetMs * RATE_HZ) / 1000;
  }

  /**
   * @param {Float32Array[][]} _
   * @param {Float32Array[][]} outputs
   */
  process(_, [[left, right]]) {
    const inHandMs = this.inHandMs;
    if (this.isFilling && inHandMs >= this.targetMs) {
      this.isFilling = false;
      this.trim(); // the device opens late: what piled up until then would be delay for ever
    }
    if (inHandMs > this.targetMs + DROPPED_OVER_TARGET_MS) this.trim();
    if (currentTime - this.quietSince > 60) {
      this.targetMs = Math.max(this.targetMs - LESS_AFTER_QUIET_MINUTE_MS, LEAST_TARGET_MS);
      this.quietSince = currentTime;
    }
    const ahead = this.inHandMs - this.targetMs;
    const pace = 1 + Math.max(-PACE, Math.min(PACE, ahead / 4000));
    for (let index = 0; index < left.length; index += 1) {
      if (!this.isFilling && this.written - this.read < 2) {
        this.isFilling = true;
        this.dryAt = currentTime;
      }
      if (!this.isFilling) this.playOne(left, right, index, pace);
      this.meter.add(0, left[index]);
      this.meter.add(1, right[index]);
    }
    this.meter.samples += left.length;
    if (currentTime - this.toldAt >= TOLD_EVERY_S) {
      this.toldAt = currentTime;
      const { inHandMs, targetMs, underruns } = this;
      /** @type {Measured} */
      const told = { inHandMs, targetMs, underruns, ...this.meter.take() };
      this.port.postMessage(told);
    }
    return true;
  }

  /**
   * @param {Float32Array} left
   * @param {Float32Array} right
   * @param {number} index
   * @param {number} pace
   */
  playOne(left, right, index, pace) {
    const whole = Math.floor(this.read);
    const part = this.read - whole;
    const one = whole % KEPT_SAMPLES;
    const other = (whole + 1) % KEPT_SAMPLES;
    left[index] = this.left[one] + part * (this.left[other] - this.left[one]);
    right[index] = this.right[one] + part * (this.right[other] - this.right[one]);
    this.read += pace;
  }
}

registerProcessor("tonearm-output", Output);
