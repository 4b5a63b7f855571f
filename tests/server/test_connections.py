"""How long a connection may take, and how many there may be."""

import asyncio
import contextlib
import logging
import os
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Final, cast

import pytest

from tests.support.edge import StillNode, StillOpener, running_edge
from tests.support.eventually import eventually
from tests.support.hand_time import LoopTime
from tests.support.http_client import Connection, Headers, connected, request, websocket
from tonearm.core.library import LibrarySettings
from tonearm.core.policy import SourcePolicy
from tonearm.decoder.opening.track_loader import TrackLoader
from tonearm.node.files import Files
from tonearm.server.app import EdgeSettings
from tonearm.server.http_server import ConnectionLimits

# Far longer than a test takes: only the tests put time forward.
REQUEST_S: Final = 1000.0
KEEPALIVE_S: Final = 3000.0
HURRIED: Final = ConnectionLimits(10, 3, request_timeout_s=REQUEST_S, keepalive_timeout_s=KEEPALIVE_S)
PATIENT: Final = ConnectionLimits(10, 3)
PASSWORD: Final = (("Authorization", "secret"),)

HALF_A_HEAD: Final = b"GET /info HTTP/1.1\r\nHost: localhost\r\nX-"
HALF_A_BODY: Final = b"POST /v0/players/p/queue HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"
HALF_A_CHUNK: Final = (
    b"POST /v0/players/p/queue HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{"
)


def limited_edge(
    node: StillNode, limits: ConnectionLimits = HURRIED, password: str = ""
) -> AbstractAsyncContextManager[int]:
    return running_edge(node, EdgeSettings(password=password, connections=limits))


async def pass_time(time: LoopTime, port: int, seconds: float) -> None:
    """Puts time forward once the server has read what was sent to it, and lets it do what is due then."""
    for wait_s in (seconds, 0.0):
        # It takes connections and bytes in as they come: what came before this request is taken in before its answer.
        assert (await request(port, "GET", "/info")).status == 200
        time.forward(wait_s)


def is_cut(connection: Connection) -> bool:
    return connection.reader.at_eof() or connection.reader.exception() is not None


async def cut_after(time: LoopTime, port: int, connection: Connection, limit_s: float) -> None:
    await pass_time(time, port, 0.99 * limit_s)
    assert not is_cut(connection)
    time.forward(0.02 * limit_s)
    assert await connection.read_to_cut() == b""


@pytest.mark.parametrize("half", [b"", b"GET /inf", HALF_A_HEAD, HALF_A_HEAD.removesuffix(b"X-")])
async def test_half_a_head_is_cut(node: StillNode, half: bytes) -> None:
    async with limited_edge(node) as port, connected(port) as connection:
        connection.send(half)
        await cut_after(LoopTime(), port, connection, REQUEST_S)


async def test_one_that_sends_a_byte_now_and_then_gains_no_time(node: StillNode) -> None:
    async with limited_edge(node) as port, connected(port) as connection:
        time = LoopTime()
        for byte in b"GET /inf":
            connection.send(bytes([byte]))
            await pass_time(time, port, REQUEST_S / 8.1)
            assert not is_cut(connection)
        connection.send(b"o")
        time.forward(REQUEST_S / 8.1)
        assert await connection.read_to_cut() == b""


