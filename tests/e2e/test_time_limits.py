"""Limits of time that a running node keeps, each as its configuration says."""

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.audio_files import music, wav
from tests.support.e2e_players import IMPATIENT, create, delete, until_state
from tests.support.e2e_sockets import listening
from tests.support.media_server import MediaServer, drip, media, stall
from tests.support.running_node import running_node


@contextlib.contextmanager
def full_server() -> Iterator[int]:
    """The port of a server that accepts nothing and has no room for another connection: the kernel answers to none."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port: int = server.getsockname()[1]
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        yield port


@pytest.mark.timing
async def test_servers_get_as_much_time_as_the_configuration_gives_them_and_the_log_says_so(tmp_path: Path) -> None:
    times = "connect_timeout_s = 1\nheaders_timeout_s = 2\nstall_timeout_s = 2\nstart_timeout_s = 5\n"
    config = f'{IMPATIENT}[logging]\nlevel = "debug"\n[sources]\n{times}'
    song = wav(music(20.0))
    async with MediaServer() as server, running_node(tmp_path, config) as node:
        with full_server() as port:
            kinds = {
                "connect_timeout_s": (f"http://127.0.0.1:{port}/song.wav", "connect"),
                "headers_timeout_s": (server.serve("/silent.wav", stall()), "connect"),
                "start_timeout_s": (
                    server.serve("/drips.wav", drip(song, 0.1, head=b"HTTP/1.1 200 OK\r\n\r\n")),
                    "read",
                ),
                "stall_timeout_s": (
                    server.serve("/stalls.wav", media(song, stall_after=300_000, ranges=False)),
                    "read",
                ),
            }
            began_s = time.monotonic()
            for name, (uri, _) in kinds.items():
                await create(node, name, uri)
            async with listening(node, "stall_timeout_s") as ear:
                await ear.frames_heard(1)
            for name, (_, stage) in kinds.items():
                error = (await until_state(node, name, lambda now: now["error"] is not None))["error"]
                assert (error["code"], error["stage"]) == ("timeout", stage), name
                assert f"sources.{name}" in error["hint"]
            # Well before the times that hold by default: 5 and 10 s, and 30 s for the start of a track.
            assert time.monotonic() - began_s < 20
        await delete(node, name)
        assert (await node.request("GET", "/v0/loadtracks?identifier=/no/such/file.mp3")).status == 200
    log = "".join(node.log)
    for told in (
        f"player {name} created: {uri} (asked for by 127.0.0.1)",
        f"player {name}: a listener came; 1 listen (pcm)",
        f"player {name}: track started: {uri}",
        f"player {name} deleted (asked for by 127.0.0.1)",
        "raise sources.start_timeout_s",
        "cannot be loaded: /no/such/file.mp3: ",
    ):
        assert told in log
