// Sounds to begin with. Each replaces all filters.

/** @param {number[]} gains */
function bands(...gains) {
  return gains.map((gain_db, band) => ({ band, gain_db }));
}

export const PRESETS = [
  { name: "As it is", filters: {} },
  { name: "Bass", filters: { eq: bands(6, 6, 5, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), limiter: { enabled: true } } },
  { name: "Treble", filters: { eq: bands(0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 5), limiter: { enabled: true } } },
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
  { name: "Nightcore", filters: { timescale: { rate: 1.2 } } },
  { name: "Vaporwave", filters: { timescale: { rate: 0.85 }, lowPass: { frequencyHz: 9000 } } },
  { name: "Karaoke", filters: { karaoke: {} } },
  { name: "Around the head", filters: { rotation: { rotationHz: 0.2 } } },
  { name: "Mono", filters: { channelMix: { leftToLeft: 0.5, leftToRight: 0.5, rightToLeft: 0.5, rightToRight: 0.5 } } },
  { name: "Telephone", filters: { highPass: { frequencyHz: 300 }, lowPass: { frequencyHz: 3400 } } },
];
