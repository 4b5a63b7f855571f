// A node: its players, its figures, what went wrong last.

import { Badge, Connection, IconButton, Panel, useNow, useStore } from "./controls.js";
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

const LISTENER_LINES = [
  { name: "PCM", value: (line) => line.listeners.pcm },
  { name: "Opus", value: (line) => line.listeners.opus },
  { name: "MP3", value: (line) => line.listeners.mp3 },
  { name: "Voice", value: (line) => line.listeners.voice },
];
const CPU_LINES = [
  { name: "node", value: (line) => line.cpu.node },
  { name: "decoders", value: (line) => line.cpu.decoder },
];
const LATE_LINES = [
  { name: "by 5 ms", value: (line) => line.late.over5ms },
  { name: "by 20 ms", value: (line) => line.late.over20ms },
  { name: "by 100 ms", value: (line) => line.late.over100ms },
];

function Tiles({ feed }) {
  const { stats, figures } = feed;
  const now = figures.at(-1);
  const listeners = stats ? Object.values(stats.listeners).reduce((sum, one) => sum + one, 0) : 0;
  const memory = stats ? stats.processes.reduce((sum, process) => sum + process.memoryBytes, 0) : 0;
  const late = stats?.framesLate;
  const tiles = [
    ["Players", feed.players.size, stats ? `${stats.players.playing ?? 0} playing, ${stats.playersAsleep} asleep` : ""],
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

const COLUMNS = [
  { name: "Player", key: (state) => state.id.toLowerCase() },
  { name: "State", key: doing },
  { name: "Title", key: (state) => shownTitle(state).title.toLowerCase() },
  { name: "Position", key: (state) => state.position, kind: "number" },
  { name: "Listeners", key: (state) => state.listeners, kind: "number" },
];

const ORDERS = ["Pause", "Play", "Skip"];

function Players({ api, node, notices, listening, feed, create }) {
  useStore(listening);
  const [words, setWords] = useState("");
  const [sorting, setSorting] = useState({ column: 0, isDown: false });
  const [chosen, setChosen] = useState(new Set());
  const [deleting, setDeleting] = useState(null); // ids, while it is asked
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
  const sort = (column) => setSorting({ column, isDown: sorting.column === column && !sorting.isDown });
  const ids = found.map(({ id }) => id).filter((id) => chosen.has(id));
  const choose = (those, isChosen) => {
    const next = new Set(chosen);
    for (const id of those) isChosen ? next.add(id) : next.delete(id);
    setChosen(next);
  };
  const say = (those, verb) => notices.of(Promise.all(those.map((id) => api.ask("POST", api.player(id, `/${verb}`)))));
  const rowOf = { say, choose, remove: setDeleting, listen: (id) => notices.of(listening.toggle(api, node, id)) };
  return html`
    <div class="tools">
      <input type="search" aria-label="Search" placeholder="Search" data-shortcut="/" value=${words} onInput=${(event) => setWords(event.target.value)} />
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
            onChange=${(event) =>
              choose(
                found.map(({ id }) => id),
                event.target.checked,
              )} /></td>
          ${COLUMNS.map(({ name, kind }, column) => {
            const isSorted = sorting.column === column;
            const direction = sorting.isDown ? "descending" : "ascending";
            return html`<th scope="col" class=${kind} aria-sort=${isSorted ? direction : "none"}>
              <button type="button" onClick=${() => sort(column)}>${name}<span aria-hidden="true">${isSorted ? (sorting.isDown ? " ↓" : " ↑") : ""}</span></button>
            </th>`;
          })}
          <td></td>
        </tr></thead>
        <tbody>${found.map(
          (
            state,
          ) => html`<${Row} key=${state.id} state=${state} node=${node} position=${shownPosition(state, now)} isGone=${feed.isGone}
          isChosen=${chosen.has(state.id)} isHeard=${listening.isAt(api, state.id)} of=${rowOf} />`,
        )}</tbody>
      </table>
    </div>
    ${deleting && html`<${AskDelete} api=${api} ids=${deleting} notices=${notices} close=${() => setDeleting(null)} />`}`;
}

function shownPosition(state, now) {
  return state.state === "idle" || state.state === "failed" ? "" : clock(positionAt(state, now));
}

// Hundreds of them, with a place that moves each second: what else is in a line is made anew only where it is another.
class Row extends Component {
  shouldComponentUpdate(next) {
    return next.position !== this.props.position || lookOf(next) !== this.look;
  }

  // What a button does, by the functions as they are when it is pressed.
  does(verb, ...values) {
    return () => this.props.of[verb](...values);
  }

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

  made({ state, node, isGone, isChosen, isHeard }) {
    const { id } = state;
    const { title, author } = shownTitle(state);
    const toggle = isPlaying(state) ? "pause" : "play";
    const before = html`
      <td><input type="checkbox" aria-label=${`Choose ${id}`} checked=${isChosen} onChange=${(event) => this.props.of.choose([id], event.target.checked)} /></td>
      <th scope="row"><a href=${linkTo(node, id)}>${id}</a></th>
      <td><${Badge} of=${isGone ? "unknown" : doing(state)} /></td>
      <td class="title">${title}${author && html` <span class="quiet">${author}</span>`}</td>`;
    const after = html`
      <td class="number">${state.listeners}</td>
      <td class="verbs">
        <${IconButton} label=${toggle === "pause" ? "Pause" : "Play"} icon=${toggle} disabled=${isGone} onClick=${this.does("say", [id], toggle)} />
        <${IconButton} label="Skip" icon="skip" disabled=${isGone} onClick=${this.does("say", [id], "skip")} />
        <${IconButton} label=${isHeard ? "Stop listening" : "Listen here"} icon="headphones" kind=${isHeard ? "on" : ""} onClick=${this.does("listen", id)} />
        <${IconButton} label="Delete" icon="remove" disabled=${isGone} onClick=${this.does("remove", [id])} />
      </td>`;
    return [before, after];
  }
}

function lookOf({ state, isGone, isChosen, isHeard }) {
  const { title, author } = shownTitle(state);
  return [doing(state), isPlaying(state), title, author, endOf(state), state.listeners, isGone, isChosen, isHeard].join(
    "\n",
  );
}

// What a newcomer sees first.
function Empty({ api, node, notices, listening, create }) {
  const welcome = async () => {
    const created = notices.of(createPlayer(api, "demo", [api.clip]));
    notices.of(
      listening.start(
        api,
        node,
        "demo",
        created.then((isThere) => isThere !== undefined),
      ),
    );
    if ((await created) !== undefined) location.hash = linkTo(node, "demo");
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
