// What the page knows of a node and of a player, kept as it is now by their events. Components subscribe.

import { ApiError, LastingSocket } from "./api.js";
import { applied, isMoving, seen } from "./player_state.js";
import { Store } from "./store.js";

/** @import { NodeApi } from "./api.js" */
/** @import { Connection, Figure, NumberedEvent, PlayerNow } from "./types.js" */
/** @import { PlayFailure, PlayedTrack, Player, PlayerEvent, Process, QueuedTrackDetails, Stats, TrackOut } from "./wire.js" */

/** @typedef {ReturnType<typeof setTimeout> | undefined} Timer */
/** @typedef {"state" | "queue" | "history"} Readable */
// Figures as they were read `at`, in ms of performance.now(); `load` is a process's in %.
/** @typedef {Omit<Stats, "processes"> & { at: number, processes: Array<Process & { load?: number }> }} StatsNow */

const FIGURES_EVERY_MS = 5000; // no event tells them, and a node with 500 players takes 8 ms to add them up
const SECOND_FIGURES_MS = 1500; // what is told for each second needs two
const FIGURES_KEPT = 65;
const ERRORS_KEPT = 30;
const EVENTS_KEPT = 256;
const TOLD_AT_MOST_EVERY_MS = 200; // hundreds of players have a hundred events a second, and are drawn half as often
const QUEUE_PAGE = 100;
const TITLES_WAIT_MS = 5000;

class Feed extends Store {
  constructor() {
    super();
    /** @type {Connection} */
    this.connection = "connecting";
    /** @type {Error | null} */
    this.problem = null;
    this.isDeleted = false;
  }

  // Whether what is shown may be otherwise by now, and nothing can be done.
  get isGone() {
    return ["lost", "refused"].includes(this.connection) || this.isDeleted;
  }

  /**
   * @param {Connection} connection
   * @param {Error | null} problem
   */
  connected(connection, problem = null) {
    this.connection = connection === "connecting" && this.connection === "lost" ? "lost" : connection;
    this.problem = problem;
    this.tell();
  }
}

// All players of a node, its figures, and the last failures.
export class NodeFeed extends Feed {
  /** @type {Timer} */
  telling;

  /** @param {NodeApi} api */
  constructor(api) {
    super();
    this.api = api;
    /** @type {Map<string, PlayerNow>} */
    this.players = new Map();
    /** @type {Array<{ id: string, time: number, error: PlayFailure, uri: string }>} */
    this.errors = [];
    /** @type {StatsNow | null} */
    this.stats = null;
    /** @type {Figure[]} */
    this.figures = []; // a line for each time: what is plotted
    this.isBegun = false;
    /** @type {PlayerEvent[] | null} */
    this.early = null; // events that came before the list of the players
    /** @type {Map<string, PlayerEvent[]>} */
    this.reading = new Map(); // ids of players that are read, and what came of each meanwhile
    this.socket = new LastingSocket(api, () => this.eventsPath(), {
      message: (text) => this.take(JSON.parse(text)),
      state: (connection, problem) => {
        if (connection === "open") this.begin();
        this.connected(connection, problem);
      },
      expects: () => [...this.players.values()].some(isMoving),
    });
    const again = () =>
      document.hidden || this.connection !== "open" || this.readFigures().catch((error) => this.socket.heed(error));
    this.timer = setInterval(again, FIGURES_EVERY_MS);
    this.second = setTimeout(again, SECOND_FIGURES_MS);
  }

  close() {
    this.socket.close();
    clearInterval(this.timer);
    clearTimeout(this.second);
    clearTimeout(this.telling);
  }

  async eventsPath() {
    await this.readFigures();
    return "v0/events";
  }

  // What is shown stays until all players are known as they are now.
  async begin() {
    /** @type {PlayerEvent[]} */
    const early = [];
    this.early = early;
    /** @type {Player[]} */
    let states;
    try {
      states = await this.api.get("v0/players");
    } catch {
      if (this.early === early) this.socket.restart();
      return;
    }
    if (this.early !== early) return; // the connection was lost meanwhile, and is there again
    this.early = null;
    this.reading.clear();
    this.players.clear();
    for (const state of states) {
      this.players.set(state.id, seen(state, performance.now()));
      if (state.error && !this.errors.some(({ id }) => id === state.id))
        this.note(state.id, Date.now(), state.error, state.track);
    }
    this.isBegun = true;
    for (const event of early) this.take(event);
    this.tellSoon();
  }

