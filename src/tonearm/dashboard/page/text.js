// Values as people read them.

export function clock(ms) {
  if (ms < 0) return `-${clock(-ms)}`;
  const seconds = Math.floor(ms / 1000);
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

export function lasting(ms) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 1) return `${Math.floor(ms / 1000)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

export function timeOfDay(ms) {
  return new Date(ms).toLocaleTimeString([], { hour12: false });
}

export function megabytes(bytes) {
  return `${Math.round(bytes / 1e6)} MB`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}

export function rounded(number, digits = 2) {
  return String(Number(number.toFixed(digits)));
}

// What a track or an entry of a list is called: its title, else the last part of its address.
export function titleOf(track) {
  if (track.title) return track.title;
  const uri = track.uri ?? "";
  return decodeURIComponent_(uri.split(/[?#]/)[0].replace(/\/+$/, "").split("/").pop()) || uri;
}

function decodeURIComponent_(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Addresses in a text of lines, as it is pasted, or in an M3U file.
export function addressesIn(text) {
  return text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line && !line.startsWith("#"));
}

// The kind of the file that a track was read from, such as "flac", which its identifier holds: Lavalink's track
// format, version 3. Empty where there is none.
export function fileKind(encoded) {
  try {
    const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    let at = 5; // length with flags, version
    const text = () => {
      const length = view.getUint16(at);
      at += 2 + length;
      return new TextDecoder().decode(bytes.subarray(at - length, at));
    };
    const textOrNull = () => (view.getUint8(at++) ? text() : null);
    text(); // title
    text(); // author
    at += 8; // length
    text(); // identifier
    at += 1; // whether it is a stream
    textOrNull(); // uri
    textOrNull(); // artwork
    textOrNull(); // isrc
    text(); // source
    return at + 8 < bytes.length ? text() : "";
  } catch {
    return "";
  }
}
