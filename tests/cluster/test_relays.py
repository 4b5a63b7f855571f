"""Listeners at a node that has not got the player: real nodes, a real engine, heard from outside."""

import asyncio
import contextlib
import io
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import av

from tests.support.audio_files import tone, wav
from tests.support.eventually import eventually
from tests.support.processes import standing_still
from tests.support.running_cluster import running_cluster
from tests.support.running_node import RunningNode
from tonearm.protocol.framing import HEADER, HEADER_BYTES

SONG = wav(tone(440, 60.0))
GAP_S = 5.0  # far more than a move takes, and less than a takeover


def songs(folder: Path) -> None:
    (folder / "song.wav").write_bytes(SONG)


async def create(node: RunningNode, at: str) -> None:
    body = {"id": "p", "uri": "song.wav", "node": at, "metadata": {"station": {"name": "Night"}}}
    assert (await node.request("POST", "/v0/players", body)).status == 201


@asynccontextmanager
async def listening(node: RunningNode, query: str = "?header=1", count: int = 1) -> AsyncIterator[list["Listener"]]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session, AsyncExitStack() as stack:
        opening = [session.ws_connect(f"{node.url}/v0/players/p/ws{query}") for _ in range(count)]
        sockets = [await stack.enter_async_context(one) for one in opening]
        yield [Listener(one) for one in sockets]


class Listener:
    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self._connection = connection

    async def hear(self, frames: int) -> dict[int, bytes]:
        """The payloads by their numbers, in the order in which they come."""
        heard: dict[int, bytes] = {}
        for _ in range(frames):
            message = await self._connection.receive(timeout=30)
            assert message.type is aiohttp.WSMsgType.BINARY, message
            _, _, size, number, _ = HEADER.unpack_from(message.data)
            assert len(message.data) == HEADER_BYTES + size
            heard[number] = message.data[HEADER_BYTES:]
        return heard


async def listeners_of(node: RunningNode) -> int:
    return int((await node.request("GET", "/v0/players/p")).json()["listeners"])