@pytest.mark.parametrize("half", [HALF_A_BODY, HALF_A_CHUNK])
@pytest.mark.parametrize("before", [(), (b"",), (b"",) * 100, (b"Connection: Upgrade\r\nUpgrade: websocket\r\n",)])
async def test_half_a_body_is_refused_and_the_connection_closed(
    node: StillNode, before: tuple[bytes, ...], half: bytes
) -> None:
    """aiohttp takes the requests after many others, and after an upgrade, in ways of their own."""
    async with limited_edge(node) as port, connected(port) as connection:
        connection.send(b"".join(b"GET /info HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % more for more in before) + half)
        for _ in before:
            assert (await connection.read_answer()).status == 200
        await pass_time(LoopTime(), port, 1.01 * REQUEST_S)
        answer = await connection.read_answer()
        assert (answer.status, answer.json()["code"]) == (400, "bad_request")
        assert await connection.read_to_cut() == b""
    assert node.player("p").queue.tracks == ()


async def test_a_file_may_take_as_long_as_some_of_it_comes_in_each_time(node: StillNode, tmp_path: Path) -> None:
    opener = StillOpener(SourcePolicy(), private_networks=False)
    node.files = Files(LibrarySettings((str(tmp_path),), str(tmp_path)), opener, cast(TrackLoader, None))
    limits = ConnectionLimits(10, 1, request_timeout_s=REQUEST_S)
    async with limited_edge(node, limits) as port, connected(port) as connection:
        time = LoopTime()
        connection.send(b"POST /v0/files?name=a.wav HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n")
        for byte in b"RIFF":
            connection.send(bytes([byte]))
            await eventually(lambda: len(os.listdir(tmp_path)) == 1, "it is being written")
            await pass_time(time, port, 0.9 * REQUEST_S)  # by another stranger: there is place for one
            assert not is_cut(connection)
        await pass_time(time, port, 0.2 * REQUEST_S)
        answer = await connection.read_answer()
        assert (answer.status, answer.json()["code"]) == (400, "bad_request")
        assert await connection.read_to_cut() == b""
    assert os.listdir(tmp_path) == []


async def test_a_body_that_nobody_waits_for_does_not_keep_the_connection(
    node: StillNode, caplog: pytest.LogCaptureFixture
) -> None:
    async with limited_edge(node) as port, connected(port) as connection:
        connection.send_request("POST", "/v0/players/p/play", (("Content-Length", "20"),), b"{")
        assert (await connection.read_answer("POST")).status == 204
        LoopTime().forward(1.01 * REQUEST_S)
        assert await connection.read_to_cut() == b""
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("headers", "more"),
    [((), b"\r\n"), ((), HALF_A_HEAD), ((("Content-Length", "20"),), b"{")],  # some clients end with an empty line
)
async def test_what_a_listener_sends_behind_its_request_ends_nothing(
    node: StillNode, headers: Headers, more: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with limited_edge(node) as port, connected(port) as connection:
        connection.send_request("GET", "/v0/players/p/stream.wav", headers)
        await connection.read_head()
        connection.send(more)
        time = LoopTime()
        for _ in range(3):
            await pass_time(time, port, 1.01 * REQUEST_S)
        (listener,) = node.listeners
        listener.write(b"4\r\nabcd\r\n")
        listener.close(1000, "")
        assert b"".join([chunk async for chunk in connection.chunks()])[44:] == b"abcd"
        assert await connection.read_to_cut() == b""
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(("then", "limit_s"), [(b"", KEEPALIVE_S), (HALF_A_HEAD, REQUEST_S)])
async def test_an_idle_connection_has_its_time_and_the_next_request_from_its_first_byte(
    node: StillNode, then: bytes, limit_s: float
) -> None:
    async with limited_edge(node) as port, connected(port) as connection:
        time = LoopTime()
        for _ in range(2):
            await pass_time(time, port, 0.9 * REQUEST_S)  # idle, which is allowed for longer
            connection.send_request("GET", "/info")
            assert (await connection.read_answer()).status == 200
        if then:
            await pass_time(time, port, 1.2 * REQUEST_S)
        connection.send(then)
        await cut_after(time, port, connection, limit_s)


async def test_a_request_that_takes_long_to_answer_and_open_sockets_are_left_alone(node: StillNode) -> None:
    async with (
        node.changing_queue("p"),  # for which the request waits
        limited_edge(node) as port,
        connected(port) as asking,
        websocket(port, "/v0/players/p/ws") as socket,
    ):
        asking.send_request("POST", "/v0/players/p/queue", body=b'{"uri": "a.mp3"}')
        await pass_time(LoopTime(), port, 3 * KEEPALIVE_S)
        assert not is_cut(asking)
        (listener,) = node.listeners
        listener.write(b"\x82\x01a")
        assert (await socket.read_frame()).payload == b""  # a ping, after so long a time
        assert (await socket.read_frame()).payload == b"a"


async def test_strangers_give_way_to_those_that_come_after_them(
    node: StillNode, caplog: pytest.LogCaptureFixture
) -> None:
    async with limited_edge(node, PATIENT, "secret") as port, AsyncExitStack() as stack:
        strangers = []
        for number in range(PATIENT.max_strangers):
            strangers.append(await stack.enter_async_context(connected(port)))
            strangers[-1].send(HALF_A_BODY if number % 2 else HALF_A_HEAD)
        known = await stack.enter_async_context(connected(port))  # in place of the first
        known.send_request("GET", "/info", PASSWORD)
        assert (await known.read_answer()).status == 200
        assert await strangers[0].read_to_cut() == b""
        wrong = await stack.enter_async_context(connected(port))
        wrong.send_request("GET", "/info", (("Authorization", "wrong"),))
        assert (await wrong.read_answer()).status == 401
        for _ in range(20):
            async with connected(port) as another:
                another.send_request("GET", "/info", PASSWORD)
                assert (await another.read_answer()).status == 200
        known.send_request("GET", "/info", PASSWORD)  # it kept its place
        assert (await known.read_answer()).status == 200
    lines = [record.getMessage() for record in caplog.records if "gave way" in record.getMessage()]
    assert 1 <= len(lines) <= 5
    assert "stranger_share" in lines[0]


@pytest.mark.parametrize(
    ("limits", "key"),
    [(ConnectionLimits(2, 2), "max_connections"), (ConnectionLimits(10, 10, max_per_address=2), "max_per_address")],
)
async def test_when_all_places_are_taken_by_those_who_were_let_in_nobody_else_comes_until_they_leave(
    node: StillNode, limits: ConnectionLimits, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    sockets = ("/v0/players/p/ws", "/v0/players/p/events")
    async with limited_edge(node, limits) as port:
        async with websocket(port, sockets[0]), websocket(port, sockets[1]), connected(port) as third:
            third.send_request("GET", "/info")
            assert await third.read_to_cut() == b""

        async def comes() -> bool:
            with contextlib.suppress(ConnectionResetError, asyncio.IncompleteReadError):
                return (await request(port, "GET", "/info")).status == 200
            return False

        await eventually(lambda: not node.sinks, "the node sees that the others have gone")
        await eventually(comes, "there is room again")
    assert any(key in record.getMessage() for record in caplog.records)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
