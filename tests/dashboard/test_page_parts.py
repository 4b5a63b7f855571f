"""What parts of the page do with what people do there: they run in node, with a small document."""

from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page


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
