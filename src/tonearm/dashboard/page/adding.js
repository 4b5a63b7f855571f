// Music for a player: addresses that are typed or pasted, files that are dropped, and lists of addresses.

import { messageOf } from "./api.js";
import { useStore } from "./controls.js";
import { html } from "./preact.js";
import { enqueue, failureOf } from "./queue_requests.js";
import { Store } from "./store.js";
import { addressesIn, count } from "./text.js";

/** @import { NodeApi } from "./api.js" */
/** @import { Notices } from "./controls.js" */
/** @import { Take } from "./types.js" */

/** @typedef {{ name: string, part: number, problem: string }} Upload */
/** @typedef {{ api: NodeApi, take: Take }} Taker */

const LINKS_TRIED = 5; // at once; each is opened by the node
const LIST_BYTES = 1 << 20;
const LIST = /\.(m3u8?|pls|xspf|cue|txt)$/i;
const AUDIO = /\.(aac|e?ac3|aif[cf]?|au|caf|flac|m4[ab]|mka|mp[234]|mpga|og[ag]|opus|snd|w64|wave?|web[am]|wma|wv)$/i;
const MOST_SENT = 0.99; // before the answer
const SHOWN_MS = 4000; // after the last one was sent

// Queues `uris` and says so. Links that this node cannot play are named, too: the player would try them when their turn comes.
/**
 * @param {NodeApi} api
 * @param {string} id
 * @param {Notices} notices
 * @param {string[]} uris
 */
export async function add(api, id, notices, uris) {
  if (!uris.length) return undefined;
  /** @param {{ count: number, leftOut: string }} result */
  const done = ({ count: added, leftOut }) => `${count(added, "track")} added.${leftOut}`;
  const tracks = uris.map((uri) => ({ uri }));
  const result = await notices.of(enqueue(api, id, tracks), done);
  if (!result) return undefined;
  if (result.warnings.length) notices.show(result.warnings.join(" "), { isProblem: true });
  else tryLinks(api, notices, uris);
  return result;
}

/**
 * @param {NodeApi} api
 * @param {Notices} notices
 * @param {string[]} uris
 */
async function tryLinks(api, notices, uris) {
  if (await api.hasResolver()) return; // then a page may be music
  for (const uri of uris.filter((one) => /^https?:/i.test(one)).slice(0, LINKS_TRIED)) {
    const error = await failureOf(api, uri).catch(() => undefined);
    if (error) notices.show(`${uri} cannot be played: ${error.message} ${error.hint}`, { isProblem: true });
  }
}

// The addresses in a list, by the ending of its name.
/**
 * @param {string} name
 * @param {string} text
 */
export function addressesOf(name, text) {
  const ending = name.toLowerCase().split(".").pop();
  if (ending === "pls") return [...text.matchAll(/^\s*File\d+\s*=\s*(.*\S)/gim)].map(([, uri]) => uri);
  if (ending === "cue") return partsIn(text);
  if (ending !== "xspf") return addressesIn(text);
  const list = new DOMParser().parseFromString(text, "application/xml");
  return [...list.getElementsByTagNameNS("*", "location")].map((one) => one.textContent?.trim() ?? "").filter(Boolean);
}

