"""The time of day jumps: nothing that is heard follows it."""

import time

import pytest

from tests.support.node_in_process import listening
from tests.support.shelf import Shelf
from tonearm.core.frame import FRAME_MS
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node


@pytest.mark.parametrize("jump_s", [-3600, 3600])
async def test_a_jump_of_the_time_of_day_is_seen_in_events_and_not_heard(
    node: Node, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, jump_s: int
) -> None:
    uri, pcm = shelf.song(1.2)
    player = await listening(node, "p", uri)
    await player.listener.wait_frames(20)
    time_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: time_ns() + jump_s * 1_000_000_000)
    await player.more_frames(20)
    node.player("p").do(Requests.pause)
    assert player.state["position"] == len(player.listener) * FRAME_MS
    node.player("p").do(Requests.play)
    await player.wait_state("idle")
    assert player.listener.pcm == pcm
    start, paused = player.events.named("TrackStart")[0], player.events.named("PlayerPause")[0]
    assert (paused["time"] - start["time"]) / 1000 == pytest.approx(jump_s, abs=600)
