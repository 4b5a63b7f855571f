"""Whatever clients do, a player keeps its promises."""

import asyncio
import contextlib
import gc
import inspect
import logging
import os
import random
import signal
import weakref
from collections.abc import Callable

import pytest

from tests.support.audio_files import music, wav
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import Listening, listening, padded, running_node
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryListener
from tonearm.core.errors import NotSeekable
from tonearm.core.filters import FilterChange
from tonearm.core.frame import FRAME_BYTES
from tonearm.core.overlays import OverlaySettings
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.node.parts import NodeSettings
from tonearm.node.tracks import WantedTrack


class Chaos:
    """Does to a player whatever comes to its mind, and looks whether the player keeps its promises."""

    def __init__(self, player: Listening, uris: list[str], seed: int) -> None:
        self._player = player
        self._uris = uris
        self._random = random.Random(seed)
        self.steps_done = 0

    async def go_on_for(self, steps: int) -> None:
        for _ in range(steps):
            await self._do_something()
            self.steps_done += 1
            await asyncio.sleep(self._random.choice((0, 0, 0.001, 0.01, 0.03)))

    async def _do_something(self) -> None:
        node, player, dice = self._player.node, self._player.node.player(self._player.id), self._random
        change = FilterChange(dice.uniform(0, 2), ((dice.randrange(15), dice.uniform(-24, 24)),))
        edits: list[Callable[[], object]] = [
            *[lambda: player.do(Requests.play)] * 2,
            lambda: player.do(Requests.pause),
            lambda: player.do(Requests.skip),
            lambda: player.seek(dice.randrange(1_000)),
            lambda: player.do(Requests.set_loop, dice.choice([*LoopMode])),
            *[lambda: node.enqueue(self._player.id, dice.choice(self._uris), {})] * 2,
            lambda: player.do(Requests.change_filters, change),
            lambda: player.attach(MemoryListener())(),
        ]
        with contextlib.suppress(NotSeekable):
            done = dice.choice(edits)()
            if inspect.isawaitable(done):
                await done

    async def plays_as_ever(self, uri: str, pcm: bytes) -> None:
        """After all that: everything is taken away, and a song is heard to the sample."""
        node, player = self._player.node, self._player
        node.player(player.id).do(Requests.set_loop, LoopMode.NONE)
        node.player(player.id).do(Requests.change_filters, FilterChange(1.0, ()))
        while player.state["queueLength"] or player.state["state"] != "idle":
            node.player(player.id).do(Requests.skip)
            await asyncio.sleep(0)
        heard_before = len(player.listener)
        node.player(player.id).do(Requests.play)
        node.player(player.id).do(Requests.skip)
        await node.enqueue(player.id, uri, {})
        await player.wait_state("idle")
        # First the sound still glides from the one before, and from its filters.
        sound = b"".join(player.listener.messages[heard_before:])
        assert sound.endswith(padded(pcm)[FRAME_BYTES:])
        assert len(sound) <= len(padded(pcm)) + FRAME_BYTES

    def kept_its_promises(self) -> None:
        events = self._player.events
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
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        players = [await listening(node, f"p{number}", uris[number % len(uris)]) for number in range(6)]
        chaos = [Chaos(player, uris, 100 + number) for number, player in enumerate(players)]
        killed: set[int] = set()

        async def kill_now_and_then() -> None:
            for kill in range(1, 5):
                await eventually(lambda: chaos[0].steps_done >= 30 * kill, "it goes on")  # noqa: B023
                process_id = next(node.players()).status().quality.decoder_process_id
                if decoders_die and process_id is not None:
                    killed.add(process_id)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process_id, signal.SIGKILL)

        await asyncio.gather(kill_now_and_then(), *(one.go_on_for(150) for one in chaos))
        if decoders_die:
            await asyncio.gather(*(player.moved(*killed) for player in players))
        await asyncio.gather(*(one.plays_as_ever(last_uri, last_pcm) for one in chaos))
        for one in chaos:
            one.kept_its_promises()
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert decoders_die or not errors


async def test_deleted_players_are_freed_at_once_without_the_collector_of_cycles(
    shelf: Shelf, server: MediaServer
) -> None:
    """The collector would find them late, and make all players wait when it does."""
    song, _ = shelf.song(0.5)
    stalls = server.serve("/half.wav", media(wav(music(2.0)), stall_after=100_000))
    uris = [song, stalls, server.url("/nothing.mp3"), "/missing.mp3"]
    async with running_node(NodeSettings(decoder_processes=1)) as node:
        gc.disable()
        collections = gc.get_stats()[-1]["collections"]
        try:
            for number, uri in enumerate(uris):
                player = await listening(node, f"p{number}", uri, *uris)
                node.add_overlay(player.id, WantedTrack(song), OverlaySettings())
                if uri is song:
                    await player.more_frames(10)
                deleted = weakref.ref(node.player(player.id))
                await node.delete_player(player.id)
                del player
                await eventually(lambda: deleted() is None, "the player is freed")  # noqa: B023
                assert gc.get_stats()[-1]["collections"] == collections, "the collector freed it"
        finally:
            gc.enable()
