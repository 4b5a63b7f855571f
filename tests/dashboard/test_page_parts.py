"""What parts of the page do with what people do there: they run in node, with a small document."""

from pathlib import Path

from tests.dashboard.test_feeds import NODE
from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page

# A board of three sounds, kept in the metadata as a node keeps it. `show()` draws it anew; `press()` presses a button.
BOARD = """
import { drawn } from "./small_dom.mjs";
import { Notices } from "./controls.js";
import { html, render } from "./preact.js";
import { Soundboard } from "./soundboard.js";
const board = ["a", "b", "c"].map((uri) => ({ uri, name: uri.toUpperCase() }));
const feed = { events: [], sounds: new Map(), state: { metadata: { board }, overlays: [] }, known: () => feed.state };
const notices = new Notices();
const act = async (method, path, { value }) => {
  feed.state = { ...feed.state, metadata: value };
  return true;
};
const show = async () => {
  render(html`<${Soundboard} feed=${feed} state=${feed.state} act=${act} notices=${notices} />`, document.body);
  await drawn();
};
const press = async (name) => {
  document.body.all("button", name)[0].tell("click");
  await drawn();
  await show();
};
const uris = () => feed.state.metadata.board.map(({ uri }) => uri).join("");
await show();
"""


@needs("node")
def test_two_sounds_that_were_taken_off_the_board_come_back(tmp_path: Path) -> None:
    program = """
    await press("Forget A");
    await press("Forget B");
    const between = uris();
    const texts = notices.undoable.map(({ text }) => text);
    for (const { undo } of notices.undoable) {
      undo();
      await drawn();
      await show();
    }
    console.log(JSON.stringify([between, texts, uris()]));
    process.exit();
    """
    texts = ["A was taken off the board.", "B was taken off the board."]
    assert run_page(tmp_path, BOARD + program) == ["c", texts, "bac"]


@needs("node")
def test_of_two_searches_the_newer_one_is_shown(tmp_path: Path) -> None:
    program = """
    import { drawn } from "./small_dom.mjs";
    import { Search } from "./new_player.js";
    import { html, render } from "./preact.js";
    const waiting = [];
    const api = { hasResolver: async () => true, get: () => new Promise((done) => waiting.push(done)) };
    render(html`<${Search} api=${api} take=${() => {}} />`, document.body);
    await drawn();
    for (const time of [1, 2]) document.body.all("button", "Search")[0].tell("click");
    for (const [at, title] of [[1, "newer"], [0, "older"]])
      waiting[at]({ tracks: [{ info: { title, author: "", length: 0 } }] });
    await drawn();
    console.log(JSON.stringify(document.body.all("li").map(({ textContent }) => textContent.trim())));
    """
    assert run_page(tmp_path, program) == ["newer"]


# The curve of the equalizer; `draw(gain)` draws in its middle, `shown()` is the gain that is shown there.
CURVE = """
import { drawn, handTime } from "./small_dom.mjs";
import { Equalizer } from "./equalizer.js";
import { html, render } from "./preact.js";
const pass = handTime();
const eq = Array.from({ length: 15 }, (_, band) => ({ band, frequency_hz: 25 * 1.58 ** band, gain_db: 0 }));
const sent = [];
const waiting = [];
const act = (method, path, body) => new Promise((done) => { sent.push(body.eq[7].gain_db); waiting.push(done); });
const show = async (isGone) => {
  render(html`<${Equalizer} state=${{ eq }} act=${act} isGone=${isGone} />`, document.body);
  await drawn();
};
const point = async (type, clientY, button = 0) => {
  const [curve] = document.body.all("svg");
  curve.getBoundingClientRect = () => ({ left: 0, top: 0, width: 600, height: 200 });
  curve.setPointerCapture = () => {};
  curve.tell(type, { clientX: 300, clientY, button });
  await drawn();
};
const shown = () => Number(document.body.all("input")[7].value);
"""


@needs("node")
def test_the_curve_is_drawn_with_the_main_button_and_stays_until_the_node_has_it(tmp_path: Path) -> None:
    program = """
    await show(false);
    await point("pointerdown", 8, 2);
    await point("pointerup", 8, 2);
    await show(true);
    await point("pointerdown", 8);
    await point("pointerup", 8);
    const before = sent.length;
    await show(false);
    await point("pointerdown", 8);
    await point("pointerup", 8);
    await pass(1000);
    const between = shown();
    waiting.shift()();
    await drawn();
    await pass(1000);
    console.log(JSON.stringify([before, sent, between, shown()]));
    """
    assert run_page(tmp_path, CURVE + program) == [0, [24], 24, 0]


