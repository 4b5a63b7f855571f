"""The scripts of the public address's page and of examples/radio.html: they run in node."""

import re
from importlib import resources
from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page
from tests.support.readme import REPOSITORY

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


@needs("node")
def test_the_radio_shows_a_picture_that_comes_after_the_title(tmp_path: Path) -> None:
    program = """
    run();
    const told = { title: "Song", author: "", state: "playing", position: 0, positionRate: 1, length: 0 };
    const shown = [false, true, false].map((artwork) => {
      sockets[0].onmessage({ data: JSON.stringify({ ...told, artwork }) });
      return [parts.picture.hidden, Boolean(parts.picture.src)];
    });
    console.log(JSON.stringify(shown));
    """
    page = (REPOSITORY / "examples" / "radio.html").read_text(encoding="utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert run_page(tmp_path, PAGE + program, script) == [[True, False], [False, True], [True, False]]
