"""How long a connection may take, and how many there may be."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import pytest

from tests.support.edge import running_edge
from tests.support.fake_node import FakeNode
from tests.support.http_client import Connection, connected, request, websocket
from tonearm.server.app import EdgeSettings
from tonearm.server.http_server import ConnectionLimits

REQUEST_S: Final = 0.15
KEEPALIVE_S: Final = 0.4
HURRIED: Final = ConnectionLimits(10, 3, request_timeout_s=REQUEST_S, keepalive_timeout_s=KEEPALIVE_S)
PATIENT: Final = ConnectionLimits(10, 3)
PASSWORD: Final = (("Authorization", "secret"),)

HALVES: Final = {
    "nothing": b"",
    "half a request line": b"GET /inf",
    "half a head": b"GET /info HTTP/1.1\r\nHost: localhost\r\nX-",
    "a head without its end": b"GET /info HTTP/1.1\r\nHost: localhost\r\n",
}
HALF_A_BODY: Final = b"POST /v0/players/p/queue HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"
HALF_A_CHUNK: Final = (
    b"POST /v0/players/p/queue HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{"
)
# A body that nobody reads.
HALF_AN_UNREAD_BODY: Final = b"POST /v0/players/p/play HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"


@asynccontextmanager
async def limited_edge(node: FakeNode, limits: ConnectionLimits, password: str = "") -> AsyncIterator[int]:
    async with running_edge(node, EdgeSettings(password=password, connections=limits)) as port:
        yield port


async def cut(connection: Connection) -> bytes:
    """What came before the connection was cut."""
    with contextlib.suppress(ConnectionResetError):
        return await connection.read_to_end()
    return b""


async def took_s(connection: Connection) -> float:
    start_s = asyncio.get_running_loop().time()
    assert await cut(connection) == b""
    return asyncio.get_running_loop().time() - start_s


@pytest.mark.parametrize("half", HALVES)
async def test_half_a_head_is_cut(node: FakeNode, half: str) -> None:
    async with limited_edge(node, HURRIED) as port, connected(port) as connection:
        connection.send(HALVES[half])
        assert await took_s(connection) > REQUEST_S / 2


async def test_one_that_sends_a_byte_now_and_then_gains_no_time(node: FakeNode) -> None:
    async with limited_edge(node, HURRIED) as port, connected(port) as connection:
        for byte in b"GET /info HTTP/1.1\r\nHost: localhost\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":
            connection.send(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connection.reader.read(1), REQUEST_S / 10)
                break
        else:
            pytest.fail("the connection was not cut")


@pytest.mark.parametrize("half", [HALF_A_BODY, HALF_A_CHUNK])
async def test_half_a_body_is_refused_and_the_connection_closed(node: FakeNode, half: bytes) -> None:
    async with limited_edge(node, HURRIED) as port, connected(port) as connection:
        connection.send(half)
        answer = await connection.read_answer()
        assert (answer.status, answer.json()["code"]) == (400, "bad_request")
        assert await cut(connection) == b""
    assert node.fakes["p"].queue.tracks == ()


async def test_a_body_that_nobody_waits_for_does_not_keep_the_connection(
    node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    async with limited_edge(node, HURRIED) as port, connected(port) as connection:
        connection.send(HALF_AN_UNREAD_BODY)
        assert (await connection.read_answer("POST")).status == 204
        assert await cut(connection) == b""
    assert not [record for record in caplog.records if record.exc_info]


async def test_half_a_body_of_what_goes_on_for_longer_ends_nothing(
    node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    async with limited_edge(node, HURRIED) as port, connected(port) as connection:
        connection.send(b"GET /v0/players/p/stream.wav HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{")
        await connection.read_head()
        await asyncio.sleep(2 * REQUEST_S)
        (listener,) = node.fakes["p"].listeners
        listener.write(b"4\r\nabcd\r\n")
        chunks = connection.chunks()
        assert len(await anext(chunks)) == 44
        assert await anext(chunks) == b"abcd"
        listener.close(1000, "")
        async for _ in chunks:
            pass
        assert await cut(connection) == b""
    assert not [record for record in caplog.records if record.exc_info]


async def test_the_next_request_has_its_time_from_its_first_byte(node: FakeNode) -> None:
    async with limited_edge(node, HURRIED) as port, connected(port) as connection:
        for _ in range(2):
            connection.send_request("GET", "/info")
            assert (await connection.read_answer()).status == 200
            await asyncio.sleep(1.2 * REQUEST_S)  # idle, which is allowed for longer
        connection.send(HALVES["half a head"])
        assert await took_s(connection) < KEEPALIVE_S


async def test_an_idle_connection_is_closed_after_its_time(node: FakeNode) -> None:
    async with limited_edge(node, HURRIED) as port, connected(port) as connection:
        connection.send_request("GET", "/info")
        assert (await connection.read_answer()).status == 200
        assert await took_s(connection) > KEEPALIVE_S / 2


async def test_a_request_that_takes_long_to_answer_and_open_sockets_are_left_alone(node: FakeNode) -> None:
    node.answers_enqueue = False
    async with (
        limited_edge(node, HURRIED) as port,
        connected(port) as asking,
        websocket(port, "/v0/players/p/ws") as socket,
    ):
        asking.send_request("POST", "/v0/players/p/queue", body=b'{"uri": "a.mp3"}')
        await asyncio.sleep(3 * KEEPALIVE_S)
        assert not asking.reader.at_eof()
        (listener,) = node.fakes["p"].listeners
        listener.write(b"\x82\x01a")
        assert (await socket.read_frame()).payload == b"a"


async def test_strangers_give_way_to_those_that_come_after_them(
    node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    async with limited_edge(node, PATIENT, "secret") as port, AsyncExitStack() as stack:
        strangers = []
        for number in range(PATIENT.max_strangers):
            strangers.append(await stack.enter_async_context(connected(port)))
            strangers[-1].send(HALF_A_BODY if number % 2 else HALVES["half a head"])
        known = await stack.enter_async_context(connected(port))  # in place of the first
        known.send_request("GET", "/info", PASSWORD)
        assert (await known.read_answer()).status == 200
        assert await cut(strangers[0]) == b""
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


async def test_when_all_places_are_taken_by_those_who_were_let_in_nobody_else_comes(
    node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ConnectionLimits(2, 2)
    async with limited_edge(node, limits) as port:
        async with (
            websocket(port, "/v0/players/p/ws"),
            websocket(port, "/v0/players/p/events"),
            connected(port) as third,
        ):
            third.send_request("GET", "/info")
            assert await cut(third) == b""
        for _ in range(3):  # there is room again
            assert (await request(port, "GET", "/info")).status == 200
    assert any("max_connections" in record.getMessage() for record in caplog.records)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
