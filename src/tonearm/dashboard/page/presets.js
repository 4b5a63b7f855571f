// Sounds to begin with. Each replaces all filters. Those that the Python client has too are the same there.

/** @param {number[]} gains */
function bands(...gains) {
  return gains.map((gain_db, band) => ({ band, gain_db }));
}

/** @param {number[]} gains in Lavalink's unit */
function equalizer(...gains) {
  return gains.map((gain, band) => ({ band, gain }));
}

export const PRESETS = [
  { name: "As it is", filters: {} },
  { name: "Bass", filters: { eq: bands(6, 6, 5, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), limiter: { enabled: true } } },
  { name: "Treble", filters: { equalizer: equalizer(0, 0, 0, 0, 0, 0, 0, 0, 0, 0.05, 0.1, 0.15, 0.2, 0.2, 0.2) } },
  {
    name: "Voice",
    filters: { eq: bands(-12, -8, -4, -2, 0, 0, 1, 2, 3, 3, 3, 2, 0, -2, -4), highPass: { frequencyHz: 80 } },
  },
  {
    name: "Small speaker",
    filters: { eq: bands(-12, -6, 0, 3, 4, 3, 1, 0, 0, 0, 1, 2, 2, 1, 0), limiter: { enabled: true } },
  },
  {
    name: "Night",
    filters: { compressor: { thresholdDb: -30, ratio: 4, makeupDb: 6 }, normalization: { targetLufs: -20 } },
  },
  { name: "Even loudness", filters: { normalization: { targetLufs: -16 } } },
  { name: "Nightcore", filters: { timescale: { speed: 1.2, pitch: 1.2 } } },
  {
    name: "Vaporwave",
    filters: {
      timescale: { speed: 0.85, pitch: 0.8 },
      equalizer: equalizer(0.3, 0.3),
      tremolo: { depth: 0.3, frequency: 14 },
    },
  },
  { name: "Karaoke", filters: { karaoke: {} } },
  { name: "Around the head", filters: { rotation: { rotationHz: 0.2 } } },
  { name: "Mono", filters: { channelMix: { leftToLeft: 0.5, leftToRight: 0.5, rightToLeft: 0.5, rightToRight: 0.5 } } },
  { name: "Telephone", filters: { highPass: { frequencyHz: 300 }, lowPass: { frequencyHz: 3400 } } },
];
