"""Music that is chosen, dropped and sent in the page: it runs in node."""

from pathlib import Path

import pytest

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page


@needs("node")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_list_is_read_in_the_encoding_that_it_has(encoding: str, tmp_path: Path) -> None:
    program = """
    import "./small_dom.mjs";
    import { addressesOf, textOf } from "./adding.js";
    const text = await textOf(new Blob([Uint8Array.from(given[0])]));
    console.log(JSON.stringify(addressesOf("list.m3u", text)));
    """
    listed = [*"Björk/Jóga.mp3\n".encode(encoding)]
    assert run_page(tmp_path, program, listed) == ["Björk/Jóga.mp3"]


UPLOADS = """
import { drawn, handTime } from "./small_dom.mjs";
import { Uploads } from "./adding.js";
import { Notices } from "./controls.js";
const pass = handTime();
const notices = new Notices();
const uploads = new Uploads(notices);
const sending = [];
const api = { upload: ({ name }, told) => new Promise((sent, failed) => sending.push({ name, told, sent, failed })) };
const names = () => uploads.sent.map(({ name, problem }) => `${name} ${problem}`.trim());
"""


@needs("node")
def test_a_file_that_the_node_refused_stays_shown_until_it_is_forgotten(tmp_path: Path) -> None:
    program = """
    for (const name of ["one.mp3", "two.mp3", "three.mp3"]) uploads.send(api, { name }, () => {});
    await drawn();
    sending[0].told(1);
    sending[0].failed(new Error("The disk is full."));
    await drawn();
    sending[1].sent({ uri: "two.mp3" });
    await drawn();
    sending[2].told(1); // all of it is sent, and not answered yet
    await pass(5000);
    console.log(JSON.stringify(names()));
    """
    assert run_page(tmp_path, UPLOADS + program) == ["one.mp3 The disk is full.", "three.mp3"]


# The dialog, with the library's folders; `answer()` answers what was asked for a folder.
FOLDERS = """
import { drawn, handTime } from "./small_dom.mjs";
import { ChooseMusic } from "./choose_music.js";
import { html, render } from "./preact.js";
const pass = handTime();
const asked = {};
const api = { get: (path) => new Promise((done, failed) => (asked[/path=([^&]*)/.exec(path)[1]] = { done, failed })) };
const taken = [];
const uploads = { takeFiles: (files) => taken.push(...files) };
const entry = (name, kind) => ({ name, kind, path: name, uri: `at/${name}`, bytes: 1 });
const answer = async (folder, ...entries) => {
  asked[folder].done({ total: entries.length, takesFiles: true, entries });
  await drawn();
};
const press = async (name) => {
  document.body.all("button", name)[0].tell("click");
  await drawn();
  await pass(0);
};
render(html`<${ChooseMusic} api=${api} uploads=${uploads} take=${() => {}} close=${() => {}} />`, document.body);
await drawn();
await pass(0);
await answer("", entry("jazz", "folder"), entry("one.mp3", "audio"));
"""


@needs("node")
def test_what_fails_in_a_folder_that_was_left_does_not_empty_the_one_that_is_shown(tmp_path: Path) -> None:
    program = """
    await press("jazz");
    const { failed } = asked.jazz;
    await press("Library");
    await answer("", entry("jazz", "folder"), entry("one.mp3", "audio"));
    failed(new Error("It takes too long."));
    await drawn();
    console.log(JSON.stringify(document.body.all("li").map((row) => row.textContent)));
    """
    assert run_page(tmp_path, FOLDERS + program) == ["jazz", "one.mp30 MB"]


@needs("node")
def test_the_same_file_can_be_sent_again(tmp_path: Path) -> None:
    program = """
    const [input] = document.body.all("input").filter(({ attributes }) => attributes.type === "file");
    Object.assign(input, { files: ["one.mp3"], value: "C:/fakepath/one.mp3" });
    input.tell("change");
    console.log(JSON.stringify([taken, input.value])); // a browser tells of no change where the value stays
    """
    assert run_page(tmp_path, FOLDERS + program) == [["one.mp3"], ""]