// The text of a list, which may be older than UTF-8.
/** @param {Blob} file */
export async function textOf(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const marked = new Map([
    ["255,254", "utf-16le"],
    ["254,255", "utf-16be"],
  ]).get(bytes.slice(0, 2).join());
  try {
    return new TextDecoder(marked ?? "utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

// Each track of a CUE sheet, as a part of its file. An index is minutes, seconds and 75ths.
/** @param {string} text */
function partsIn(text) {
  /** @type {Array<{ file: string, start: number }>} */
  const parts = [];
  let file = "";
  for (const line of text.split(/\r?\n/)) {
    file = /^\s*FILE\s+"?(.*?)"?\s+\w+\s*$/i.exec(line)?.[1] ?? file;
    const index = /^\s*INDEX\s+01\s+(\d+):(\d+):(\d+)/i.exec(line);
    if (!index || !file) continue;
    const [minutes, seconds, frames] = index.slice(1).map(Number);
    parts.push({ file, start: Math.round(1000 * (60 * minutes + seconds + frames / 75)) / 1000 });
  }
  return parts.map(
    ({ file: of, start }, at) => `${of}#t=${start}${parts[at + 1]?.file === of ? `,${parts[at + 1].start}` : ""}`,
  );
}

// What is dropped and pasted on the page, and sent to the node: one file after the other.
export class Uploads extends Store {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;

  /** @param {Notices} notices */
  constructor(notices) {
    super();
    this.notices = notices;
    /** @type {Taker[]} */
    this.takers = []; // the last one gets what comes
    /** @type {Upload[]} */
    this.sent = [];
    this.last = Promise.resolve();
  }

  // `taker` gets what is dropped until the function that this gives is called.
  /** @param {Taker} taker */
  towards(taker) {
    this.takers.push(taker);
    return () => void this.takers.splice(this.takers.indexOf(taker), 1);
  }

  // What was dropped or pasted: files, else addresses in a text.
  /** @param {DataTransfer} transfer */
  async takeTransfer(transfer) {
    const taker = this.takers.at(-1);
    const files = [...transfer.files];
    const lines = addressesIn(transfer.getData("text/uri-list") || transfer.getData("text"));
    if (!taker) return;
    if (files.length) await this.takeFiles(files, taker);
    else if (lines.length) await taker.take(lines);
  }

  /**
   * @param {File[]} files
   * @param {Taker} taker
   */
  async takeFiles(files, { api, take }) {
    for (const file of files) {
      if (LIST.test(file.name)) {
        if (file.size >= LIST_BYTES)
          this.refuse(`${file.name} is too long for a list of addresses: it has 1 MiB or more.`);
        else await take(addressesOf(file.name, await textOf(file)));
      } else if (AUDIO.test(file.name)) {
        this.send(api, file, take);
      } else this.refuse(`${file.name} is neither audio nor a list: .m3u, .m3u8, .pls, .xspf, .cue or .txt.`);
    }
  }

  /** @param {string} text */
  refuse(text) {
    this.notices.show(text, { isProblem: true });
  }

  /**
   * @param {NodeApi} api
   * @param {File} file
   * @param {Take} take
   */
  send(api, file, take) {
    const upload = { name: file.name, part: 0, problem: "" };
    this.change(() => (this.sent = [...this.sent, upload]));
    this.last = this.last.then(async () => {
      try {
        // All of it is there when the node says so: it may refuse what was sent.
        const { uri } = await api.upload(file, (part) => this.change(() => (upload.part = Math.min(part, MOST_SENT))));
        this.change(() => (upload.part = 1));
        await take([uri]);
      } catch (error) {
        const problem = messageOf(error);
        this.change(() => (upload.problem = problem));
        this.refuse(`${file.name}: ${problem}`);
      }
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.change(() => (this.sent = this.sent.filter((one) => one.part < 1))), SHOWN_MS);
    });
  }

  /** @param {() => unknown} by */
  change(by) {
    by();
    this.tell();
  }
}

/** @param {{ uploads: Uploads }} props */
export function UploadList({ uploads }) {
  useStore(uploads);
  if (!uploads.sent.length) return null;
  const forget = (/** @type {Upload} */ upload) =>
    uploads.change(() => (uploads.sent = uploads.sent.filter((one) => one !== upload)));
  return html`<ul class="uploads notice" aria-label="Uploads">
    ${uploads.sent.map(
      (upload) => html`<li key=${upload}>
      <span class="one-line" dir="auto">${upload.name}</span>
      ${
        upload.problem
          ? html`<span class="problem">${upload.problem}</span><button type="button" onClick=${() => forget(upload)}>Forget</button>`
          : html`<progress aria-label=${upload.name} value=${upload.part}></progress>`
      }
    </li>`,
    )}
  </ul>`;
}
