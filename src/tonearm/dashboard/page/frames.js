// What the page and its worker know of frames.

export const RATE_HZ = 48000;
export const FRAME_MS = 20;
export const LATENESS_LIMITS_MS = [5, 10, 20, 50, 100];
