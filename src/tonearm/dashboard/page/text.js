// Values as people read them.

/**
 * @param {number} ms
 * @returns {string}
 */
export function clock(ms) {
  if (ms < 0) return `-${clock(-ms)}`;
  const seconds = Math.floor(ms / 1000);
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

/** @param {number} ms */
export function lasting(ms) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 1) return `${Math.floor(ms / 1000)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/**
 * @param {number} ms
 * @param {Intl.DateTimeFormatOptions} parts
 */
export function timeOfDay(ms, parts = {}) {
  return new Date(ms).toLocaleTimeString([], { ...parts, hourCycle: "h23" }); // `hour12: false` is 24:05 in some languages
}

/** @param {number} bytes */
export function megabytes(bytes) {
  return `${Math.round(bytes / 1e6)} MB`;
}

/**
 * @param {number} number
 * @param {string} one
 */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}

/** @param {number} number */
export function rounded(number, digits = 2) {
  return String(Number(number.toFixed(digits)));
}

// What a track or an entry of a list is called: its title, else the last part of its address. In the path of a file no
// sign but a part of it (`#t=`) means anything.
/** @param {{ title?: string, uri?: string }} track */
export function titleOf(track) {
  if (track.title) return track.title;
  const uri = track.uri ?? "";
  const isLink = uri.includes("://");
  const path = isLink ? uri.split(/[?#]/)[0] : uri.replace(/#t=[\d.,]+$/, "");
  const last = path.replace(/\/+$/, "").split("/").pop() ?? "";
  return (isLink ? decoded(last) : last) || uri;
}

// What is not percent-encoded as it should be stays as it is.
/** @param {string} text */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Addresses in a text of lines, as it is pasted, or in an M3U file.
/** @param {string} text */
export function addressesIn(text) {
  return text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line && !line.startsWith("#"));
}
