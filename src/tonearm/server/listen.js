"use strict";
// Keeps the title, the state and the picture of each player that is in view as they are now, and plays on after a loss.

/** @import { PublicState } from "../dashboard/page/wire.js" */

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 60000;

/** @param {number} ms */
function clock(ms) {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

// A stream that was lost, with the node or the network, is asked for again, and plays on if it played.
/** @param {HTMLAudioElement} audio */
function playOn(audio) {
  const { src } = audio;
  let plays = false;
  let retryMs = FIRST_RETRY_MS;
  audio.onplay = () => (plays = true);
  audio.onpause = () => (plays = audio.ended); // a stream that ends is no pause
  audio.onplaying = () => (retryMs = FIRST_RETRY_MS);
  const again = () => {
    audio.src = `${src}?${Date.now()}`;
    if (plays) audio.play().catch(() => {}); // `onerror` is told of it
  };
  audio.onerror = audio.onended = () => {
    setTimeout(again, retryMs);
    retryMs = Math.min(2 * retryMs, LAST_RETRY_MS);
  };
}

class Card {
  retryMs = FIRST_RETRY_MS;
  /** @type {PublicState | null} */
  told = null;
  toldAt = 0;
  /** @type {WebSocket | null} */
  socket = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  retry;

  /** @param {HTMLElement} article */
  constructor(article) {
    this.path = `./${article.dataset.player}`;
    this.picture = /** @type {HTMLImageElement} */ (article.querySelector("img"));
    this.title = /** @type {HTMLElement} */ (article.querySelector(".title"));
    this.state = /** @type {HTMLElement} */ (article.querySelector(".state"));
    playOn(/** @type {HTMLAudioElement} */ (article.querySelector("audio")));
  }

  start() {
    const url = new URL(`${this.path}/events`, document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    this.stop();
    const socket = (this.socket = new WebSocket(url));
    socket.onmessage = (message) => this.show(JSON.parse(message.data));
    socket.onclose = () => {
      this.told = null;
      this.state.textContent = "not on air";
      this.retry = setTimeout(() => this.start(), this.retryMs);
      this.retryMs = Math.min(2 * this.retryMs, LAST_RETRY_MS);
    };
  }

  stop() {
    clearTimeout(this.retry);
    if (this.socket) {
      this.socket.onclose = this.socket.onmessage = null;
      this.socket.close();
      this.socket = null;
    }
  }

  /** @param {PublicState} told */
  show(told) {
    const title = [told.author, told.title].filter(Boolean).join(" - ");
    if (this.told === null || title !== this.title.textContent || told.artwork === this.picture.hidden) {
      this.title.textContent = title;
      this.picture.hidden = !told.artwork;
      if (told.artwork) this.picture.src = `${this.path}/artwork?${Date.now()}`;
    }
    this.retryMs = FIRST_RETRY_MS;
    this.told = told;
    this.toldAt = performance.now();
    this.tick();
  }

  tick() {
    const told = this.told;
    if (told === null) return;
    const moves = told.state === "playing" && !told.paused;
    const position = told.position + (moves ? (performance.now() - this.toldAt) * told.positionRate : 0);
    const length = told.length ? ` / ${clock(told.length)}` : "";
    const place =
      told.state === "playing" ? ` ${clock(told.length ? Math.min(position, told.length) : position)}${length}` : "";
    this.state.textContent = (told.paused ? "paused" : told.state) + place;
  }
}

/** @type {Map<Element, Card>} */
const cards = new Map();
/** @type {NodeListOf<HTMLElement>} */
const articles = document.querySelectorAll("[data-player]");
for (const article of articles) cards.set(article, new Card(article));
const view = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const card = cards.get(entry.target);
    if (entry.isIntersecting) card?.start();
    else card?.stop();
  }
});
for (const article of cards.keys()) view.observe(article);
setInterval(() => cards.forEach((card) => card.tick()), 1000);
