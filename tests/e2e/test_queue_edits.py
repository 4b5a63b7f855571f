"""Requests about the queue of a running node that wait: for a playlist, for those before them, for titles."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import create, done, enqueue, refusal, state, waiting_uris
from tests.support.http_client import connected
from tests.support.media_server import Answer, MediaServer, Reply, Request, media, stall
from tests.support.running_node import RunningNode

QUEUE = "/v0/players/p/queue"


async def queued(node: RunningNode, *names: str) -> dict[str, str]:
    """A player with these tracks waiting; their ids by name."""
    (node.folder / "now.wav").write_bytes(wav(tone(440, 2.0)))
    await create(node, "p", "now.wav", paused=True)
    return {name: await enqueue(node, "p", f"{name}.wav") for name in names}


async def names_waiting(node: RunningNode) -> list[str]:
    return [uri.rpartition("/")[2] for uri in await waiting_uris(node, "p")]


def answers_after(wait: Callable[[], Awaitable[object]]) -> Answer:
    """A playlist of two tracks from a server that takes its time."""

    async def slow_list(request: Request, reply: Reply) -> None:
        await wait()
        await media(b"a.wav\nb.wav\n", content_type="audio/x-mpegurl")(request, reply)

    return slow_list


async def test_calls_are_done_in_the_order_in_which_they_were_begun(node: RunningNode) -> None:
    """Whatever one of them has to wait for: a playlist from a slow server, or a large body."""
    await queued(node)
    async with MediaServer() as server, AsyncExitStack() as stack:
        uri = server.serve("/list.m3u", answers_after(partial(asyncio.sleep, 0.5)))
        many: list[dict[str, object]] = [{"uri": f"{number}.wav", "metadata": "x" * 500} for number in range(1000)]
        bodies = [{"uri": uri}, {"uri": "second.wav"}, {"tracks": many}, {"uri": "last.wav"}]
        connections = [await stack.enter_async_context(connected(node.port)) for _ in bodies]
        for connection, body in zip(connections, bodies, strict=True):
            connection.send_request("POST", QUEUE, body=json.dumps(body).encode())
            await connection.read_by_node()
        answers = [await connection.read_answer("POST") for connection in connections]
        assert [answer.status for answer in answers] == [201] * 4
        listed = ["a.wav", "b.wav", "second.wav", *(f"{number}.wav" for number in range(1000)), "last.wav"]
        assert await names_waiting(node) == listed
        part = (await node.request("GET", f"{QUEUE}?offset=1&limit=2")).json()
        assert [entry["uri"].rpartition("/")[2] for entry in part] == listed[1:3]


async def test_a_skip_comes_after_what_was_put_next_before_it_but_does_not_wait_long(node: RunningNode) -> None:
    ids = await queued(node, "a")
    is_sent = asyncio.Event()
    async with MediaServer() as server:
        uri = server.serve("/slow.m3u", answers_after(is_sent.wait))
        added = asyncio.create_task(node.request("POST", QUEUE, {"uri": uri, "index": 0}))
        await server.requested(1)
        await done(node, "POST", "/v0/players/p/skip")
        assert not added.done()
        assert (await state(node, "p"))["trackId"] == ids["a"]
        is_sent.set()
        assert (await added).status == 201
        assert await names_waiting(node) == ["a.wav", "b.wav"]
        uri = server.serve("/list.m3u", answers_after(partial(asyncio.sleep, 0.2)))
        added = asyncio.create_task(node.request("POST", QUEUE, {"uri": uri, "index": 0}))
        await server.requested(2)
        await done(node, "POST", "/v0/players/p/skip")
        assert (await state(node, "p"))["trackId"] == (await added).json()["trackId"]


async def test_the_answer_waits_until_the_titles_asked_for_are_known_and_no_longer(node: RunningNode) -> None:
    async def listed(query: str) -> Any:
        return (await node.request("GET", f"{QUEUE}?details=true&{query}")).json()

    await queued(node)
    async with MediaServer() as server:
        await enqueue(node, "p", server.serve("/song.wav", media(wav(tone(440, 1.0)))))
        assert [entry["length"] for entry in await listed("wait=5000")] == [1000]
        # A source that cannot be read keeps nobody waiting, nor does a queue without tracks.
        await enqueue(node, "p", "missing.wav")
        begun_s = time.monotonic()
        assert len(await listed("wait=5000")) == 2
        assert await listed("wait=5000&offset=2") == []
        assert time.monotonic() - begun_s < 9  # both waits would take ten
        await done(node, "DELETE", QUEUE)
        await enqueue(node, "p", server.serve("/silent.mp3", stall()))
        (entry,) = await listed("wait=300")
        assert entry["title"] == "silent"
        for wrong in ("wait=5001", "wait=-1", "limit=0", "offset=x", "limit=1.5"):
            assert refusal(await node.request("GET", f"{QUEUE}?details=true&{wrong}")) == (400, "bad_request")
        async with connected(node.port) as connection:
            connection.send_request("GET", f"{QUEUE}?details=true&wait=5000")
            await connection.read_by_node()
            await done(node, "DELETE", "/v0/players/p")
            assert refusal(await connection.read_answer()) == (404, "player_not_found")
