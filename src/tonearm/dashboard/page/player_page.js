// A player: what it plays and how to steer it.

import { askForAll } from "./api.js";
import { Badge, Connection, Dialog, focusOn, useStore } from "./controls.js";
import { Crossfade } from "./crossfade.js";
import { Deck } from "./deck.js";
import { Effects } from "./effects.js";
import { Equalizer } from "./equalizer.js";
import { EventLog } from "./event_log.js";
import { PlayerFeed } from "./feeds.js";
import { NewPlayer } from "./new_player.js";
import { Place } from "./nodes.js";
import { isId, linkTo } from "./places.js";
import { Links, Metadata, Quality, SignalPath } from "./player_facts.js";
import { doing } from "./player_state.js";
import { html, useEffect, useMemo, useState } from "./preact.js";
import { Played, Queue } from "./queue.js";
import { Sound } from "./sound.js";
import { Soundboard } from "./soundboard.js";
import { Voice } from "./voice.js";

/** @import { NodeApi } from "./api.js" */
/** @import { Notices } from "./controls.js" */
/** @import { PlayerPageParts, PlayerParts } from "./types.js" */

/** @typedef {keyof typeof TABS} Tab */

const TABS = {
  queue: { name: "Queue", parts: [Queue, Played] },
  sound: { name: "Sound", parts: [Equalizer, Sound, Effects, Crossfade] },
  soundboard: { name: "Soundboard", parts: [Soundboard] },
  details: { name: "Details", parts: [SignalPath, Voice, Place, Quality, EventLog, Links, Metadata] },
};

/** @param {Omit<PlayerPageParts, "creating">} props */
export function PlayerPage(props) {
  const creating = useState(false); // it stays while the player that it makes comes
  return isId(props.id)
    ? html`<${Player} ...${props} creating=${creating} />`
    : html`<${NoPlayer} ...${props} creating=${creating} />`;
}

/** @param {PlayerPageParts} props */
function Player(props) {
  const { api, node, id, tab, notices } = props;
  const feed = useStore(useMemo(() => PlayerFeed.of(api, id), [api, id]));
  useEffect(() => () => feed.close(), [feed]);
  const [isAsking, setAsking] = useState(false);
  const { state } = feed;
  if (feed.isDeleted || props.creating[0]) return html`<${NoPlayer} ...${props} />`;
  if (!state) {
    return html`<div class="title-line"><h1 tabindex="-1">${id}</h1><${Connection} feed=${feed} /></div>
      <p>${feed.problem?.message ?? ""} ${feed.problem && html`<a href=${linkTo(node)}>All players</a>`}</p>`;
  }
  /** @type {PlayerParts} */
  const common = { ...props, feed, state, act: notices.acting(feed), isGone: feed.isGone };
  return html`
    <div class="title-line">
      <h1 tabindex="-1">${id}</h1><${Badge} of=${feed.isGone ? "unknown" : doing(state)} /><${Connection} feed=${feed} />
      <span class="gap"></span>
      <button type="button" class="danger" disabled=${feed.isGone} onClick=${() => setAsking(true)}>Delete</button>
    </div>
    <${Deck} ...${common} />
    <${Tabs} node=${node} id=${id} shown=${Object.hasOwn(TABS, tab) ? tab : "queue"} common=${common} />
    ${isAsking && html`<${AskDelete} api=${api} ids=${[id]} notices=${notices} close=${() => setAsking(false)} then=${() => (location.hash = linkTo(node))} />`}`;
}

/** @param {{ node: number, id: string, shown: Tab, common: PlayerParts }} props */
function Tabs({ node, id, shown, common }) {
  const names = /** @type {Tab[]} */ (Object.keys(TABS));
  const at = names.indexOf(shown);
  const show = (/** @type {string} */ tab) => location.replace(linkTo(node, id, tab));
  const key = (/** @type {KeyboardEvent} */ event) => {
    const to = new Map([
      ["ArrowRight", (at + 1) % names.length],
      ["ArrowLeft", at - 1],
      ["Home", 0],
      ["End", -1],
    ]).get(event.key);
    if (to === undefined) return;
    event.preventDefault();
    const tab = names.at(to) ?? shown;
    show(tab);
    focusOn(`#tab-${tab}`);
  };
  return html`<div role="tablist" aria-label="Player" class="tabs" onKeyDown=${key}>
      ${names.map(
        (
          tab,
        ) => html`<button type="button" role="tab" id=${`tab-${tab}`} aria-selected=${tab === shown} aria-controls="tab-panel"
        tabindex=${tab === shown ? 0 : -1} onClick=${() => show(tab)}>${TABS[tab].name}</button>`,
      )}
    </div>
    <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${shown}`}>
      <fieldset disabled=${common.isGone && shown !== "queue"} class=${`parts ${shown}`}>
        ${TABS[shown].parts.map((Part) => html`<${Part} key=${Part.name} ...${common} />`)}
      </fieldset>
    </div>`;
}

/** @param {PlayerPageParts} props */
function NoPlayer({ creating: [isCreating, setCreating], ...props }) {
  const { api, node, id } = props;
  const close = () => {
    setCreating(false);
    PlayerFeed.find(api, id)?.socket.wake(); // it may be there now
  };
  return html`<h1 tabindex="-1">There is no player ${id}.</h1>
    <p class="buttons"><button type="button" class="strong" onClick=${() => setCreating(true)}>New player</button> <a href=${linkTo(node)}>All players</a></p>
    ${isCreating && html`<${NewPlayer} ...${props} name=${isId(id) ? id : ""} close=${close} />`}`;
}

/**
 * @typedef {object} AskDeleteProps
 * @property {NodeApi} api
 * @property {string[]} ids
 * @property {Notices} notices
 * @property {() => void} close
 * @property {() => void} [then]
 */
/** @param {AskDeleteProps} props */
export function AskDelete({ api, ids, notices, close, then }) {
  const what = ids.length === 1 ? `the player ${ids[0]}, with its queue` : `${ids.length} players, with their queues`;
  const remove = async () => {
    const isDone = await notices.of(
      askForAll(ids, (id) => api.ask("DELETE", api.player(id))),
      ids.length === 1 ? `The player ${ids[0]} was deleted.` : `${ids.length} players were deleted.`,
    );
    close();
    if (!isDone) return;
    then?.();
    setTimeout(() => focusOn("main h1")); // the button that had the focus goes with the player
  };
  return html`<${Dialog} title="Delete?" close=${close} submit=${remove} done="Delete">
    <p>Delete ${what}?</p>
  <//>`;
}