async def test_many_listeners_at_another_node_are_one_at_the_players(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        await create(a, at="a")
        async with listening(b, count=50) as listeners:
            heard = await asyncio.gather(*(listener.hear(100) for listener in listeners))

            async def are_counted() -> bool:
                return await listeners_of(b) == await listeners_of(a) == 50

            await eventually(are_counted, "the player counts those who listen at the other node")
        frames: dict[int, bytes] = {}
        for one in heard:
            assert list(one) == list(range(min(one), min(one) + 100)), "each once, in order"
            for number, payload in one.items():
                assert frames.setdefault(number, payload) == payload
        assert sum("listener came" in line for line in a.log) == 1

        async def have_left() -> bool:
            return await listeners_of(a) == 0 and any("listener left" in line for line in a.log)

        await eventually(have_left, "the relay ends with its last listener")


async def test_connections_outlive_a_move_and_the_loss_of_the_node(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", "c", prepare=songs) as cluster:
        _, b, _ = cluster.nodes.values()
        await create(b, at="a")
        async with (
            listening(b, count=3) as listeners,
            aiohttp.ClientSession() as session,
            session.get(f"{b.url}/v0/players/p/stream.ogg") as ogg,
            session.get(f"{b.url}/v0/players/p/stream.mp3", headers={"Icy-MetaData": "1"}) as mp3,
            session.get(f"{b.url}/v0/players/p/stream.wav") as pcm,
        ):
            assert mp3.headers["icy-name"] == "Night"
            bodies = {one: bytearray() for one in (ogg, mp3, pcm)}
            reading = [asyncio.create_task(read(one, body)) for one, body in bodies.items()]
            before = await asyncio.gather(*(listener.hear(100) for listener in listeners))
            assert (await b.request("POST", "/v0/players/p/move", {"node": "c"})).status == 204
            begun_s = time.monotonic()
            after = await asyncio.gather(*(listener.hear(100) for listener in listeners))
            assert time.monotonic() - begun_s < 100 * 0.02 + GAP_S
            for first, then in zip(before, after, strict=True):
                assert [*first, *then] == sorted({*first, *then}), "each once, in order"
            await cluster.kill("c")
            await asyncio.gather(*(listener.hear(200) for listener in listeners))
            had = {one: len(body) for one, body in bodies.items()}

            async def go_on() -> bool:
                return all(len(body) > had[one] + 20_000 for one, body in bodies.items())

            await eventually(go_on, "the streams go on")
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
        assert_one_chain(bytes(bodies[ogg]))
        assert bodies[pcm].count(b"RIFF") == 1


async def read(answer: aiohttp.ClientResponse, into: bytearray) -> None:
    with contextlib.suppress(aiohttp.ClientError):  # the connection is closed
        async for data in answer.content.iter_any():
            into += data


def assert_one_chain(ogg: bytes) -> None:
    """One logical stream, none of whose pages is missing, and which can be decoded."""
    assert ogg.count(b"OpusHead") == 1
    pages: list[tuple[int, int]] = [struct.unpack_from("<II", page, 9) for page in ogg.split(b"OggS\0")[1:]]
    assert len({serial for serial, _ in pages}) == 1
    assert [number for _, number in pages] == list(range(len(pages)))
    with av.open(io.BytesIO(ogg), "r") as container:
        samples = sum(frame.samples for frame in container.decode(container.streams.audio[0]))
    assert samples > 8 * 48_000


async def test_who_is_slow_at_another_node_costs_nobody_else(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        await create(a, at="a")
        with contextlib.closing(socket.socket()) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", b.port))
            slow.sendall(b"GET /v0/players/p/stream.wav HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with listening(b, "?header=1&maxLatencyMs=60000") as (listener,):

                async def has_lost() -> bool:
                    stats = (await b.request("GET", "/v0/stats")).json()
                    return bool(stats["framesLostByListeners"] > 0)

                heard = asyncio.create_task(listener.hear(400))
                await eventually(has_lost, "what the slow one lost is told")
                numbers = list(await heard)
        assert numbers == list(range(numbers[0], numbers[0] + 400))
        assert (await a.request("GET", "/v0/stats")).json()["framesLostByListeners"] == 0


async def test_what_is_refused_and_who_is_told_of_the_end(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs, config="[player]\nmax_listeners = 2\n") as cluster:
        a, b = cluster.nodes.values()
        await create(a, at="a")
        assert (await b.request("PUT", "/v0/players/p/move?from=a", {})).status == 404
        assert (await b.request("GET", "/v0/players/p/stream.mp3?bitrate=7")).status == 400
        assert (await b.request("HEAD", "/v0/players/p/stream.ogg")).status == 200
        async with listening(b, count=2) as listeners:
            await asyncio.gather(*(listener.hear(10) for listener in listeners))
            assert (await b.request("GET", "/v0/players/p/stream.wav?burst=x")).status == 400
            for query in ("", "?format=opus"):
                with contextlib.suppress(aiohttp.WSServerHandshakeError):
                    async with listening(b, query):
                        raise AssertionError("a third one is let in")
            assert (await a.request("DELETE", "/v0/players/p")).status == 204
            for listener in listeners:
                while (message := await listener._connection.receive(timeout=30)).type is aiohttp.WSMsgType.BINARY:
                    pass
                assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1000)


async def test_a_node_that_stands_still_is_left_for_the_one_that_takes_its_players(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", "c", prepare=songs) as cluster:
        a, b, _ = cluster.nodes.values()
        await create(b, at="a")
        async with listening(b) as (listener,):
            before = await listener.hear(50)
            with standing_still(a.pid):
                after = await listener.hear(200)
                assert (await b.request("GET", "/v0/players/p")).json()["node"] in ("b", "c")
        await asyncio.to_thread(a.stop)  # at once, before it has found out what became of it
        assert not any("leaving anyway" in line for line in a.log)
        assert [*before, *after] == sorted({*before, *after})


async def test_a_player_that_is_on_its_way_to_another_node_is_taken_back_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", "c", prepare=songs) as cluster:
        a, b, c = cluster.nodes.values()
        await create(a, at="a")
        async with listening(c) as (listener,):
            before = await listener.hear(50)
            with standing_still(b.pid):
                moved = await a.request("POST", "/v0/players/p/move", {"node": "b"})
            assert (moved.status, moved.json()["code"]) == (503, "node_unreachable")
            after = await listener.hear(300)  # it is not told that the player is deleted
        assert [*before, *after] == sorted({*before, *after})
        assert sum("player p taken over" in line for line in a.log) == 1
