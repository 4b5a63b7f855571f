// A node: its players, its figures, what went wrong last.

import { askForAll } from "./api.js";
import { Badge, Connection, IconButton, Panel, choosing, ticked, typed, useNow, useStore } from "./controls.js";
import { isPlaying } from "./deck.js";
import { NodeFeed } from "./feeds.js";
import { NewPlayer } from "./new_player.js";
import { Nodes } from "./nodes.js";
import { linkTo } from "./places.js";
import { AskDelete } from "./player_page.js";
import { doing, endOf, isMoving, positionAt, shownTitle } from "./player_state.js";
import { Plot } from "./plot.js";
import { Component, html, useEffect, useMemo, useState } from "./preact.js";
import { createPlayer } from "./queue_requests.js";
import { clock, count, lasting, megabytes, timeOfDay } from "./text.js";

/** @import { VNode } from "preact" */
/** @import { PageParts, PlayerNow, PlotLine } from "./types.js" */

/** @param {PageParts} props */
export function NodePage(props) {
  const { api, node } = props;
  const feed = useStore(useMemo(() => new NodeFeed(api), [api]));
  useEffect(() => () => feed.close(), [feed]);
  const [isCreating, setCreating] = useState(false);
  const aside = html`<button type="button" class="strong" disabled=${feed.isGone} onClick=${() => setCreating(true)}>New player</button>`;
  return html`
    <div class="title-line"><h1 tabindex="-1">${api.name === "this node" ? "Node" : api.name}</h1><${Connection} feed=${feed} /></div>
    <${Panel} title="Players" aside=${aside}><${Players} ...${props} feed=${feed} create=${() => setCreating(true)} /><//>
    <${Nodes} ...${props} feed=${feed} />
    <${Tiles} feed=${feed} />
    <div class="plots">
      <${Panel} title="Listeners"><${Plot} lines=${LISTENER_LINES} figures=${feed.figures} unit="" /><//>
      <${Panel} title="CPU"><${Plot} lines=${CPU_LINES} figures=${feed.figures} unit=" %" /><//>
      <${Panel} title="Late frames"><${Plot} lines=${LATE_LINES} figures=${feed.figures} unit=" /s" /><//>
    </div>
    <div class="halves">
      <${Panel} title="Last errors"><${Errors} feed=${feed} node=${node} /><//>
      <${Panel} title="Processes"><${Processes} stats=${feed.stats} /><//>
    </div>
    ${isCreating && html`<${NewPlayer} ...${props} close=${() => setCreating(false)} />`}
  `;
}

/** @type {PlotLine[]} */
const LISTENER_LINES = [
  { name: "PCM", value: (line) => line.listeners.pcm },
  { name: "Opus", value: (line) => line.listeners.opus },
  { name: "MP3", value: (line) => line.listeners.mp3 },
  { name: "Voice", value: (line) => line.listeners.voice },
];
/** @type {PlotLine[]} */
const CPU_LINES = [
  { name: "node", value: (line) => line.cpu.node },
  { name: "decoders", value: (line) => line.cpu.decoder },
];
/** @type {PlotLine[]} */
const LATE_LINES = [
  { name: "by 5 ms", value: (line) => line.late.over5ms },
  { name: "by 20 ms", value: (line) => line.late.over20ms },
  { name: "by 100 ms", value: (line) => line.late.over100ms },
];

