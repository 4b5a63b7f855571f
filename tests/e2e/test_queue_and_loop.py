"""Which track comes next, for every loop mode, as clients see it."""

import asyncio
import uuid
from pathlib import Path

import numpy as np

from tests.support.audio_files import wav
from tests.support.e2e_players import (
    at_rest,
    create,
    enqueue,
    order,
    patch,
    state,
    waiting_uris,
)
from tests.support.e2e_sockets import Tape, following, listening
from tests.support.running_node import RunningNode

NOISE = np.random.default_rng(1).uniform(-0.5, 0.5, (7000, 2))  # 146 ms: not whole frames


def write_tracks(folder: Path) -> None:
    for name in "abc":
        (folder / f"{name}.wav").write_bytes(wav(NOISE))


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
