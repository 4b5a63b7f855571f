// The nodes of a cluster: how they are doing, which of them give their players to others, and where a player is.

import { Panel } from "./controls.js";
import { html, useEffect, useState } from "./preact.js";

/** @import { NodeApi } from "./api.js" */
/** @import { NodeFeed } from "./feeds.js" */
/** @import { PageParts, PlayerParts } from "./types.js" */
/** @import { ClusterNode, ClusterNodes } from "./wire.js" */

const EVERY_MS = 2000;

/** @param {PageParts & { feed: NodeFeed }} props */
export function Nodes({ api, notices, feed }) {
  const nodes = useNodes(api);
  if (!nodes.length) return null;
  const drain = (/** @type {ClusterNode} */ { name, draining }) => {
    const done = draining ? `${name} takes players again.` : `${name} gives its players to other nodes.`;
    notices.of(api.ask(draining ? "DELETE" : "POST", `v0/nodes/${name}/drain`), done);
  };
  const latency = nodes.find(({ engineLatencyMs }) => typeof engineLatencyMs === "number")?.engineLatencyMs;
  const aside = typeof latency === "number" && html`<span class="quiet">the engine answers within ${latency} ms</span>`;
  return html`<${Panel} title="Nodes" aside=${aside}><div class="table-frame scrolls"><table aria-label="Nodes">
    <thead><tr><th scope="col">Node</th><th scope="col">State</th><th scope="col" class="number">Players</th>
      <th scope="col" class="number">Load</th><th scope="col" class="number">Last sign of life</th><td></td></tr></thead>
    <tbody>${nodes.map(
      (node) => html`<tr key=${node.name}>
      <th scope="row">${node.name}</th><td>${stateOf(node)}</td><td class="number">${node.players}</td>
      <td class="number">${Math.round(node.load * 100)} %</td><td class="number">${(node.leaseAgeMs / 1000).toFixed(1)} s</td>
      <td><button type="button" disabled=${feed.isGone || !node.alive} aria-label=${`${verbOf(node)} ${node.name}`} onClick=${() => drain(node)}>${verbOf(node)}</button></td>
    </tr>`,
    )}</tbody>
  </table></div><//>`;
}

/** @param {PlayerParts} props */
export function Place({ api, state, act }) {
  const nodes = useNodes(api);
  const others = nodes.filter(({ name, alive, draining }) => alive && !draining && name !== state.node);
  if (!state.node || !others.length) return null;
  const move = (/** @type {string} */ name) => act("POST", "/move", { node: name }, `The player goes on at ${name}.`);
  return html`<${Panel} title="Node">
    <p>The player is at ${state.node}.</p>
    <p class="buttons">${others.map(({ name }) => html`<button type="button" key=${name} onClick=${() => move(name)}>Move to ${name}</button>`)}</p>
  <//>`;
}

/** @param {NodeApi} api */
function useNodes(api) {
  const [nodes, setNodes] = useState(/** @type {ClusterNode[]} */ ([]));
  useEffect(() => {
    if (!api.isInCluster) return undefined;
    let isOver = false;
    const told = (/** @type {ClusterNodes} */ { nodes }) => isOver || setNodes(nodes);
    const read = () => document.hidden || api.get("v0/nodes").then(told, () => {}); // the page's socket tells what is wrong
    read();
    const timer = setInterval(read, EVERY_MS);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [api]);
  return nodes;
}

/** @param {ClusterNode} node */
function stateOf({ alive, draining }) {
  if (!alive) return "lost";
  return draining ? "draining" : "alive";
}

/** @param {ClusterNode} node */
function verbOf({ draining }) {
  return draining ? "Stop draining" : "Drain";
}