# The page of a node with the player `p`; `press()` presses a button.
NODE_PAGE = (
    NODE
    + """
import { Notices } from "./controls.js";
import { Listening } from "./listening.js";
import { NodePage } from "./node_page.js";
import { html, render } from "./preact.js";
globalThis.uPlot = class { setData() {} destroy() {} };
globalThis.ResizeObserver = class { observe() {} disconnect() {} };
globalThis.getComputedStyle = () => ({});
const info = { title: "", author: "", identifier: "", length: 0 };
const shown = (life) => ({ ...player("p", 1, life), track: { info }, state: "idle", listeners: 0 });
const props = { api, node: 0, notices: new Notices(), listening: new Listening(), uploads: {} };
render(html`<${NodePage} ...${props} />`, document.body);
await drawn();
const counts = { framesSent: 0, framesLeftOut: 0, decoderExits: 0, timesRunDry: {}, framesLate: { over20ms: 0 } };
await answer("stats", { ...stats, ...counts, players: { playing: 5 }, playersAsleep: 2 });
sockets.at(-1).onopen();
await answer("players", [shown("a")]);
await pass(200);
const press = async (name, at = 0) => {
  document.body.all("button", name).at(at).tell("click");
  await drawn();
};
const box = () => document.body.all("input", "Choose p")[0];
"""
)


@needs("node")
def test_a_player_that_was_deleted_is_not_chosen_when_it_is_there_again(tmp_path: Path) -> None:
    program = """
    let focused = "";
    document.querySelector = (name) =>
      name.startsWith("dialog") ? null : Object.assign(document.createElement("h1"), { focus: () => (focused = name) });
    Object.assign(box(), { checked: true }).tell("change");
    await drawn();
    const before = box().checked;
    await press("Delete");
    document.body.all("form")[0].tell("submit");
    await drawn();
    asked.find(({ path }) => path === "players/p").done(new Response(null, { status: 204 }));
    asked.length = 0;
    await drawn();
    await pass(0);
    told({ op: "PlayerDelete", id: "p", life: "a", seq: 2 });
    told({ op: "PlayerCreate", id: "p", life: "b" });
    await answer("players/p", shown("b"));
    await pass(200);
    console.log(JSON.stringify([before, box().checked, focused]));
    """
    assert run_page(tmp_path, NODE_PAGE + program) == [True, False, "main h1"]


@needs("node")
def test_of_a_cluster_those_are_counted_that_are_in_the_list(tmp_path: Path) -> None:
    program = """
    const [tile] = document.body.all("dd");
    const texts = [tile.textContent];
    api.isInCluster = true;
    told({ op: "PlayerUpdate", id: "p", life: "a", seq: 2, state: "playing", paused: true, position: 0 });
    await pass(200);
    console.log(JSON.stringify([...texts, tile.textContent]));
    """
    assert run_page(tmp_path, NODE_PAGE + program) == ["10 playing, 2 asleep", "11 playing"]


@needs("node")
def test_metadata_that_was_changed_meanwhile_is_not_replaced_unawares(tmp_path: Path) -> None:
    program = """
    import { drawn } from "./small_dom.mjs";
    import { Notices } from "./controls.js";
    import { Metadata } from "./player_facts.js";
    import { html, render } from "./preact.js";
    const notices = new Notices();
    const sent = [];
    const act = async (method, path, { value }) => sent.push(value);
    const show = async (metadata) => {
      render(html`<${Metadata} state=${{ metadata }} act=${act} notices=${notices} />`, document.body);
      await drawn();
    };
    const type = async (text) => {
      Object.assign(document.body.all("textarea")[0], { value: text }).tell("input");
      await drawn();
    };
    const save = async () => {
      document.body.all("form")[0].tell("submit");
      await drawn();
    };
    await show({ by: "ada" });
    await type('{"mine": 1}');
    await show({ by: "eve" });
    await save();
    const between = [sent.length, notices.shown.text];
    await save();
    await show({ mine: 1 });
    await type('{"mine": 2}');
    await save();
    console.log(JSON.stringify([between, sent]));
    process.exit();
    """
    warning = "The metadata was changed meanwhile. Save again to replace it, or Undo to see it."
    assert run_page(tmp_path, program) == [[0, warning], [{"mine": 1}, {"mine": 2}]]
