"""The scripts of the public address's page and of examples/radio.html: they run in node."""

from importlib import resources
from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page

# `run` runs a script as a page does; `parts` has the page's elements by their names, and `sockets` what it opened.
PAGE = """
import { runInThisContext } from "node:vm";
import { handTime } from "./small_dom.mjs";
const pass = handTime();
const sockets = [];
const made = () => ({ played: 0, async play() { this.played += 1; } });
const parts = new Proxy({}, { get: (all, name) => (all[name] ??= made()) });
const article = { dataset: { player: "radio" }, querySelector: (name) => parts[name] };
const found = { querySelectorAll: () => [article], getElementById: (id) => parts[id] };
Object.assign(document, { baseURI: "http://here/", ...found });
Object.assign(globalThis, {
  WebSocket: class { constructor() { sockets.push(this); } },
  IntersectionObserver: class { observe() {} },
  location: { search: "" },
});
const run = () => runInThisContext(given[0]);
"""


@needs("node")
def test_the_page_plays_on_after_a_loss(tmp_path: Path) -> None:
    program = """
    const { audio } = parts;
    audio.src = "./radio.mp3";
    run();
    const played = [];
    const lose = async (...waits) => {
      audio.onerror();
      for (const ms of waits) {
        await pass(ms);
        played.push(audio.played);
      }
    };
    audio.onplay();
    await lose(999, 1);
    await lose(1999, 1); // the node is still away
    audio.onplaying();
    await lose(999, 1);
    Object.assign(audio, { ended: false }).onpause();
    await lose(5000); // who listens no more is left alone
    console.log(JSON.stringify([played, /^[.][/]radio[.]mp3[?][0-9]+$/.test(audio.src)]));
    """
    script = (resources.files("tonearm.server") / "listen.js").read_text(encoding="utf-8")
    assert run_page(tmp_path, PAGE + program, script) == [[0, 1, 1, 2, 2, 3, 3], True]
