// The frame of the page: which node and player is shown, what is heard, and the messages below.

import { UploadList, Uploads, add } from "./adding.js";
import { NodeApi, logOut, pageJson } from "./api.js";
import { Icon, NoticeBar, Notices, focusOn, typed, useStore } from "./controls.js";
import { PlayerFeed } from "./feeds.js";
import { Keys } from "./keys.js";
import { Listening } from "./listening.js";
import { NewPlayer } from "./new_player.js";
import { NodePage } from "./node_page.js";
import { linkTo, place } from "./places.js";
import { PlayerBar } from "./player_bar.js";
import { PlayerPage } from "./player_page.js";
import { html, render, useEffect, useMemo, useRef, useState } from "./preact.js";
import { keep, kept } from "./store.js";

/** @import { EffectsSchema, PageParts, ShownNode } from "./types.js" */

const THEMES = ["system", "light", "dark"];

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

/** @param {{ nodes: NodeApi[], effects: EffectsSchema }} props */
function Dashboard({ nodes, effects }) {
  const [shown, setShown] = useState(place);
  const notices = useMemo(() => new Notices(), []);
  const listening = useStore(useMemo(() => new Listening(), []));
  const uploads = useMemo(() => new Uploads(notices), []);
  const [showsKeys, setShowsKeys] = useState(false);
  const [dropped, setDropped] = useState(/** @type {string[] | null} */ (null)); // addresses that no player is there for
  const isFirst = useRef(true);
  useEffect(() => {
    const follow = () => setShown(place());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const number = nodes[shown.node] ? shown.node : 0;
  const api = nodes[number];
  useEffect(() => {
    document.title = [shown.player, nodes.length > 1 ? api.name : "", "tonearm"].filter(Boolean).join(" · ");
    if (!isFirst.current) focusOn("main h1"); // the link that led here is gone
    isFirst.current = false;
    scrollTo(0, 0);
  }, [number, shown.player]);
  // Music from elsewhere is for the player on the page, else for the one that is heard, else for a new one.
  useEffect(() => {
    const heard = listening.feed;
    const id = shown.player;
    if (id) return uploads.towards({ api, take: (uris) => add(api, id, notices, uris) });
    if (heard) return uploads.towards({ api: heard.api, take: (uris) => add(heard.api, heard.id, notices, uris) });
    return uploads.towards({ api, take: async (uris) => setDropped((before) => [...(before ?? []), ...uris]) });
  }, [number, shown.player, listening.feed]);
  useEffect(() => {
    const oursIn = (/** @type {DragEvent} */ { dataTransfer }) =>
      ["Files", "text/uri-list"].some((type) => dataTransfer?.types.includes(type)) ? dataTransfer : null;
    const over = (/** @type {DragEvent} */ event) => {
      if (oursIn(event)) event.preventDefault();
    };
    const drop = (/** @type {DragEvent} */ event) => {
      const dropped = oursIn(event);
      if (!dropped) return;
      event.preventDefault();
      uploads.takeTransfer(dropped);
    };
    const paste = (/** @type {ClipboardEvent} */ { clipboardData }) => {
      if (clipboardData?.files.length) uploads.takeTransfer(clipboardData);
    };
    const heard = new AbortController();
    const { signal } = heard;
    addEventListener("dragover", over, { signal });
    addEventListener("drop", drop, { signal });
    addEventListener("paste", paste, { signal });
    return () => heard.abort();
  }, []);
  /** @type {PageParts & { key: string }} */
  const common = { api, node: number, notices, listening, uploads, key: `${number}/${shown.player}` };
  const steered = () => (shown.player ? PlayerFeed.find(api, shown.player) : listening.feed);
  const go = typed((chosen) => (location.hash = linkTo(Number(chosen))));
  const theme = typed((chosen) => {
    keep("theme", chosen);
    setTheme(chosen);
  });
  return html`
    <header class="top">
      <a class="brand" href=${linkTo(number)}><img src="icon.svg" alt="" width="28" height="28" />tonearm</a>
      ${shown.player && html`<span class="crumb" aria-hidden="true">/</span><span class="here">${shown.player}</span>`}
      <span class="gap"></span>
      ${
        nodes.length > 1 &&
        html`<label class="pick"><span class="unseen">Node</span>
        <select value=${number} onChange=${go}>${nodes.map((one, at) => html`<option value=${at}>${one.name}</option>`)}</select>
      </label>`
      }
      <label><span class="unseen">Theme</span>
        <select value=${kept("theme", "system")} onChange=${theme}>${THEMES.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      ${api.hasLogin && html`<button type="button" onClick=${() => notices.of(logOut())}>Log out</button>`}
      <button type="button" class="round" aria-label="Keys" title="Keys" onClick=${() => setShowsKeys(true)}><${Icon} name="keys" /></button>
    </header>
    <main>
      ${
        shown.player
          ? html`<${PlayerPage} ...${common} id=${shown.player} tab=${shown.tab} effects=${effects} />`
          : html`<${NodePage} ...${common} />`
      }
    </main>
    <div class="bottom">
      <${NoticeBar} notices=${notices} />
      <${UploadList} uploads=${uploads} />
      <${PlayerBar} listening=${listening} notices=${notices} />
    </div>
    <${Keys} listening=${listening} notices=${notices} steered=${steered} isShown=${showsKeys} show=${setShowsKeys}
      showQueue=${() => shown.player && location.replace(linkTo(number, shown.player))} />
    ${dropped && html`<${NewPlayer} ...${common} key=${dropped.length} uris=${dropped} close=${() => setDropped(null)} />`}
  `;
}

setTheme(kept("theme", "system"));
/** @type {[{ nodes: ShownNode[] }, EffectsSchema]} */
const [{ nodes }, effects] = await Promise.all([pageJson("nodes.json"), pageJson("effects.json")]);
render(
  html`<${Dashboard} nodes=${nodes.map((node) => new NodeApi(node))} effects=${effects} />`,
  /** @type {HTMLElement} */ (document.getElementById("app")),
);
