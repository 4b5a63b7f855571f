"""Volume and equalizer as they are heard: soon, without a click, gone without a trace."""

import numpy as np
import pytest

from tests.support.audio_files import Signal, pcm_of, tone, wav
from tests.support.node_in_process import listening, padded
from tests.support.shelf import Shelf, samples
from tonearm.core.filters import FilterChange
from tonearm.core.frame import FRAME_BYTES
from tonearm.node.node import Node


def original(seconds: float) -> tuple[Signal, bytes]:
    signal = tone(1000, seconds)
    return signal, pcm_of(signal)


def sharpest_bend(pcm: bytes) -> int:
    """The largest second difference: 281 for this tone, thousands at a click."""
    return int(np.abs(np.diff(samples(pcm).astype(np.int32), n=2, axis=0)).max())


CALM = 420


async def test_a_filter_is_heard_soon_without_a_click_and_goes_without_a_trace(node: Node, shelf: Shelf) -> None:
    signal, pcm = original(1.6)
    player = await listening(node, "p", shelf.put("tone.wav", wav(signal)))
    changes = [
        (FilterChange(volume=0.25), 10),
        (FilterChange(volume=1.0), 24),
        (FilterChange(gains=((8, -18.0), (9, -12.0))), 38),
        (FilterChange(gains=()), 60),
    ]
    delays: list[int] = []
    for change, at_frame in changes:
        await player.listener.wait_frames(at_frame)
        before = len(player.listener)
        node.player("p").change_filters(change)
        assert len(player.listener) == before
        delays.append(before)
    await player.wait_state("idle")
    heard = player.listener.pcm
    assert len(heard) == len(padded(pcm))
    assert sharpest_bend(heard) < CALM
    frames = [(heard[i : i + FRAME_BYTES], pcm[i : i + FRAME_BYTES]) for i in range(0, len(pcm), FRAME_BYTES)]
    is_touched = [left != right for left, right in frames]
    assert not any(is_touched[: delays[0]])
    assert is_touched.index(True, delays[0]) - delays[0] <= 8
    for flat_at, changed_at in ((delays[1], delays[2]), (delays[3], len(frames))):
        first_flat = is_touched.index(False, flat_at)
        assert first_flat - flat_at <= 10
        assert not any(is_touched[first_flat:changed_at])
    quiet = samples(heard[(delays[0] + 9) * FRAME_BYTES : delays[1] * FRAME_BYTES])
    assert np.abs(quiet).max() == pytest.approx(16384 * 0.25, abs=2)
    assert [event["filters"]["volume"] for event in player.events.named("FiltersChange")] == [0.25, 1.0, 1.0, 1.0]


async def test_a_slider_that_is_dragged_glides(node: Node, shelf: Shelf) -> None:
    signal, pcm = original(2.6)
    player = await listening(node, "p", shelf.put("tone.wav", wav(signal)))
    await player.listener.wait_frames(5)
    for step in range(100):
        node.player("p").change_filters(FilterChange(volume=1.0 - step / 100))
        if step % 2:
            await player.more_frames(1)
    await player.wait_state("idle")
    assert len(player.listener.pcm) == len(padded(pcm))
    player.require_no_underrun()
    assert sharpest_bend(player.listener.pcm) < CALM
    last = samples(player.listener.pcm[-5 * FRAME_BYTES :])
    assert np.abs(last).max() == pytest.approx(16384 * 0.01, abs=2)
    levels = [int(np.abs(samples(message)).max()) for message in player.listener.messages]
    assert len(set(levels)) > 20  # it is heard on its way, too
