// Requests and sockets of one node. A refusal carries the node's own message.

/** @import { Hearer, ShownNode } from "./types.js" */
/** @import { Error as Refusal, SentFile, Stats } from "./wire.js" */

const FOLDER = new URL(".", import.meta.url);
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 5000;
const LOOKED_EVERY_MS = 5000;
const SILENT_MS = 20_000; // four times as long as a player that plays tells nothing
const ASKED_AT_ONCE = 50; // a browser fails requests beyond some thousands

export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }

  // Whether it is the page itself that is refused: its cookie is old. Other refusals of a node have codes of their own.
  get isOfDoor() {
    return this.code === "unauthorized" || (this.status === 403 && this.code === "");
  }
}

function unreachable() {
  return new ApiError(0, "unreachable", "The node does not answer. It is tried again until it does.");
}

/** @param {Response} answer */
async function refusal(answer) {
  try {
    /** @type {Refusal} */
    const told = await answer.json();
    return new ApiError(answer.status, told.code, told.message);
  } catch {
    return new ApiError(answer.status, "", `The answer was ${answer.status} ${answer.statusText}.`);
  }
}

// What was thrown, as a sentence.
/** @param {unknown} error */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

// Asks for each of `items`, however many there are. All are asked for, and then the first refusal is thrown.
/**
 * @template T
 * @param {T[]} items
 * @param {(item: T) => Promise<unknown>} ask
 */
export async function askForAll(items, ask) {
  /** @type {PromiseRejectedResult | undefined} */
  let refused;
  for (let at = 0; at < items.length; at += ASKED_AT_ONCE) {
    const answers = await Promise.allSettled(items.slice(at, at + ASKED_AT_ONCE).map(ask));
    for (const answer of answers) if (answer.status === "rejected") refused ??= answer;
  }
  if (refused) throw refused.reason;
}

