"""What parts of the page do with what people do there: they run in node, with a small document."""

from pathlib import Path

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
def test_the_clock_of_a_sound_goes_on_beside_what_is_told_of_the_track(tmp_path: Path) -> None:
    program = """
    import { applied, seen } from "./player_state.js";
    const overlay = { overlayId: "o", uri: "a", state: "playing", position: 1000, length: 0 };
    const told = seen({ ...feed.state, overlays: [overlay], seq: 1 }, performance.now() - 64_000);
    const update = { op: "PlayerUpdate", seq: 2, state: "playing", paused: false, position: 5, positionRate: 1 };
    feed.state = applied(told, update, performance.now());
    await show();
    console.log(JSON.stringify(document.body.all("li")[0].textContent));
    process.exit();
    """
    assert "1:05" in run_page(tmp_path, BOARD + program)


@needs("node")
def test_a_button_of_a_dialog_that_is_pressed_twice_asks_once(tmp_path: Path) -> None:
    program = """
    import { drawn } from "./small_dom.mjs";
    import { Notices } from "./controls.js";
    import { AskDelete } from "./player_page.js";
    import { html, render } from "./preact.js";
    const asked = [];
    const api = { player: (id) => id, ask: (method, id) => new Promise(() => asked.push(`${method} ${id}`)) };
    const fields = { api, ids: ["p"], notices: new Notices(), close() {} };
    render(html`<${AskDelete} ...${fields} />`, document.body);
    await drawn();
    for (const time of [1, 2]) document.body.all("form")[0].tell("submit");
    console.log(JSON.stringify(asked));
    """
    assert run_page(tmp_path, program) == ["DELETE p"]


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


@needs("node")
def test_where_the_page_has_no_clipboard_there_is_nothing_to_copy_with(tmp_path: Path) -> None:
    program = """
    import { drawn } from "./small_dom.mjs";
    import { Links } from "./player_facts.js";
    import { html, render } from "./preact.js";
    const feed = { path: (path) => `p${path}` };
    const counts = [];
    for (const clipboard of [{}, undefined]) {
      Object.defineProperty(globalThis, "navigator", { value: { clipboard }, configurable: true });
      render(html`<${Links} api=${{ streams: "http://node/listen/" }} feed=${feed} notices=${{}} />`, document.body);
      await drawn();
      counts.push(document.body.all("button").length);
    }
    console.log(JSON.stringify(counts));
    """
    assert run_page(tmp_path, program) == [4, 0]


@needs("node")
def test_a_title_is_laid_out_in_the_direction_of_its_own_language(tmp_path: Path) -> None:
    program = """
    import { drawn } from "./small_dom.mjs";
    import { Deck } from "./deck.js";
    import { Listening } from "./listening.js";
    import { html, render } from "./preact.js";
    const info = { title: "שלום!", author: "", length: 0 };
    const state = { track: { info }, trackId: "", state: "playing", paused: true, position: 0, volume: 1 };
    const common = { api: {}, node: 0, feed: { id: "p" }, act() {}, notices: {}, listening: new Listening() };
    render(html`<${Deck} ...${common} state=${state} />`, document.body);
    await drawn();
    console.log(JSON.stringify(document.body.all("p", "שלום!").map(({ attributes }) => attributes.dir)));
    """
    assert run_page(tmp_path, program) == ["auto"]
