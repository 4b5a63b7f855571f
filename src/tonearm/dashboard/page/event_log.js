// The player's events, the newest first; those before the page was opened, too, as far as the node has kept them.

import { Panel, ticked, typed } from "./controls.js";
import { html, useState } from "./preact.js";
import { clock, timeOfDay } from "./text.js";

/** @import { NumberedEvent, PlayerParts } from "./types.js" */

const SHOWN = 60;
const COMMON = new Set(["op", "id", "seq", "time", "life"]);

/** @param {NumberedEvent} event */
function brief(event) {
  switch (event.op) {
    case "PlayerUpdate":
      return `${event.state}${event.paused ? ", paused" : ""} at ${clock(event.position)}`;
    case "TrackStart":
      return event.track.info.title;
    case "TrackEnd":
      return `${event.track.info.title}: ${event.reason}`;
    case "TrackException":
    case "OverlayException":
      return event.error.message;
    case "Seek":
      return `${clock(event.from)} to ${clock(event.position)}`;
    case "QueueUpdate":
      return `${event.length} waiting`;
    case "PlayerState":
      return event.lost ? "some events are gone" : "";
    default:
      return Object.entries(event)
        .filter(([name, value]) => !COMMON.has(name) && typeof value !== "object")
        .map(([name, value]) => `${name} ${value}`)
        .join(", ");
  }
}

/** @param {PlayerParts} props */
export function EventLog({ feed }) {
  const [since, setSince] = useState("");
  const [showsUpdates, setShowsUpdates] = useState(false);
  const first = Number.parseInt(since, 10) || 0;
  const events = feed.events.filter((event) => event.seq > first && (showsUpdates || event.op !== "PlayerUpdate"));
  return html`<${Panel} title="Events" kind="event-panel">
    <div class="tools">
      <label class="choice">Since number <input type="number" min="0" value=${since} onInput=${typed(setSince)} /></label>
      <label class="choice"><input type="checkbox" checked=${showsUpdates} onChange=${ticked(setShowsUpdates)} /> updates, too</label>
    </div>
    <ol class="events" aria-label="Events" tabindex="0">
      ${events.slice(0, SHOWN).map(
        (event) => html`<li key=${`${event.life}${event.seq}${event.op}`}>
        <details><summary><span class="quiet number">${event.seq}</span> <span class="quiet">${timeOfDay(event.time)}</span> <b>${event.op}</b> <span>${brief(event)}</span></summary>
          <pre tabindex="0">${JSON.stringify(event, null, 2)}</pre></details>
      </li>`,
      )}
    </ol>
    ${!events.length && html`<p class="quiet">None yet.</p>`}
  <//>`;
}
