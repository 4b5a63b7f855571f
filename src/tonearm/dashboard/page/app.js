// The frame of the page: which node and player is shown, and the messages below.

import { NodeApi, pageJson } from "./api.js";
import { NoticeBar, Notices } from "./controls.js";
import { NodePage } from "./node_page.js";
import { PlayerPage } from "./player_page.js";
import { linkTo, place } from "./places.js";
import { html, render, useEffect, useMemo, useState } from "./vendor/htm-preact-standalone.js";

function Dashboard({ nodes, effects }) {
  const [shown, setShown] = useState(place);
  const notices = useMemo(() => new Notices(), []);
  useEffect(() => {
    const follow = () => setShown(place());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const number = nodes[shown.node] ? shown.node : 0;
  const api = nodes[number];
  useEffect(() => {
    document.title = [shown.player, nodes.length > 1 ? api.name : "", "tonearm"].filter(Boolean).join(" · ");
    scrollTo(0, 0);
  }, [shown]);
  const common = { api, node: number, notices, key: `${number}/${shown.player}` };
  const go = (event) => {
    location.hash = linkTo(event.target.value);
  };
  return html`
    <header class="top">
      <a class="brand" href=${linkTo(number)}><img src="icon.svg" alt="" width="28" height="28" />tonearm</a>
      ${shown.player && html`<span class="crumb" aria-hidden="true">/</span><span class="here">${shown.player}</span>`}
      <span class="gap"></span>
      ${nodes.length > 1 &&
      html`<label class="pick"><span class="unseen">Node</span>
        <select value=${number} onChange=${go}>${nodes.map((one, at) => html`<option value=${at}>${one.name}</option>`)}</select>
      </label>`}
    </header>
    <main>
      ${shown.player
        ? html`<${PlayerPage} ...${common} id=${shown.player} effects=${effects} />`
        : html`<${NodePage} ...${common} />`}
    </main>
    <${NoticeBar} notices=${notices} />
  `;
}

const [{ nodes }, effects] = await Promise.all([pageJson("nodes.json"), pageJson("effects.json")]);
render(html`<${Dashboard} nodes=${nodes.map((node) => new NodeApi(node))} effects=${effects} />`, document.getElementById("app"));