/** @param {string} name */
export async function pageJson(name) {
  const answer = await fetch(new URL(name, FOLDER));
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

// Ends what this browser, and every other, was let in for.
export async function logOut() {
  const answer = await fetch(new URL("logout", FOLDER), { method: "POST" }).catch(() => {
    throw unreachable();
  });
  if (!answer.ok && answer.status !== 401) throw await refusal(answer);
  location.reload();
}

export class NodeApi {
  /** @type {Promise<boolean> | null} */
  resolving = null;

  /** @param {ShownNode} node */
  constructor(node) {
    this.name = node.name;
    this.clip = node.clip;
    this.hasLogin = node.login;
    this.isInCluster = node.cluster;
    this.base = new URL(`${node.path}/`, FOLDER);
    this.streams = node.streams ? new URL(`${node.streams}/`, FOLDER) : null;
  }

  /** @param {string} path */
  url(path) {
    return new URL(path, this.base);
  }

  /** @param {string} id */
  player(id, path = "") {
    return `v0/players/${id}${path}`; // an id has no character that a path would have to escape
  }

  // Whether the node has a resolver: its figures tell. It is asked once.
  hasResolver() {
    this.resolving ??= this.get("v0/stats").then(
      (/** @type {Stats} */ stats) => Boolean(stats.resolver),
      () => {
        this.resolving = null;
        return false;
      },
    );
    return this.resolving;
  }

  // Sends a file; `told` gets how much of it is sent, 0 to 1. Throws ApiError.
  /**
   * @param {File} file
   * @param {(part: number) => void} told
   * @returns {Promise<SentFile>}
   */
  upload(file, told) {
    return new Promise((sent, failed) => {
      const request = new XMLHttpRequest(); // `fetch` tells nothing before the answer
      request.open("POST", this.url(`v0/files?name=${encodeURIComponent(file.name)}`));
      request.responseType = "json";
      request.upload.onprogress = ({ loaded, total }) => told(loaded / total);
      request.onerror = () => failed(unreachable());
      request.onload = () => {
        const { status, response } = request;
        if (status === 201) sent(response);
        else failed(new ApiError(status, response?.code ?? "", response?.message ?? `The answer was ${status}.`));
      };
      request.send(file);
    });
  }

  // The JSON of the answer, null for one without a body. Throws ApiError.
  /**
   * @template [T=unknown]
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  async ask(method, path, body, signal) {
    let answer;
    try {
      answer = await fetch(this.url(path), {
        method,
        signal,
        body: body === undefined ? undefined : JSON.stringify(body),
        headers: body === undefined ? {} : { "Content-Type": "application/json" },
      });
    } catch {
      throw unreachable();
    }
    if (!answer.ok) throw await refusal(answer);
    return answer.status === 204 ? /** @type {T} */ (null) : answer.json();
  }

  /**
   * @template T
   * @param {string} path
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  get(path, signal) {
    return this.ask("GET", path, undefined, signal);
  }
}

// A WebSocket that comes back by itself. `path` is asked for anew before each connection; what it throws counts as a
// failed one. `on.state` gets "connecting", "open" and "lost", and "refused" when this page is not let in any more, which
// ends it; `on.message` gets what the node sends. Where `on.expects` something and nothing comes, the connection counts as
// lost: one that died while the machine slept is closed by nobody for minutes.
/** @template [Message=string] */
export class LastingSocket {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  retry;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  looking;
  heardAt = 0;
  isOpen = false;
  /** @type {WebSocket | undefined} */
  socket;

  /**
   * @param {Pick<NodeApi, "url">} api
   * @param {() => Promise<string>} path
   * @param {Hearer<Message>} on
   * @param {BinaryType} binaryType
   */
  constructor(api, path, on, binaryType = "blob") {
    this.api = api;
    this.path = path;
    this.on = on;
    this.binaryType = binaryType;
    this.retryMs = FIRST_RETRY_MS;
    this.isOver = false;
    this.wake = () => {
      if (this.retry) this.connect();
    };
    globalThis.addEventListener("online", this.wake);
    if (on.expects) this.looking = setInterval(() => this.look(), LOOKED_EVERY_MS);
    this.connect();
  }

  look() {
    const isSilent = this.isOpen && performance.now() - this.heardAt > SILENT_MS;
    if (isSilent && !globalThis.document?.hidden && this.on.expects?.()) this.restart(); // a worker has no document
  }

  async connect() {
    clearTimeout(this.retry);
    this.retry = undefined;
    this.on.state?.("connecting");
    let path;
    try {
      path = await this.path();
    } catch (error) {
      this.lose(/** @type {Error} */ (error));
      return;
    }
    if (this.isOver) return;
    const url = this.api.url(path);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = (this.socket = new WebSocket(url));
    socket.binaryType = this.binaryType;
    socket.onopen = () => {
      this.retryMs = FIRST_RETRY_MS;
      this.isOpen = true;
      this.heardAt = performance.now();
      this.on.state?.("open");
    };
    socket.onmessage = (message) => {
      this.heardAt = performance.now();
      this.on.message(message.data);
    };
    socket.onclose = () => this.lose(null);
  }

  /** @param {Error | null} error */
  lose(error) {
    if (this.isOver) return;
    this.isOpen = false;
    if (error instanceof ApiError && error.isOfDoor) {
      this.close();
      this.on.state?.("refused", error);
      return;
    }
    this.on.state?.("lost", error);
    this.retry = setTimeout(() => this.connect(), this.retryMs);
    this.retryMs = Math.min(2 * this.retryMs, LAST_RETRY_MS);
  }

  // What another request of the page was refused with: a page that is not let in any more has no socket either.
  /** @param {unknown} error */
  heed(error) {
    if (error instanceof ApiError && error.isOfDoor) this.lose(error);
  }

  // Connects anew, as after a loss.
  restart() {
    if (!this.isOpen) return;
    this.drop();
    this.lose(null);
  }

  close() {
    this.isOver = true;
    clearTimeout(this.retry);
    clearInterval(this.looking);
    globalThis.removeEventListener("online", this.wake);
    this.drop();
  }

  drop() {
    if (!this.socket) return;
    this.socket.onclose = this.socket.onmessage = this.socket.onopen = null;
    this.socket.close();
  }
}
