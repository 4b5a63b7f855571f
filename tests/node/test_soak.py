"""Whatever clients do, a player keeps its promises."""

import asyncio
import contextlib
import inspect
import logging
import random
from collections.abc import Callable

import pytest

from tests.support.audio_files import music, wav
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import Listening, listening, padded, running_node
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.core.errors import NotSeekable
from tonearm.core.filters import FilterChange
from tonearm.core.frame import FRAME_BYTES
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.node.parts import NodeSettings


async def do_something(listening: Listening, uris: list[str], dice: random.Random) -> None:
    """Whatever comes to a client's mind."""
    node, player = listening.node, listening.node.player(listening.id)
    change = FilterChange(dice.uniform(0, 2), ((dice.randrange(15), dice.uniform(-24, 24)),))
    edits: list[Callable[[], object]] = [
        *[lambda: player.do(Requests.play)] * 2,
        lambda: player.do(Requests.pause),
        lambda: player.do(Requests.skip),
        lambda: player.seek(dice.randrange(1_000)),
        lambda: player.do(Requests.set_loop, dice.choice([*LoopMode])),
        *[lambda: node.enqueue(listening.id, dice.choice(uris), {})] * 2,
        lambda: player.do(Requests.change_filters, change),
        lambda: player.attach(MemoryListener())(),
    ]
    with contextlib.suppress(NotSeekable):
        done = dice.choice(edits)()
        if inspect.isawaitable(done):
            await done
    await asyncio.sleep(dice.choice((0, 0, 0.001, 0.01, 0.03)))


async def plays_as_ever(listening: Listening, uri: str, pcm: bytes) -> None:
    """After all that: everything is taken away, and a song is heard to the sample."""
    player = listening.node.player(listening.id)
    player.do(Requests.set_loop, LoopMode.NONE)
    player.do(Requests.change_filters, FilterChange(1.0, ()))
    while listening.state["queueLength"] or listening.state["state"] != "idle":
        player.do(Requests.skip)
        await asyncio.sleep(0)
    heard_before = len(listening.listener)
    player.do(Requests.play)
    player.do(Requests.skip)
    await listening.enqueue(uri)
    await listening.wait_state("idle")
    # First the sound still glides from the one before, and from its filters.
    sound = b"".join(listening.listener.messages[heard_before:])
    assert sound.endswith(padded(pcm)[FRAME_BYTES:])
    assert len(sound) <= len(padded(pcm)) + FRAME_BYTES


def require_promises_kept(events: MemoryEventClient) -> None:
    assert events.seqs == list(range(1, len(events.seqs) + 1))
    started: str | None = None
    for event in events.events:
        if event["op"] == "TrackStart":
            assert started is None, "a track started before the other had ended"
            started = event["track"]["info"]["title"]
        elif event["op"] == "TrackEnd":
            assert started in (None, event["track"]["info"]["title"])
            started = None


@pytest.mark.parametrize("decoders_die", [False, True])
async def test_whatever_clients_do(
    shelf: Shelf, server: MediaServer, caplog: pytest.LogCaptureFixture, decoders_die: bool
) -> None:
    uris = [shelf.song(seconds)[0] for seconds in (0.05, 0.21, 0.37, 1.5)]
    uris.append(server.serve("/web.wav", media(wav(music(0.3)), ranges=False)))
    if not decoders_die:
        uris += [server.url("/nothing.mp3"), "/missing.mp3"]
        uris.append(server.serve("/half.wav", media(wav(music(2.0)), stall_after=100_000)))
    last_uri, last_pcm = shelf.song(0.31)

    async def chaos(player: Listening, dice: random.Random, killed: set[int]) -> None:
        for step in range(150):
            await do_something(player, uris, dice)
            process_id = player.quality["decoderProcess"]
            if decoders_die and player.id == "p0" and step % 30 == 29 and process_id is not None:
                killed.add(process_id)
                with contextlib.suppress(ProcessLookupError):
                    player.kill_decoder()

    async with running_node(NodeSettings(decoder_processes=2)) as node:
        players = [await listening(node, f"p{number}", uris[number % len(uris)]) for number in range(6)]
        killed = set[int]()
        await asyncio.gather(*(chaos(one, random.Random(100 + at), killed) for at, one in enumerate(players)))
        if decoders_die:
            await asyncio.gather(*(player.moved(*killed) for player in players))
        await asyncio.gather(*(plays_as_ever(player, last_uri, last_pcm) for player in players))
        for player in players:
            require_promises_kept(player.events)
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert decoders_die or not errors
