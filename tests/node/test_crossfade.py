"""Crossfades as a listener hears them, and what the events say meanwhile."""

import numpy as np

from tests.support.node_in_process import Listening, padded
from tests.support.shelf import Shelf, samples
from tonearm.core.crossfade import CrossfadeCurve, CrossfadeEdit
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, samples_of_ms
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node


def faded(first: bytes, second: bytes, at: int, count: int, curve: CrossfadeCurve) -> np.ndarray:
    """What two sounds are when the second begins at a sample of the first, which is gone `count` samples later."""
    here, there = samples(first).astype(float), samples(second).astype(float)
    share = ((np.arange(count) + 0.5) / count)[:, np.newaxis]
    if curve is CrossfadeCurve.LINEAR:
        out, come = 1 - share, share
    else:
        out, come = np.cos(np.pi / 2 * share), np.sin(np.pi / 2 * share)
    return np.concatenate([here[:at], here[at : at + count] * out + there[:count] * come, there[count:]])


async def two_songs(
    node: Node, shelf: Shelf, seconds: float = 3.0, **settings: object
) -> tuple[Listening, list[bytes]]:
    songs = [shelf.song(seconds), shelf.song(seconds)]
    await node.create_player("p", songs[0][0], {})
    node.player("p").do(Requests.change_crossfade, CrossfadeEdit(**settings))  # type: ignore[arg-type]
    await node.enqueue("p", songs[1][0], {})
    return Listening(node, "p"), [pcm for _, pcm in songs]


async def test_the_next_track_comes_in_under_the_end_of_the_one_before(node: Node, shelf: Shelf) -> None:
    curve = CrossfadeCurve.LINEAR
    player, (first, second) = await two_songs(node, shelf, 1.5, duration_ms=500, curve=curve)
    await player.wait_state("idle")
    expected = faded(first, second, samples_of_ms(1_000), samples_of_ms(500), curve)
    heard = samples(player.listener.pcm)
    assert np.abs(heard[: len(expected)] - expected).max() <= 1
    assert not heard[len(expected) :].any()
    ops = [event["op"] for event in player.events.events if event["op"].startswith("Track")]
    assert ops == ["TrackStart", "TrackEnd", "TrackStart", "TrackEnd"]
    assert player.ends == [("song1", "finished"), ("song2", "finished")]
    player.require_no_underrun()


async def test_a_skip_fades_when_it_is_told_to(node: Node, shelf: Shelf) -> None:
    player, (first, second) = await two_songs(node, shelf, seconds=4.0, duration_ms=800, on_skip=True)
    await player.listener.wait_frames(50)
    before = len(player.listener)
    node.player("p").do(Requests.skip)
    await player.wait_state("idle")
    heard = samples(player.listener.pcm)
    frames = range(before - 1, before + 4)
    expected = [
        faded(first, second, frame * FRAME_SAMPLES, samples_of_ms(800), CrossfadeCurve.EQUAL_POWER) for frame in frames
    ]
    assert any(np.abs(heard[: len(sound)] - sound).max() <= 1 for sound in expected if len(sound) <= len(heard))
    assert player.ends == [("song1", "skipped"), ("song2", "finished")]


async def test_the_death_of_the_decoder_ends_only_the_old_sound(node: Node, shelf: Shelf) -> None:
    player, (_, second) = await two_songs(node, shelf, duration_ms=1_200)
    await player.listener.wait_frames(100)
    player.kill_decoder()
    await player.wait_state("idle")
    assert player.ends == [("song1", "finished"), ("song2", "finished")]
    assert player.listener.pcm[-FRAME_BYTES * 50 :] == padded(second)[-FRAME_BYTES * 50 :]
