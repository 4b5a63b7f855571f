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


# Tracks for a player of a node that takes `given[0]` of them; `most` is how many requests were at work at once.
QUEUE = """
import { createPlayer, enqueue } from "./queue_requests.js";
const queue = new Set();
let working = 0;
let most = 0;
const api = {
  player: (id, path = "") => `v0/players/${id}${path}`,
  get: async () => ({ loadType: "track" }),
  async ask(method, path, body) {
    most = Math.max(most, (working += 1));
    await new Promise(setImmediate);
    working -= 1;
    if (method === "DELETE") queue.delete(Number(path.split("/").at(-1)));
    if (!body?.tracks) return null;
    if (queue.size + body.tracks.length > given[0]) throw new Error("The queue is full.");
    const trackIds = body.tracks.map((_, at) => queue.size + at);
    for (const one of trackIds) queue.add(one);
    return { trackIds, leftOut: { count: 1, reasons: ["Refused."] }, warnings: [`${trackIds[0]} is a page.`] };
  },
};
const tracks = Array.from({ length: 2500 }, (_, at) => ({ uri: `${at}.mp3` }));
"""


@needs("node")
def test_what_was_queued_before_a_refusal_is_taken_back_a_few_at_a_time(tmp_path: Path) -> None:
    program = """
    const told = await enqueue(api, "p", tracks).catch(({ message }) => message);
    console.log(JSON.stringify([told, queue.size, most <= 100]));
    """
    assert run_page(tmp_path, QUEUE + program, 2400) == ["The queue is full.", 0, True]


@needs("node")
def test_all_that_the_node_notes_of_many_tracks_is_said(tmp_path: Path) -> None:
    program = """
    const notes = await createPlayer(api, "p", tracks.map(({ uri }) => uri));
    console.log(JSON.stringify([(await enqueue(api, "p", tracks)).leftOut, notes]));
    """
    notes = " 3 left out: Refused."
    said = [notes, f"{notes} 0 is a page. 1000 is a page. 2000 is a page."]
    assert run_page(tmp_path, QUEUE + program, 9000) == said
