"""Limits of time that a running node keeps, each as its configuration says."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.audio_files import music, wav
from tests.support.e2e_players import IMPATIENT, PATIENT, create, until_state
from tests.support.eventually import eventually
from tests.support.http_client import connected
from tests.support.media_server import MediaServer, media, stall
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
async def test_servers_get_as_much_time_as_the_configuration_gives_them(tmp_path: Path) -> None:
    config = f"{IMPATIENT}[sources]\nconnect_timeout_s = 1\nheaders_timeout_s = 1\nstall_timeout_s = 1\n"
    song = wav(music(20.0))
    async with MediaServer() as server, running_node(tmp_path, config) as node:
        with full_server() as port:
            kinds = {
                "connect_timeout_s": (f"http://127.0.0.1:{port}/song.wav", "connect"),
                "headers_timeout_s": (server.serve("/silent.wav", stall()), "connect"),
                "stall_timeout_s": (
                    server.serve("/stalls.wav", media(song, stall_after=300_000, ranges=False)),
                    "read",
                ),
            }
            began_s = time.monotonic()
            for name, (uri, _) in kinds.items():
                await create(node, name, uri)
            for name, (_, stage) in kinds.items():
                error = (await until_state(node, name, lambda now: now["error"] is not None))["error"]
                assert (error["code"], error["stage"]) == ("timeout", stage), name
                assert f"sources.{name}" in error["hint"]
            # Well before the times that hold by default: 5 and 10 s, and 30 s for the start of a track.
            assert time.monotonic() - began_s < 20


@pytest.mark.timing
async def test_an_idle_connection_is_kept_for_as_long_as_the_configuration_says(tmp_path: Path) -> None:
    async with running_node(
        tmp_path, f"[server]\nkeepalive_timeout_s = 1\n[decoder]\nprocesses = 1\n{PATIENT}"
    ) as node:
        await node.decoders_ready(2)
        descriptors = node.open_descriptors()
        async with connected(node.port) as connection:
            for _ in range(2):
                connection.send_request("GET", "/info")
                assert (await connection.read_answer()).status == 200
            began_s = time.monotonic()
            await asyncio.wait_for(connection.read_to_end(), 30)
            assert time.monotonic() - began_s > 0.5
            await eventually(lambda: node.open_descriptors() <= descriptors, "the node has closed it, too")
