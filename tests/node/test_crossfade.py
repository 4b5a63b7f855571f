"""Crossfades as a listener hears them, and what the events say meanwhile."""

import numpy as np

from tests.support.node_in_process import Listening
from tests.support.shelf import Shelf, samples
from tonearm.core.crossfade import CrossfadeCurve, CrossfadeEdit
from tonearm.core.frame import FRAME_SAMPLES, samples_of_ms
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node


def faded(first: bytes, second: bytes, at: int, count: int) -> np.ndarray:
    """What two sounds are when the second begins at a sample of the first, which is gone `count` samples later."""
    here, there = samples(first).astype(float), samples(second).astype(float)
    share = ((np.arange(count) + 0.5) / count)[:, np.newaxis]
    return np.concatenate([here[:at], here[at : at + count] * (1 - share) + there[:count] * share, there[count:]])


async def two_songs(node: Node, shelf: Shelf, seconds: float, fade: CrossfadeEdit) -> tuple[Listening, list[bytes]]:
    songs = [shelf.song(seconds), shelf.song(seconds)]
    await node.create_player("p", songs[0][0], {})
    node.player("p").do(Requests.change_crossfade, fade)
    await node.enqueue("p", songs[1][0], {})
    return Listening(node, "p"), [pcm for _, pcm in songs]


async def test_the_next_track_comes_in_under_the_end_of_the_one_before(node: Node, shelf: Shelf) -> None:
    fade = CrossfadeEdit(duration_ms=500, curve=CrossfadeCurve.LINEAR)
    player, (first, second) = await two_songs(node, shelf, 1.5, fade)
    await player.wait_state("idle")
    expected = faded(first, second, samples_of_ms(1_000), samples_of_ms(500))
    heard = samples(player.listener.pcm)
    assert np.abs(heard[: len(expected)] - expected).max() <= 1
    assert not heard[len(expected) :].any()
    ops = [event["op"] for event in player.events.events if event["op"].startswith("Track")]
    assert ops == ["TrackStart", "TrackEnd", "TrackStart", "TrackEnd"]
    assert player.ends == [("song1", "finished"), ("song2", "finished")]
    player.require_no_underrun()


async def test_a_skip_fades_when_it_is_told_to(node: Node, shelf: Shelf) -> None:
    fade = CrossfadeEdit(duration_ms=800, curve=CrossfadeCurve.LINEAR, on_skip=True)
    player, (first, second) = await two_songs(node, shelf, 3.0, fade)
    await player.listener.wait_frames(50)
    before = len(player.listener)
    node.player("p").do(Requests.skip)
    await player.wait_state("idle")
    heard = samples(player.listener.pcm)
    frames = range(before - 1, before + 4)
    expected = [faded(first, second, frame * FRAME_SAMPLES, samples_of_ms(800)) for frame in frames]
    assert any(np.abs(heard[: len(sound)] - sound).max() <= 1 for sound in expected if len(sound) <= len(heard))
    assert player.ends == [("song1", "skipped"), ("song2", "finished")]
