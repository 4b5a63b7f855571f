"""Which track comes next, for every loop mode and end, as clients see it; and skip in every state."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.audio_files import flac, wav
from tests.support.e2e_players import (
    at_rest,
    create,
    delete,
    enqueue,
    order,
    patch,
    state,
    until_state,
    waiting_uris,
)
from tests.support.e2e_sockets import Tape, following, listening
from tests.support.media_server import MediaServer, media, stall
from tests.support.running_node import RunningNode

NOISE = np.random.default_rng(1).uniform(-0.5, 0.5, (96_000, 2))


def write_tracks(folder: Path) -> None:
    for name in "abc":
        (folder / f"{name}.wav").write_bytes(wav(NOISE[:7000]))  # 146 ms: not whole frames
    (folder / "long.flac").write_bytes(flac(NOISE))


def titles(tape: Tape, op: str) -> str:
    return " ".join(event["track"]["info"]["title"] for event in tape.events if event["op"] == op)


async def test_at_an_end(node: RunningNode) -> None:
    """mode x what waits, and what plays one after the other."""
    write_tracks(node.folder)
    table = {
        ("none", ""): "a",
        ("none", "bc"): "a b c",
        ("track", ""): "a a a a",
        ("track", "bc"): "a a a a",
        ("queue", ""): "a a a a",
        ("queue", "bc"): "a b c a b c a",
    }
    rows = zip(table.items(), range(len(table)), strict=True)
    await asyncio.gather(*(_play_on(node, f"p{number}", *row, wanted) for (row, wanted), number in rows))


async def _play_on(node: RunningNode, player: str, mode: str, waiting: str, plays: str) -> None:
    await create(node, player, "a.wav")
    await patch(node, player, "loop", {"mode": mode})
    for name in waiting:
        await enqueue(node, player, f"{name}.wav")
    async with following(node, player) as tape, listening(node, player):
        for _ in plays.split():
            await tape.until("TrackStart")
        if mode == "none":
            assert await at_rest(tape) == "idle"
        # It may have gone on by now; from here on it stands.
        await order(node, player, "pause")
        now = await state(node, player)
        waits = "".join(uri.removesuffix(".wav") for uri in await waiting_uris(node, player))
    assert now["loop"] == mode
    started = titles(tape, "TrackStart")
    assert started[: len(plays)] == plays, (mode, waiting)
    assert len(started) == len(plays) or mode != "none"
    if mode == "queue":
        # Behind the selected track comes what is behind it in the circle.
        circle = "a" + waiting
        at = circle.index(now["track"]["info"]["title"])
        assert waits == circle[at + 1 :] + circle[:at], (waiting, started)
    else:
        assert waits == (waiting if mode == "track" else "")


async def test_at_a_skip(node: RunningNode) -> None:
    """mode x what waits: the selected track, its state, and what waits, after each of three skips."""
    write_tracks(node.folder)
    table = {
        ("none", ""): ["a idle", "a idle", "a idle"],
        ("none", "bc"): ["b c", "c", "c idle"],
        ("track", ""): ["a idle", "a idle", "a idle"],
        ("track", "bc"): ["b c", "c", "c idle"],
        ("queue", ""): ["a", "a", "a"],
        ("queue", "bc"): ["b c a", "c a b", "a b c"],
    }
    for number, ((mode, waiting), wanted) in enumerate(table.items()):
        player = f"p{number}"
        await create(node, player, "a.wav")
        await patch(node, player, "loop", {"mode": mode})
        for name in waiting:
            await enqueue(node, player, f"{name}.wav")
        seen = []
        for _ in wanted:
            await order(node, player, "skip")
            # An answer means done: the next GET shows it.
            now = await state(node, player)
            waits = [uri.removesuffix(".wav") for uri in await waiting_uris(node, player)]
            idle = ["idle"] if now["state"] == "idle" else []
            seen.append(" ".join([now["track"]["info"]["title"], *idle, *waits]))
            assert now["queueLength"] == len(waits)
        assert seen == wanted, (mode, waiting)


async def test_a_looped_queue_keeps_ids_and_metadata(node: RunningNode) -> None:
    write_tracks(node.folder)
    await create(node, "p", "a.wav")
    await patch(node, "p", "loop", {"mode": "queue"})
    wanted = [
        {"id": await enqueue(node, "p", uri, metadata), "uri": uri, "metadata": metadata}
        for uri, metadata in (("b.wav", {"by": "ä"}), ("b.wav", [1, None]), ("./c.wav", "text"))
    ]
    assert all(str(uuid.UUID(str(entry["id"]))) == entry["id"] for entry in wanted)
    assert (await node.request("GET", "/v0/players/p/queue")).json() == wanted
    await order(node, "p", "skip", "skip", "skip", "skip")
    again = (await node.request("GET", "/v0/players/p/queue")).json()
    assert again == wanted
    assert len({entry["id"] for entry in again}) == 3


async def test_an_idle_player_plays_a_new_track_at_once_and_its_last_one_again(impatient_node: RunningNode) -> None:
    write_tracks(impatient_node.folder)
    async with MediaServer() as server:
        track_b = server.serve("/b.wav", media((impatient_node.folder / "b.wav").read_bytes()))
        await create(impatient_node, "p", "a.wav")
        async with following(impatient_node, "p", "?since=0") as tape, listening(impatient_node, "p") as ear:
            await at_rest(tape)
            await order(impatient_node, "p", "play")
            await at_rest(tape)
            await enqueue(impatient_node, "p", track_b)
            await at_rest(tape)
            resting = await state(impatient_node, "p")
            assert (resting["state"], resting["track"]["info"]["title"]) == ("idle", "b")
            server.serve("/b.wav", stall())  # so that no frame comes before the pause
            await order(impatient_node, "p", "pause", "play", "pause")
            assert (await state(impatient_node, "p"))["paused"]
            await delete(impatient_node, "p")
            await tape.closed()
            await ear.closed()
        # At last b was selected again by `play`, and paused before its first frame.
        assert (titles(tape, "TrackStart"), titles(tape, "TrackEnd")) == ("a a b", "a a b b")
        ends = [event["reason"] for event in tape.events if event["op"] == "TrackEnd"]
        assert ends == ["finished", "finished", "finished", "stopped"]


async def test_skip_in_every_state(impatient_node: RunningNode) -> None:
    write_tracks(impatient_node.folder)
    async with MediaServer() as server:
        stalled = server.serve("/stalled", stall())

        async def skipped(player: str, until: dict[str, Any]) -> list[str]:
            """The events of a skip once the player is as `until` says."""
            await until_state(impatient_node, player, lambda now: until.items() <= now.items())
            async with following(impatient_node, player) as tape:
                await order(impatient_node, player, "skip")
                if until.get("state") != "idle":
                    await tape.until("TrackEnd")
                await delete(impatient_node, player)
                await tape.closed()
                return tape.summary()

        await create(impatient_node, "loading", stalled)
        assert await skipped("loading", {"state": "loading"}) == [
            "TrackEnd stalled skipped",
            "PlayerUpdate idle",
            "PlayerDelete",
        ]
        await create(impatient_node, "playing", "long.flac")
        assert await skipped("playing", {"state": "playing"}) == [
            "TrackEnd long skipped",
            "PlayerUpdate idle",
            "PlayerDelete",
        ]
        await create(impatient_node, "paused", "long.flac")
        await order(impatient_node, "paused", "pause")
        assert (await skipped("paused", {"paused": True, "state": "playing"}))[0] == "TrackEnd long skipped"
        await create(impatient_node, "idle", "a.wav")
        assert await skipped("idle", {"state": "idle"}) == ["PlayerDelete"]
        await create(impatient_node, "failed", "missing.wav")
        assert await skipped("failed", {"state": "failed"}) == [
            "TrackEnd missing skipped",
            "PlayerUpdate idle",
            "PlayerDelete",
        ]


async def test_pause_survives_the_change_of_tracks(impatient_node: RunningNode) -> None:
    write_tracks(impatient_node.folder)
    await create(impatient_node, "p", "a.wav")
    await order(impatient_node, "p", "pause", "pause")
    await enqueue(impatient_node, "p", "b.wav")
    async with following(impatient_node, "p", "?since=0") as tape:
        await order(impatient_node, "p", "skip")
        now = await state(impatient_node, "p")
        assert (now["paused"], now["track"]["info"]["title"]) == (True, "b")
        await order(impatient_node, "p", "play")
        end = await tape.until("TrackEnd", reason="finished")
        assert end["track"]["info"]["title"] == "b"
        assert tape.summary().count("PlayerPause") == tape.summary().count("PlayerResume") == 1
