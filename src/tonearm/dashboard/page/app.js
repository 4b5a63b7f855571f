// The frame of the page: which node and player is shown, what is heard, and the messages below.

import { UploadList, Uploads, add } from "./adding.js";
import { NodeApi, logOut, pageJson } from "./api.js";
import { Icon, NoticeBar, Notices, useStore } from "./controls.js";
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

const THEMES = ["system", "light", "dark"];

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

function Dashboard({ nodes, effects }) {
  const [shown, setShown] = useState(place);
  const notices = useMemo(() => new Notices(), []);
  const listening = useStore(useMemo(() => new Listening(), []));
  const uploads = useMemo(() => new Uploads(notices), []);
  const [showsKeys, setShowsKeys] = useState(false);
  const [dropped, setDropped] = useState(null); // addresses that no player is there for
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
    if (!isFirst.current) document.querySelector("main h1").focus(); // the link that led here is gone
    isFirst.current = false;
    scrollTo(0, 0);
  }, [number, shown.player]);
  // Music from elsewhere is for the player on the page, else for the one that is heard, else for a new one.
  useEffect(() => {
    const heard = listening.feed;
    if (shown.player) return uploads.towards({ api, take: (uris) => add(api, shown.player, notices, uris) });
    if (heard) return uploads.towards({ api: heard.api, take: (uris) => add(heard.api, heard.id, notices, uris) });
    return uploads.towards({ api, take: async (uris) => setDropped((before) => [...(before ?? []), ...uris]) });
  }, [number, shown.player, listening.feed]);
  useEffect(() => {
    const isOurs = ({ dataTransfer }) => ["Files", "text/uri-list"].some((type) => dataTransfer.types.includes(type));
    const over = (event) => isOurs(event) && event.preventDefault();
    const drop = (event) => {
      if (!isOurs(event)) return;
      event.preventDefault();
      uploads.takeTransfer(event.dataTransfer);
    };
    const paste = (event) => {
      if (event.clipboardData.files.length) uploads.takeTransfer(event.clipboardData);
    };
    const heard = Object.entries({ dragover: over, drop, paste });
    for (const [name, listener] of heard) addEventListener(name, listener);
    return () => heard.forEach(([name, listener]) => removeEventListener(name, listener));
  }, []);
  const common = { api, node: number, notices, listening, uploads, key: `${number}/${shown.player}` };
  const steered = () => (shown.player ? PlayerFeed.find(api, shown.player) : listening.feed);
  const go = (event) => {
    location.hash = linkTo(event.target.value);
  };
  const theme = (event) => {
    keep("theme", event.target.value);
    setTheme(event.target.value);
  };
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
      ${api.hasLogin && html`<button type="button" onClick=${logOut}>Log out</button>`}
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
const [{ nodes }, effects] = await Promise.all([pageJson("nodes.json"), pageJson("effects.json")]);
render(
  html`<${Dashboard} nodes=${nodes.map((node) => new NodeApi(node))} effects=${effects} />`,
  document.getElementById("app"),
);