/** @param {{ feed: NodeFeed }} props */
function Tiles({ feed }) {
  const { stats, figures } = feed;
  const now = figures.at(-1);
  const listeners = stats ? Object.values(stats.listeners).reduce((sum, one) => sum + one, 0) : 0;
  const memory = stats ? stats.processes.reduce((sum, process) => sum + process.memoryBytes, 0) : 0;
  const late = stats?.framesLate;
  // The list is the whole cluster's, the figures are those of the node that answers.
  const playing = [...feed.players.values()].filter(({ state }) => state === "playing").length;
  const asleep = feed.api.isInCluster ? "" : `, ${stats?.playersAsleep} asleep`;
  const tiles = [
    ["Players", feed.players.size, stats ? `${playing} playing${asleep}` : ""],
    [
      "Listeners",
      listeners,
      stats ? `PCM ${stats.listeners.pcm}, Opus ${stats.listeners.opus}, MP3 ${stats.listeners.mp3}` : "",
    ],
    [
      "CPU",
      now ? `${Math.round(now.cpu.node + now.cpu.decoder + now.cpu.other)} %` : "–",
      now ? `node ${Math.round(now.cpu.node)} %, of one core` : "",
    ],
    ["Memory", stats ? megabytes(memory) : "–", stats ? count(stats.processes.length, "process", "processes") : ""],
    [
      "Late frames",
      late ? late.over20ms.toLocaleString() : "–",
      late ? `by 20 ms, of ${stats.framesSent.toLocaleString()} since ${timeOfDay(Date.now() - stats.uptime)}` : "",
    ],
    ["Up for", stats ? lasting(stats.uptime) : "–", stats ? `version ${stats.version}` : ""],
  ];
  return html`<dl class="tiles">
    ${tiles.map(([name, value, more]) => html`<div><dt>${name}</dt><dd>${value}<small>${more}</small></dd></div>`)}
  </dl>`;
}

/** @type {Array<{ name: string, key: (state: PlayerNow) => string | number, kind?: string }>} */
const COLUMNS = [
  { name: "Player", key: (state) => state.id.toLowerCase() },
  { name: "State", key: doing },
  { name: "Title", key: (state) => shownTitle(state).title.toLowerCase() },
  { name: "Position", key: (state) => state.position, kind: "number" },
  { name: "Listeners", key: (state) => state.listeners, kind: "number" },
];

const ORDERS = ["Pause", "Play", "Skip"];

