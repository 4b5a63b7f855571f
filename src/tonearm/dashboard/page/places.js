// What the address says is shown: #/0 is the first node, #/0/lobby its player "lobby".

import { decoded } from "./text.js";

export function place() {
  const [, node = "0", ...rest] = location.hash.split("/");
  return { node: Number.parseInt(node, 10) || 0, player: decoded(rest.join("/")) };
}

export function linkTo(node, player = "") {
  return player ? `#/${node}/${encodeURIComponent(player)}` : `#/${node}`;
}
