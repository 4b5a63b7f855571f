"""Connections that a resolver process is handed by the node, and what it keeps of the node besides."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvloop

from tests.support.eventually import eventually
from tests.support.processes import children, descriptors_of, environment_of, open_descriptors
from tonearm.sources.guard import AddressGuard
from tonearm.sources.resolver.door import Dial, Door
from tonearm.sources.resolver.pages import PageResolver, ResolverSettings
from tonearm.sources.resolver.proxy import ForwardProxy


@asynccontextmanager
async def door_to(dial: Dial) -> AsyncIterator[tuple[Door, socket.socket]]:
    descriptors = open_descriptors()
    door = Door(dial)
    with door.process_end as process:
        process.setblocking(False)
        yield door, process
        door.close()
        door.close()
    await asyncio.sleep(0)
    assert open_descriptors().keys() <= descriptors.keys()


async def answer_of(process: socket.socket) -> tuple[bytes, list[int]]:
    await eventually(lambda: has_answer(process), "an answer")
    answer, descriptors, _, _ = socket.recv_fds(process, 1, 4)
    return answer, list(descriptors)


def has_answer(process: socket.socket) -> bool:
    try:
        process.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    return True


async def test_each_question_is_answered_with_a_connection_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        async def dial() -> socket.socket:
            return socket.create_connection(server.getsockname())

        async with door_to(dial) as (_, process):
            for _ in range(3):
                process.send(b"?")
                answer, (descriptor,) = await answer_of(process)
                assert answer == b"\0"
                accepted, _ = server.accept()
                with accepted, socket.socket(fileno=descriptor) as mine:
                    mine.sendall(b"hello")
                    assert accepted.recv(5) == b"hello"


async def test_who_asks_without_end_is_answered_one_at_a_time() -> None:
    dialled = 0
    go = asyncio.Event()

    async def dial() -> socket.socket:
        nonlocal dialled
        dialled += 1
        await go.wait()
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody is there")

    async with door_to(dial) as (_, process):
        asked = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                process.send(b"?")
                asked += 1
        await eventually(lambda: dialled == 1, "it dials")
        for _ in range(10):
            await asyncio.sleep(0)
        assert dialled == 1
        go.set()
        for _ in range(asked):
            assert await answer_of(process) == (bytes([errno.ECONNREFUSED]), [])
        assert dialled == asked


async def test_closing_ends_a_dial() -> None:
    waiting = asyncio.Event()

    async def dial() -> socket.socket:
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with door_to(dial) as (door, process):
        process.send(b"?")
        await waiting.wait()
        door.close()
        assert process.recv(1) == b""


async def test_no_connection_while_no_page_is_resolved() -> None:
    proxy = ForwardProxy(AddressGuard(private_networks=True), lambda uri: uri, 5.0)
    with pytest.raises(ConnectionRefusedError):
        await proxy.connection()
    async with proxy.issued(1000):
        (await proxy.connection()).close()
    with pytest.raises(ConnectionRefusedError):
        await proxy.connection()
    await proxy.close()


def test_a_process_keeps_nothing_that_the_node_has_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop starts programs without closing what is not marked to be closed."""
    monkeypatch.setenv("SECRET_TOKEN", "sesame")
    secret = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(secret, True)

    others = children()

    async def look() -> None:
        pages = PageResolver(
            AddressGuard(private_networks=True),
            lambda uri: uri,
            ResolverSettings(sites=("youtube",)),
            connect_timeout_s=5.0,
        )
        try:
            await pages.start()
            (process_id,) = children() - others
            kept = set(descriptors_of(process_id).values())
            assert "/etc/passwd" not in kept
            assert len(kept) <= 5
            assert not any("sesame" in line for line in environment_of(process_id))
        finally:
            await pages.close()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(look())
    finally:
        os.close(secret)
