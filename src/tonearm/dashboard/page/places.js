// What the address says is shown: #/0 is the first node, #/0/lobby its player "lobby", #/0/lobby/sound a tab of its page.

import { decoded } from "./text.js";

export function place() {
  const [, node = "0", player = "", tab = ""] = location.hash.split("/");
  return { node: Number.parseInt(node, 10) || 0, player: decoded(player), tab };
}

/** @param {number} node */
export function linkTo(node, player = "", tab = "") {
  return ["#", node, encodeURIComponent(player), tab].join("/").replace(/\/+$/, "");
}

// Whether a player can be called so.
/** @param {string} text */
export function isId(text) {
  return /^[\w.~:@+-]{1,128}$/.test(text) && !/^\.\.?$/.test(text);
}
