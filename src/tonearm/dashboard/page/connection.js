// Whether the page still hears from the node.

import { html } from "./vendor/htm-preact-standalone.js";

export function Connection({ feed, isGone = false }) {
  if (isGone) return html`<span class="connection lost" role="status">deleted</span>`;
  const text = { connecting: "connecting", open: "live", lost: "connection lost, trying again" }[feed.connection];
  return html`<span class=${`connection ${feed.connection}`} role="status">${text}</span>`;
}
