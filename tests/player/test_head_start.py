"""Streams that listen to a young player get sound ahead of its time, in time that is turned by hand."""

import pytest

from tests.support.player_bench import BEGIN, PlayerBench
from tests.support.sinks import MemoryListener
from tonearm.core.frame import FRAME_MS
from tonearm.decoder.messages import Grant

BURST_MS = 800
BURST_FRAMES = BURST_MS // FRAME_MS
KEPT_FRAMES = 15


def stream(burst_ms: int = BURST_MS) -> MemoryListener:
    """PCM, since nobody encodes here."""
    return MemoryListener(wants_silence=True, burst_ms=burst_ms)


def playing(frames: int = 60) -> PlayerBench:
    """So many frames of its track are there when the first listener comes."""
    bench = PlayerBench("a", wait_ms=60_000)
    bench.begin(frames=frames)
    return bench


def sent_frames(bench: PlayerBench) -> int:
    return bench.player.status().quality.frames_sent


@pytest.mark.parametrize("sent", [0, 12])
async def test_a_stream_of_a_new_player_has_its_burst_after_a_few_ticks_and_goes_on_as_fast_as_time_does(
    sent: int,
) -> None:
    """Or the rest of it, where something was sent before."""
    bench = playing(70)
    leave = bench.player.attach(MemoryListener() if sent else stream())
    bench.tick(sent)
    listener = stream()
    bench.player.attach(listener)
    leave()
    bench.tick(7)
    before = len(listener)
    assert before + sent in range(BURST_FRAMES, BURST_FRAMES + 8)
    assert bench.player.status().position_ms == (before + sent) * FRAME_MS
    bench.tick(10)
    assert len(listener) == before + 10
    assert [event["op"] for event in bench.events.events].count("TrackStart") == 1


@pytest.mark.parametrize("frames", [KEPT_FRAMES, 20])
async def test_nothing_runs_dry_for_it_and_frames_that_are_rendered_in_time_are_asked_for_at_once(frames: int) -> None:
    bench = playing(frames)
    bench.player.attach(stream())
    bench.tick(3)
    assert sent_frames(bench) in range(3, max(3, frames - KEPT_FRAMES + 3) + 1)
    assert bench.player.status().state == "playing"
    assert bench.orders(Grant)[-1].sent >= (3 if frames > KEPT_FRAMES else 0)
    bench.audio(frames, 40)
    bench.tick(6)
    assert sent_frames(bench) >= BURST_FRAMES


@pytest.mark.parametrize("sent", [0, 2, None])
async def test_a_live_stream_is_sent_as_it_comes_and_so_is_all_from_when_one_wants_no_burst(sent: int | None) -> None:
    bench = PlayerBench("a", wait_ms=60_000)
    if sent is None:
        bench.opened_live(1)
        bench.audio(0, 60, marks=[(BEGIN, 0, 1)])
    else:
        bench.begin(frames=60)
    bench.player.attach(stream())
    bench.tick(sent or 0)
    before = sent_frames(bench)
    assert before == 0 or before in range(3, BURST_FRAMES)
    if sent is not None:
        bench.listen()
    bench.tick(20)
    assert sent_frames(bench) == before + 20
