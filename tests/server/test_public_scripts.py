"""The script of the public address's page: it runs in node."""

from importlib import resources
from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page

PROGRAM = """
import { runInThisContext } from "node:vm";
import { handTime } from "./small_dom.mjs";
const pass = handTime();
const audio = { src: "./radio.mp3", played: 0, async play() { this.played += 1; } };
const article = { dataset: { player: "radio" }, querySelector: (name) => (name === "audio" ? audio : {}) };
Object.assign(document, { baseURI: "http://here/", querySelectorAll: () => [article] });
globalThis.IntersectionObserver = class { observe() {} };
runInThisContext(given[0]);
const played = [];
const lose = async (...waits) => {
  audio.onerror();
  for (const ms of waits) played.push((await pass(ms), audio.played));
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


@needs("node")
def test_the_page_plays_on_after_a_loss(tmp_path: Path) -> None:
    script = (resources.files("tonearm.server") / "listen.js").read_text(encoding="utf-8")
    assert run_page(tmp_path, PROGRAM, script) == [[0, 1, 1, 2, 2, 3, 3], True]