  /** @param {PlayerEvent} event */
  take(event) {
    if (event.op === "EventsLost") {
      this.socket.restart();
      return;
    }
    if (this.early) {
      this.early.push(event);
      return;
    }
    if (event.op === "PlayerCreate" || event.op === "PlayerMoved") {
      this.read(event.id); // with a new life, and numbers from 1
      return;
    }
    const later = this.reading.get(event.id);
    if (later) {
      later.push(event);
      return;
    }
    const known = this.players.get(event.id);
    if (known && event.life !== known.life) this.read(event.id);
    else if (event.op === "PlayerDelete") this.players.delete(event.id);
    else if (known && event.seq > known.seq) this.players.set(event.id, applied(known, event, performance.now()));
    if ("error" in event && event.error)
      this.note(event.id, event.time, event.error, "track" in event ? event.track : undefined);
    this.tellSoon();
  }

  /** @param {string} id */
  async read(id) {
    /** @type {PlayerEvent[]} */
    const later = [];
    this.reading.set(id, later);
    /** @type {Player | ApiError} */
    const answer = await this.api.get(this.api.player(id)).catch((error) => error);
    if (this.reading.get(id) !== later) return; // it is read anew, or all are
    this.reading.delete(id);
    if (!(answer instanceof Error)) this.players.set(id, seen(answer, performance.now()));
    else if (answer.code === "player_not_found") this.players.delete(id);
    for (const event of later) this.take(event);
    this.tellSoon();
  }

  /**
   * @param {string} id
   * @param {number} time
   * @param {PlayFailure} error
   * @param {TrackOut} [track]
   */
  note(id, time, error, track) {
    if (this.errors.some((known) => known.id === id && known.error.message === error.message && !track)) return;
    this.errors = [{ id, time, error, uri: track?.info.uri ?? "" }, ...this.errors].slice(0, ERRORS_KEPT);
  }

  async readFigures() {
    /** @type {Stats} */
    const told = await this.api.get("v0/stats");
    const before = this.stats;
    /** @type {StatsNow} */
    const stats = { ...told, at: performance.now() };
    if (before && stats.uptime > before.uptime) this.figures.push(this.line(before, stats));
    else this.figures = [];
    this.figures = this.figures.slice(-FIGURES_KEPT);
    this.stats = stats;
    this.tellSoon();
  }

  /**
   * @param {StatsNow} before
   * @param {StatsNow} stats
   * @returns {Figure}
   */
  line(before, stats) {
    const passed = (stats.at - before.at) / 1000;
    const cpu = { node: 0, decoder: 0, other: 0 };
    for (const process of stats.processes) {
      const known = before.processes.find(({ pid }) => pid === process.pid);
      process.load = known ? (100 * (process.cpuSeconds - known.cpuSeconds)) / passed : 0;
      cpu[process.kind] += process.load;
    }
    const late = (/** @type {string} */ limit) => (stats.framesLate[limit] - before.framesLate[limit]) / passed;
    return {
      time: Date.now() / 1000,
      cpu,
      listeners: stats.listeners,
      late: { over5ms: late("over5ms"), over20ms: late("over20ms"), over100ms: late("over100ms") },
    };
  }

  tellSoon() {
    this.telling ??= setTimeout(
      () => {
        this.telling = undefined;
        this.tell();
      },
      Math.max(TOLD_AT_MOST_EVERY_MS, this.players.size),
    );
  }
}

// One player: its state, queue, history, and its last events.
export class PlayerFeed extends Feed {
  /** @type {Map<string, PlayerFeed>} */
  static open = new Map();

  // The one feed of a player, for all parts of the page that show the player. Each closes it when it needs it no more.
  /**
   * @param {NodeApi} api
   * @param {string} id
   */
  static of(api, id) {
    const key = api.url(api.player(id)).href;
    const feed = PlayerFeed.open.get(key) ?? new PlayerFeed(api, id, key);
    PlayerFeed.open.set(key, feed);
    feed.users += 1;
    return feed;
  }

  // The feed of a player that something on the page shows.
  /**
   * @param {NodeApi} api
   * @param {string} id
   */
  static find(api, id) {
    return PlayerFeed.open.get(api.url(api.player(id)).href);
  }

  /**
   * @param {NodeApi} api
   * @param {string} id
   * @param {string} key
   */
  constructor(api, id, key) {
    super();
    this.key = key;
    this.users = 0;
    this.api = api;
    this.id = id;
    /** @type {PlayerNow | null} */
    this.state = null;
    /** @type {{ offset: number, tracks: QueuedTrackDetails[] }} */
    this.queue = { offset: 0, tracks: [] }; // the part of it that is shown
    this.part = [0, QUEUE_PAGE];
    this.queueRead = new AbortController();
    /** @type {PlayedTrack[]} */
    this.history = [];
    /** @type {NumberedEvent[]} */
    this.events = [];
    /** @type {Map<string, { title: string }>} */
    this.titles = new Map(); // {title} of tracks that played, by their ids
    /** @type {Map<string, string>} */
    this.sounds = new Map(); // which sound of the board an overlay is
    /** @type {Partial<Record<Readable, Timer>>} */
    this.reading = {};
    this.socket = new LastingSocket(api, () => this.eventsPath(), {
      message: (text) => this.take(JSON.parse(text)),
      state: (connection, problem) => this.connected(connection, problem),
      expects: () => this.state !== null && isMoving(this.state),
    });
  }

