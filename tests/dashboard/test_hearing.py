"""The worker that gets a player's frames for the page: it runs in node."""

from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page


@needs("node")
def test_a_connection_without_the_frames_that_are_to_come_is_made_anew(tmp_path: Path) -> None:
    program = """
    import { drawn, handTime } from "./small_dom.mjs";
    const pass = handTime();
    const sockets = [];
    globalThis.WebSocket = class { constructor() { sockets.push(this); } close() {} };
    const told = [];
    globalThis.postMessage = ({ connection }) => told.push(connection);
    Object.assign(globalThis, { document: undefined, onmessage: null }); // as in a worker
    await import("./hearing.js");
    onmessage({ data: { url: "http://node/ws", format: "pcm", output: { postMessage() {} } } });
    await drawn();
    sockets[0].onopen();
    await pass(60_000);
    const whilePaused = [...told];
    onmessage({ data: { moves: true } });
    await pass(10_000);
    sockets[1].onopen();
    for (let frame = 0; frame < 10; frame += 1) {
      await pass(5000);
      sockets[1].onmessage({ data: new ArrayBuffer(20) });
    }
    console.log(JSON.stringify([whilePaused, told.filter(Boolean), sockets.length]));
    process.exit();
    """
    open_ = ["connecting", "open"]
    assert run_page(tmp_path, program) == [open_, [*open_, "lost", *open_], 2]
