"""Sliders and keys of the page, beside a node that answers late: they run in node."""

from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page

# A slider from 0 to 2 at 1; `sent` has what was sent, and `answer()` is the node's answer to the oldest.
SLIDER = """
import { drawn, handTime } from "./small_dom.mjs";
import { Slider } from "./controls.js";
import { html, render } from "./preact.js";
const sent = [];
const waiting = [];
const send = (value) => new Promise((done) => { sent.push(value); waiting.push(done); });
const show = async (more = {}) => {
  const fields = { label: "S", value: 1, min: 0, max: 2, step: 0.01, text: String, send, ...more };
  render(html`<${Slider} ...${fields} />`, document.body);
  await drawn();
  return document.body.all("input")[0];
};
const move = async (input, type, value) => { input.value = value; input.tell(type); await drawn(); };
const answer = async () => { waiting.shift()(); await drawn(); };
const pass = handTime();
"""


@needs("node")
def test_a_slider_stays_where_it_was_put_until_the_node_has_answered(tmp_path: Path) -> None:
    program = """
    const input = await show();
    await move(input, "input", 0.5);
    await move(input, "input", 0.4);
    await move(input, "change", 0.4);
    await pass(400); // it keeps for 300 ms what the state does not say yet
    const before = input.value;
    await answer();
    const between = input.value;
    await answer();
    await pass(400);
    console.log(JSON.stringify({ sent, values: [before, between, input.value] }));
    """
    assert run_page(tmp_path, SLIDER + program) == {"sent": [0.5, 0.4], "values": [0.4, 0.4, 1]}


@needs("node")
def test_a_place_that_was_chosen_in_a_track_is_not_sought_in_the_next(tmp_path: Path) -> None:
    program = """
    const input = await show({ isLive: false, of: "one" });
    await move(input, "input", 1.5);
    await show({ isLive: false, of: "two" });
    await move(input, "change", 1.6);
    const value = input.value;
    await move(input, "change", 0.2);
    console.log(JSON.stringify({ sent, value }));
    """
    assert run_page(tmp_path, SLIDER + program) == {"sent": [0.2], "value": 1}


# The keys; `sent` has what was sent, and `answer()` is the node's answer to the oldest, and the event of it.
KEYS = """
import { drawn } from "./small_dom.mjs";
import { Notices } from "./controls.js";
import { Keys } from "./keys.js";
import { html, render } from "./preact.js";
const sent = [];
const waiting = [];
const answers = [];
const feed = { state: { volume: 1 }, path: (path) => path, api: {
  ask: (method, path, { volume }) => new Promise((done) => {
    sent.push(volume);
    answers.push(done);
    waiting.push(() => { feed.state = { ...feed.state, volume }; done(null); });
  }),
} };
const listening = { isOn: false, muted: 0, mute: () => (listening.muted += 1) };
const fields = { listening, notices: new Notices(), steered: () => feed, isShown: false };
render(html`<${Keys} ...${fields} />`, document.body);
await drawn();
const press = (key, code = "") => dispatchEvent(Object.assign(new Event("keydown"), { key, code }));
const answer = async () => { waiting.shift()(); await drawn(); };
"""


@needs("node")
def test_a_key_that_is_held_makes_it_louder_step_by_step(tmp_path: Path) -> None:
    program = """
    for (let time = 0; time < 4; time += 1) press("ArrowUp");
    await answer();
    press("ArrowUp");
    while (waiting.length) await answer();
    press("ArrowDown");
    console.log(JSON.stringify(sent));
    """
    assert run_page(tmp_path, KEYS + program) == [1.05, 1.2, 1.25, 1.2]


@needs("node")
def test_the_next_key_counts_from_what_was_done_though_no_event_told_it_yet(tmp_path: Path) -> None:
    program = """
    for (const key of ["ArrowUp", "ArrowDown"]) {
      press(key);
      answers.shift()(null); // without the event
      await drawn();
    }
    console.log(JSON.stringify(sent));
    """
    assert run_page(tmp_path, KEYS + program) == [1.05, 1]