/** @param {PageParts & { feed: NodeFeed, create: () => void }} props */
function Players({ api, node, notices, listening, feed, create }) {
  useStore(listening);
  const [words, setWords] = useState("");
  const [sorting, setSorting] = useState({ column: 0, isDown: false });
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  const [deleting, setDeleting] = useState(/** @type {string[] | null} */ (null)); // ids, while it is asked
  const all = [...feed.players.values()];
  const now = useNow(1000, !feed.isGone && all.some(isMoving));
  if (!feed.isBegun) return html`<p class="quiet">Not told yet.</p>`;
  if (!all.length) return html`<${Empty} ...${{ api, node, notices, listening, create }} />`;
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((state) => {
    const { title, author } = shownTitle(state);
    const text = `${state.id} ${doing(state)} ${title} ${author}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
  const { key } = COLUMNS[sorting.column];
  const order = sorting.isDown ? -1 : 1;
  found.sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    return a < b ? -order : a > b ? order : one.id < other.id ? -1 : 1;
  });
  const sort = (/** @type {number} */ column) =>
    setSorting({ column, isDown: sorting.column === column && !sorting.isDown });
  const ids = found.map(({ id }) => id).filter((id) => chosen.has(id));
  const choose = (/** @type {string[]} */ those, /** @type {boolean} */ isChosen) =>
    setChosen((before) => choosing(before, those, isChosen));
  const chooseAll = ticked((isChosen) => {
    const all = found.map(({ id }) => id);
    choose(all, isChosen);
  });
  const say = (/** @type {string[]} */ those, /** @type {string} */ verb) =>
    notices.of(askForAll(those, (id) => api.ask("POST", api.player(id, `/${verb}`))));
  const listen = (/** @type {string} */ id) => notices.of(listening.toggle(api, node, id));
  /** @type {RowOrders} */
  const orders = { say, choose, listen, remove: setDeleting };
  return html`
    <div class="tools">
      <input type="search" aria-label="Search" placeholder="Search" data-shortcut="/" value=${words} onInput=${typed(setWords)} />
      <span class="quiet">${words ? `${found.length} of ${all.length}` : count(all.length, "player")}</span>
      ${
        ids.length > 0 &&
        html`<fieldset class="tools" aria-label="Chosen players" disabled=${feed.isGone}><span class="quiet">${ids.length} chosen</span>
        ${ORDERS.map((verb) => html`<button type="button" onClick=${() => say(ids, verb.toLowerCase())}>${verb}</button>`)}
        <button type="button" class="danger" onClick=${() => setDeleting(ids)}>Delete</button></fieldset>`
      }
    </div>
    <div class="table-frame scrolls">
      <table aria-label="Players" class="players">
        <thead><tr>
          <td><input type="checkbox" aria-label="Choose all" checked=${ids.length === found.length && ids.length > 0}
            onChange=${chooseAll} /></td>
          ${COLUMNS.map(({ name, kind }, column) => {
            const isSorted = sorting.column === column;
            const direction = sorting.isDown ? "descending" : "ascending";
            return html`<th scope="col" class=${kind} aria-sort=${isSorted ? direction : "none"}>
              <button type="button" onClick=${() => sort(column)}>${name}<span aria-hidden="true">${isSorted ? (sorting.isDown ? " ↓" : " ↑") : ""}</span></button>
            </th>`;
          })}
          <td></td>
        </tr></thead>
        <tbody>${found.map((state) => {
          const position = shownPosition(state, now);
          return html`<${Row} key=${state.id} state=${state} node=${node} position=${position} isGone=${feed.isGone}
            isChosen=${chosen.has(state.id)} isHeard=${listening.isAt(api, state.id)} of=${orders} />`;
        })}</tbody>
      </table>
    </div>
    ${deleting && html`<${AskDelete} api=${api} ids=${deleting} notices=${notices} close=${() => setDeleting(null)} then=${() => choose(deleting, false)} />`}`;
}

/**
 * @param {PlayerNow} state
 * @param {number} now
 */
function shownPosition(state, now) {
  return state.state === "idle" || state.state === "failed" ? "" : clock(positionAt(state, now));
}

// Hundreds of them, with a place that moves each second: what else is in a line is made anew only where it is another.
/**
 * @typedef {object} RowOrders
 * @property {(ids: string[], verb: string) => unknown} say
 * @property {(ids: string[], isChosen: boolean) => unknown} choose
 * @property {(id: string) => unknown} listen
 * @property {(ids: string[]) => unknown} remove
 */
/**
 * @typedef {object} RowProps
 * @property {PlayerNow} state
 * @property {number} node
 * @property {string} position
 * @property {boolean} isGone
 * @property {boolean} isChosen
 * @property {boolean} isHeard
 * @property {RowOrders} of
 */
/** @extends {Component<RowProps>} */
class Row extends Component {
  look = "";
  /** @type {Array<VNode | VNode[]>} */
  parts = [];

  /** @param {RowProps} next */
  shouldComponentUpdate(next) {
    return next.position !== this.props.position || lookOf(next) !== this.look;
  }

  /** @param {RowProps} props */
  render(props) {
    const { state, position } = props;
    const look = lookOf(props);
    if (look !== this.look) Object.assign(this, { look, parts: this.made(props) });
    const end = endOf(state);
    return html`<tr>
      ${this.parts[0]}
      <td class="number">${position}${position && end ? html`<span class="quiet"> / ${clock(end)}</span>` : ""}</td>
      ${this.parts[1]}
    </tr>`;
  }

  // Its buttons use the functions as they are when one is pressed.
  /** @param {RowProps} props */
  made({ state, node, isGone, isChosen, isHeard }) {
    const { id } = state;
    const { title, author } = shownTitle(state);
    const toggle = isPlaying(state) ? "pause" : "play";
    const before = html`
      <td><input type="checkbox" aria-label=${`Choose ${id}`} checked=${isChosen} onChange=${ticked((isOn) => this.props.of.choose([id], isOn))} /></td>
      <th scope="row"><a href=${linkTo(node, id)}>${id}</a></th>
      <td><${Badge} of=${isGone ? "unknown" : doing(state)} /></td>
      <td class="title" dir="auto">${title}${author && html` <span class="quiet">${author}</span>`}</td>`;
    const after = html`
      <td class="number">${state.listeners}</td>
      <td class="verbs">
        <${IconButton} label=${toggle === "pause" ? "Pause" : "Play"} icon=${toggle} disabled=${isGone} onClick=${() => this.props.of.say([id], toggle)} />
        <${IconButton} label="Skip" icon="skip" disabled=${isGone} onClick=${() => this.props.of.say([id], "skip")} />
        <${IconButton} label=${isHeard ? "Stop listening" : "Listen here"} icon="headphones" kind=${isHeard ? "on" : ""} onClick=${() => this.props.of.listen(id)} />
        <${IconButton} label="Delete" icon="remove" disabled=${isGone} onClick=${() => this.props.of.remove([id])} />
      </td>`;
    return [before, after];
  }
}

/** @param {RowProps} props */
function lookOf({ state, isGone, isChosen, isHeard }) {
  const { title, author } = shownTitle(state);
  return [doing(state), isPlaying(state), title, author, endOf(state), state.listeners, isGone, isChosen, isHeard].join(
    "\n",
  );
}

// What a newcomer sees first.
/** @param {Pick<PageParts, "api" | "node" | "notices" | "listening"> & { create: () => void }} props */
function Empty({ api, node, notices, listening, create }) {
  const welcome = async () => {
    const created = createPlayer(api, "demo", [api.clip]);
    notices.of(listening.start(api, node, "demo", created));
    if ((await notices.of(created)) !== undefined) location.hash = linkTo(node, "demo");
  };
  return html`<div class="empty">
    <img src="icon.svg" alt="" width="96" height="96" />
    <p>Nothing plays yet. A player is a queue and a steady stream of sound: give it the address of a file, a radio station
    or a playlist.</p>
    <p class="buttons">
      ${api.clip && html`<button type="button" class="strong" onClick=${welcome}>Try the welcome clip</button>`}
      <button type="button" onClick=${create}>Choose an address</button>
    </p>
  </div>`;
}

/** @param {{ feed: NodeFeed, node: number }} props */
function Errors({ feed, node }) {
  if (!feed.errors.length) return html`<p class="quiet">None since this page was opened.</p>`;
  return html`<ul class="errors">
    ${feed.errors.map(
      ({ id, time, error, uri }) => html`<li>
      <p><a href=${linkTo(node, id)}>${id}</a> <code>${error.code}</code> <span class="quiet">${timeOfDay(time)}</span></p>
      <p>${error.message} <span class="quiet">${error.hint}</span></p>
      ${uri && html`<p class="quiet address">${uri}</p>`}
    </li>`,
    )}
  </ul>`;
}

/** @param {{ stats: NodeFeed["stats"] }} props */
function Processes({ stats }) {
  if (!stats) return html`<p class="quiet">Not told yet.</p>`;
  return html`
    <div class="table-frame"><table aria-label="Processes">
      <thead><tr><th scope="col">Kind</th><th scope="col" class="number">Process</th><th scope="col" class="number">Load</th><th scope="col" class="number">Memory</th><th scope="col" class="number">Sessions</th></tr></thead>
      <tbody>${stats.processes.map(
        (process) => html`<tr key=${process.pid}>
        <th scope="row">${process.kind}</th><td class="number">${process.pid}</td>
        <td class="number">${process.load === undefined ? "–" : `${Math.round(process.load)} %`}</td>
        <td class="number">${megabytes(process.memoryBytes)}</td>
        <td class="number">${process.kind === "decoder" ? process.sessions : ""}</td>
      </tr>`,
      )}</tbody>
    </table></div>
    <p class="quiet">${count(stats.decoderExits, "decoder process", "decoder processes")} ended by themselves and were started anew. Dropouts:
    source ${stats.timesRunDry.source}, decoder ${stats.timesRunDry.decoder}. Left out: ${count(stats.framesLeftOut, "frame")}.</p>`;
}
