"""Editing the queue of a running node: each route, what it answers, what it refuses, and what clients are told."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from tests.support.audio_files import flac, music, wav
from tests.support.e2e_players import create, done, enqueue, refusal, state, until_state, waiting_uris
from tests.support.e2e_sockets import following
from tests.support.http_client import connected
from tests.support.media_server import Answer, MediaServer, Reply, Request, media, stall
from tests.support.running_node import RunningNode

QUEUE = "/v0/players/p/queue"


async def queued(node: RunningNode, *names: str) -> dict[str, str]:
    """A player with these tracks waiting; their ids by name."""
    (node.folder / "now.wav").write_bytes(wav(music(2.0)))
    await create(node, "p", "now.wav", paused=True)
    return {name: await enqueue(node, "p", f"{name}.wav") for name in names}


async def post(node: RunningNode, body: object) -> Any:
    answer = await node.request("POST", QUEUE, body)
    assert answer.status == 201, answer.body
    return answer.json()


async def test_many_tracks_come_together(node: RunningNode) -> None:
    await queued(node, "a")
    tracks: list[dict[str, object]] = [{"uri": f"{number}.wav", "metadata": number} for number in range(1000)]
    added = await post(node, {"tracks": tracks, "index": 0})
    assert (len(added["trackIds"]), added["trackId"]) == (1000, added["trackIds"][0])
    listed = (await node.request("GET", QUEUE)).json()
    assert [entry["id"] for entry in listed[:1000]] == added["trackIds"]
    assert [entry["metadata"] for entry in listed[:1000]] == list(range(1000))
    assert listed[1000]["uri"] == "a.wav"
    assert list(await post(node, {"tracks": [{"uri": "one.wav"}]})) == ["trackId", "trackIds"]


async def test_what_is_known_of_waiting_tracks(node: RunningNode) -> None:
    await queued(node)
    uri = str(node.folder / "now.wav")
    track = (await node.request("GET", f"/v0/loadtracks?identifier={uri}")).json()["data"]
    await post(node, {"uri": "plain.wav"})
    await post(node, {"encoded": track["encoded"], "startMs": 500, "endMs": 1500, "metadata": 5})
    await post(node, {"uri": "part.wav#t=1,2.5"})
    plain = (await node.request("GET", QUEUE)).json()
    assert all(list(entry) == ["id", "uri", "metadata"] for entry in plain)
    detailed = (await node.request("GET", f"{QUEUE}?details=true")).json()
    assert [{name: entry[name] for name in ("id", "uri", "metadata")} for entry in detailed] == plain
    assert [{name: value for name, value in entry.items() if name not in plain[0]} for entry in detailed] == [
        {"title": "plain", "startMs": 0},
        {"title": "now", "length": 2000, "startMs": 500, "endMs": 1500},
        {"title": "part", "startMs": 1000, "endMs": 2500},
    ]
    assert plain[1]["uri"] == uri
    assert refusal(await node.request("GET", f"{QUEUE}?details=1")) == (400, "bad_request")


async def test_a_listed_part_keeps_its_name_when_it_is_queued_by_its_identifier(node: RunningNode) -> None:
    """The tags are about all of its file; those of a file that is played whole replace its name in a list."""
    await queued(node)
    (node.folder / "album.flac").write_bytes(flac(music(2.0), tags={"TITLE": "Album", "ARTIST": "Band"}))
    (node.folder / "list.m3u").write_text("#EXTM3U\n#EXTINF:2,In the list\nalbum.flac\n")
    (node.folder / "album.cue").write_text(
        'PERFORMER "Guest"\nFILE "album.flac" WAVE\nTRACK 01 AUDIO\nTITLE "One"\nINDEX 01 00:00:00\n'
        'TRACK 02 AUDIO\nTITLE "Two"\nINDEX 01 00:01:00\n'
    )
    listed = [
        entry["encoded"]
        for name in ("album.cue", "list.m3u")
        for entry in (await node.request("GET", f"/v0/loadplaylist?identifier={node.folder}/{name}")).json()["tracks"]
    ]
    unnamed = (
        await node.request("POST", "/v0/encodetrack", {"info": {"identifier": f"{node.folder}/album.flac#t=1"}})
    ).json()
    for encoded, shown in zip(
        [*listed, unnamed["encoded"]],
        [("One", "Guest"), ("Two", "Guest"), ("Album", "Band"), ("Album", "Band")],
        strict=True,
    ):
        await node.request("PUT", "/v0/players/p/track", {"encoded": encoded})
        now = await until_state(node, "p", lambda now: now["track"]["info"]["isSeekable"])
        assert (now["track"]["info"]["title"], now["track"]["info"]["author"]) == shown


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
        listed = [entry.rpartition("/")[2] for entry in await waiting_uris(node, "p")]
        assert listed == ["a.wav", "b.wav", "second.wav", *(f"{number}.wav" for number in range(1000)), "last.wav"]


@pytest.mark.timing
async def test_a_skip_comes_after_what_was_put_next_before_it(node: RunningNode) -> None:
    await queued(node, "a")
    async with MediaServer() as server:
        uri = server.serve("/list.m3u", answers_after(partial(asyncio.sleep, 0.5)))
        added = asyncio.create_task(node.request("POST", QUEUE, {"uri": uri, "index": 0}))
        await server.requested(1)
        await done(node, "POST", "/v0/players/p/skip")
        assert (await state(node, "p"))["trackId"] == (await added).json()["trackId"]
        assert [entry.rpartition("/")[2] for entry in await waiting_uris(node, "p")] == ["b.wav", "a.wav"]


async def test_a_skip_does_not_wait_long_for_a_slow_playlist(node: RunningNode) -> None:
    ids = await queued(node, "a")
    has_skipped = asyncio.Event()
    async with MediaServer() as server:
        uri = server.serve("/list.m3u", answers_after(has_skipped.wait))
        added = asyncio.create_task(node.request("POST", QUEUE, {"uri": uri, "index": 0}))
        await server.requested(1)
        await done(node, "POST", "/v0/players/p/skip")
        assert not added.done()
        assert (await state(node, "p"))["trackId"] == ids["a"]
        has_skipped.set()
        assert (await added).status == 201
        assert [entry.rpartition("/")[2] for entry in await waiting_uris(node, "p")] == ["a.wav", "b.wav"]


def answers_after(wait: Callable[[], Awaitable[object]]) -> Answer:
    """A playlist of two tracks from a server that takes its time."""

    async def slow_list(request: Request, reply: Reply) -> None:
        await wait()
        await media(b"a.wav\nb.wav\n", content_type="audio/x-mpegurl")(request, reply)

    return slow_list


async def test_the_answer_waits_until_the_titles_asked_for_are_known(node: RunningNode) -> None:
    await queued(node)
    async with MediaServer() as server, following(node, "p") as tape:
        uris = [server.serve(f"/{number}.wav", media(wav(music(1.0)))) for number in range(8)]
        added = (await post(node, {"tracks": [{"uri": uri} for uri in uris]}))["trackIds"]
        # The last ones wait behind those that are read ahead anyway.
        last = (await node.request("GET", f"{QUEUE}?details=true&wait=5000&offset=6&limit=2")).json()
        assert [(entry["id"], entry["length"]) for entry in last] == [(added[6], 1000), (added[7], 1000)]
        first = (await node.request("GET", f"{QUEUE}?details=true&wait=5000&limit=1")).json()
        assert [(entry["id"], entry["length"]) for entry in first] == [(added[0], 1000)]
        told: list[str] = []
        while not {added[6], added[7], added[0]} <= set(told):  # between them may come what is read ahead anyway
            told += (await tape.until("QueueDetails"))["trackIds"]
        assert len(told) == len(set(told))
        # A source that cannot be read keeps nobody waiting, nor does a queue without tracks.
        await done(node, "DELETE", QUEUE)
        await enqueue(node, "p", "missing.wav")
        begun_s = time.monotonic()
        assert len((await node.request("GET", f"{QUEUE}?details=true&wait=5000")).json()) == 1
        assert (await node.request("GET", f"{QUEUE}?details=true&wait=5000&offset=1")).json() == []
        assert time.monotonic() - begun_s < 9  # both waits would take ten


async def test_the_wait_for_titles_is_no_longer_than_asked_for(node: RunningNode) -> None:
    await queued(node)
    async with MediaServer() as server:
        await enqueue(node, "p", server.serve("/silent.mp3", stall()))
        (entry,) = (await node.request("GET", f"{QUEUE}?details=true&wait=300")).json()
        assert entry["title"] == "silent"
        waiting_for_titles = asyncio.create_task(node.request("GET", f"{QUEUE}?details=true&wait=5000"))
        await server.requested(1)
        await done(node, "DELETE", "/v0/players/p")
    assert refusal(await waiting_for_titles) == (404, "player_not_found")
    await create(node, "p", "now.wav")
    for wrong in ("wait=5001", "wait=-1", "limit=0", "offset=x", "limit=1.5"):
        assert refusal(await node.request("GET", f"{QUEUE}?details=true&{wrong}")) == (400, "bad_request")


async def test_a_part_of_the_queue_is_listed(node: RunningNode) -> None:
    await queued(node, "a", "b", "c", "d")
    for query, names in (("offset=1&limit=2", "b c"), ("limit=1", "a"), ("offset=3", "d"), ("offset=9", "")):
        listed = (await node.request("GET", f"{QUEUE}?{query}")).json()
        assert " ".join(entry["uri"].removesuffix(".wav") for entry in listed) == names
