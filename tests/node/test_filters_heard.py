"""The volume while somebody drags its slider."""

import numpy as np
import pytest

from tests.support.audio_files import Signal, pcm_of, tone, wav
from tests.support.node_in_process import listening, padded
from tests.support.shelf import Shelf, samples
from tonearm.core.filters import FilterChange
from tonearm.core.frame import FRAME_BYTES
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node


def original(seconds: float) -> tuple[Signal, bytes]:
    signal = tone(1000, seconds)
    return signal, pcm_of(signal)


def sharpest_bend(pcm: bytes) -> int:
    """The largest second difference: 281 for this tone, thousands at a click."""
    return int(np.abs(np.diff(samples(pcm).astype(np.int32), n=2, axis=0)).max())


CALM = 420


async def test_a_slider_that_is_dragged_glides(node: Node, shelf: Shelf) -> None:
    signal, pcm = original(2.6)
    player = await listening(node, "p", shelf.put("tone.wav", wav(signal)))
    await player.listener.wait_frames(5)
    for step in range(100):
        node.player("p").do(Requests.change_filters, FilterChange(volume=1.0 - step / 100))
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