  close() {
    this.users -= 1;
    if (this.users) return;
    PlayerFeed.open.delete(this.key);
    this.socket.close();
    this.queueRead.abort();
    for (const timer of Object.values(this.reading)) clearTimeout(timer);
  }

  path(path = "") {
    return this.api.player(this.id, path);
  }

  // At first the state is read, then the events before it are asked for, to show them; after a loss those that were
  // missed.
  async eventsPath() {
    try {
      await this.read("state");
      this.isDeleted = false;
    } catch (error) {
      this.isDeleted = error instanceof ApiError && error.code === "player_not_found";
      throw error;
    }
    this.readSoon("queue");
    this.readSoon("history");
    const { life, seq } = this.known();
    const newest = this.events.find((event) => event.life === life);
    if (!newest) this.events = [];
    const since = newest ? newest.seq : Math.max(0, seq - EVENTS_KEPT + 1);
    return this.path(`/events?snapshot=true&since=${life}.${since}`);
  }

  // The state, once it was read: the socket is opened after that.
  known() {
    if (!this.state) throw new Error("The state was not read yet.");
    return this.state;
  }

  /** @param {NumberedEvent} event */
  take(event) {
    this.events = [event, ...this.events].slice(0, EVENTS_KEPT);
    if ("track" in event && event.trackId) this.titles.set(event.trackId, { title: event.track.info.title });
    if (event.op === "PlayerDelete") this.isDeleted = true;
    else if (event.op === "PlayerMoved" || (event.op !== "PlayerState" && event.life !== this.known().life))
      this.readSoon("state"); // with a new life, and numbers from 1
    else if (event.op === "PlayerState" || event.seq > this.known().seq) {
      this.state = applied(this.known(), event, performance.now());
      this.readWhatChanged(event);
    }
    this.tell();
  }

  /** @param {NumberedEvent} event */
  readWhatChanged({ op }) {
    if (["QueueUpdate", "QueueDetails", "PlayerState"].includes(op)) this.readSoon("queue");
    if (["TrackEnd", "PlayerState"].includes(op)) this.readSoon("history");
    // The next track while it loads, outputs, overlays and quality stand in no event.
    if (/^(TrackE|TrackStart|PlayerUpdate|ListenersChange|Overlay)/.test(op)) this.readSoon("state");
  }

  /**
   * @param {number} index
   * @returns {QueuedTrackDetails | undefined}
   */
  trackAt(index) {
    return this.queue.tracks[index - this.queue.offset];
  }

  // Has the entries from `first` to before `last` here, and some around.
  /**
   * @param {number} first
   * @param {number} last
   */
  showQueue(first, last) {
    const part = [Math.floor(first / QUEUE_PAGE) * QUEUE_PAGE, Math.max(1, Math.ceil(last / QUEUE_PAGE)) * QUEUE_PAGE];
    if (part.join() === this.part.join()) return;
    this.part = part;
    this.readSoon("queue");
  }

  // At first as it is known, then with the titles that have to be read. What waits for titles that are no more seen is
  // ended: it has one of the few connections of the browser.
  async readQueue() {
    const [offset, end] = this.part;
    const { part } = this;
    this.queueRead.abort();
    const { signal } = (this.queueRead = new AbortController());
    const path = this.path(`/queue?details=true&offset=${offset}&limit=${end - offset}`);
    for (const more of ["", `&wait=${TITLES_WAIT_MS}`]) {
      /** @type {QueuedTrackDetails[]} */
      const tracks = await this.api.get(path + more, signal);
      if (signal.aborted || this.part !== part) return; // it was asked anew meanwhile
      this.queue = { offset, tracks };
      this.tell();
      if (tracks.every(({ title, length }) => title && length)) return;
    }
  }

  /** @param {Readable} what */
  readSoon(what) {
    this.reading[what] ??= setTimeout(() => {
      this.reading[what] = undefined;
      this.read(what).catch((error) => this.socket.heed(error)); // it tells by itself that the node is gone
    }, 100);
  }

  /** @param {Readable} what */
  async read(what) {
    if (what === "state") {
      /** @type {Player} */
      const state = await this.api.get(this.path());
      const before = this.state;
      if (before?.life === state.life && state.seq < before.seq) return; // events were faster
      const { stuck, streamTitle } = before?.trackId === state.trackId ? before : { stuck: "", streamTitle: "" };
      this.state = { ...seen(state, performance.now()), stuck: state.state === "loading" ? stuck : "", streamTitle };
    } else if (what === "queue") {
      await this.readQueue();
    } else {
      this.history = await this.api.get(this.path("/history"));
    }
    this.tell();
  }
}
