"""Players that nobody listens to, with real decoders: what is heard when somebody comes, and what is found then."""

from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest_asyncio

from tests.support.audio_files import music, pcm_of, tone, wav
from tests.support.eventually import eventually
from tests.support.media_files import Samples, samples_of
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import running_node, state_of
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.core.frame import FRAME_MS, FRAME_SAMPLES
from tonearm.core.overlays import OverlaySettings
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings
from tonearm.node.tracks import WantedTrack
from tonearm.player.handle import PlayerHandle


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_node() -> AsyncIterator[Node]:
    async with running_node(NodeSettings(decoder_processes=2, first_listener_wait_ms=0)) as node:
        yield node


async def without_listener(node: Node, player_id: str, uri: str) -> MemoryEventClient:
    await node.create_player(player_id, uri, {})
    events = MemoryEventClient()
    node.player(player_id).subscribe(events, since=None, wants_snapshot=False)
    await events.wait_for("TrackStart")
    return events


def is_asleep(node: Node, player_id: str) -> bool:
    state = state_of(node, player_id)
    return state["state"] == "playing" and state["quality"]["decoderProcess"] is None


async def asleep(node: Node, player_id: str) -> None:
    await eventually(lambda: is_asleep(node, player_id), f"{player_id} sleeps")


def distance(heard: Samples, reference: Samples) -> int:
    """How far the samples are apart where they are furthest."""
    both = min(len(heard), len(reference))
    return int(np.abs(heard[:both].astype(int) - reference[:both]).max())


async def test_a_song_of_a_server_is_asked_for_again_by_a_listener_and_not_by_an_overlay_in_its_pause(
    node: Node, server: MediaServer, shelf: Shelf
) -> None:
    signal = music(40.0)
    song = wav(signal)
    events = await without_listener(node, "p", server.serve("/song.wav", media(song)))
    player = node.player("p")
    await asleep(node, "p")
    await server.all_gone()
    leave = await hears_where_it_is(player, samples_of(pcm_of(signal)))
    leave()
    player.do(Requests.pause)
    await asleep(node, "p")
    server.serve("/song.wav", media(song, stall_after=0))
    node.add_overlay("p", WantedTrack(shelf.put("jingle.wav", wav(tone(440, 0.3)))), OverlaySettings())
    await events.wait_for("OverlayEnd")
    assert [op for op in events.ops if op.startswith("Overlay")] == ["OverlayStart", "OverlayEnd"]
    await asleep(node, "p")
    position_ms = player.status().position_ms
    player.do(Requests.play)
    await eventually(lambda: player.status().position_ms > position_ms, "the position moves")
    assert is_asleep(node, "p")
    server.serve("/song.wav", media(song))
    await hears_where_it_is(player, samples_of(pcm_of(signal)))


async def hears_where_it_is(player: PlayerHandle, reference: Samples) -> Callable[[], None]:
    """A listener comes to a sleeping player. Returns how it leaves."""
    listener = MemoryListener()
    leave = player.attach(listener)
    position_ms = player.status().position_ms
    await listener.wait_frames(10)
    # The player went on while its source was being opened, however long that took.
    moved_frames = (player.status().position_ms - position_ms) // FRAME_MS
    assert moved_frames >= 0
    lags = range(position_ms * 48, position_ms * 48 + (moved_frames + 1) * FRAME_SAMPLES, FRAME_SAMPLES)
    assert min(distance(samples_of(listener.pcm), reference[lag:]) for lag in lags) == 0
    return leave
