"""A player that nobody listens to: when it sleeps, where it is meanwhile, and what is heard of it afterwards."""

import itertools
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.support.planted_faults import frames_not_passed
from tests.support.player_bench import SleepBench, seconds
from tests.support.sinks import MemoryListener
from tests.support.tracks import make_track
from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.filters import FilterChange, Timescale
from tonearm.core.frame import FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.core.overlays import OverlaySettings
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import GRANT_FRAMES
from tonearm.player.sleep import Circumstances

KNOWN: Final = make_track("a").with_facts(SourceFacts(60_000, is_seekable=True, is_length_exact=True)).info
GUESSED: Final = replace(KNOWN, is_length_exact=False)
WITHOUT_LISTENERS: Final = Circumstances(
    source=1,
    info=KNOWN,
    position_ms=0,
    end_ms=60_000,
    open_from_ms=50_000,
    frames_until_update=250,
    has_audio=True,
    has_begun=True,
    has_listeners=False,
    is_running=True,
)
PAUSED: Final = {"is_running": False}


@pytest.mark.parametrize(
    ("changes", "sleeps"),
    [
        ({}, True),
        ({"position_ms": 45_000}, True),
        ({"position_ms": 45_020}, False),
        ({"info": GUESSED, "open_from_ms": 150_000, "position_ms": 85_000}, True),
        ({"info": GUESSED, "open_from_ms": 150_000, "position_ms": 86_000}, False),
        ({"has_listeners": True}, False),
        ({"has_begun": False}, False),
        ({"has_audio": False}, False),
        ({"source": None}, False),
        ({"has_overlays": True}, False),
        ({"is_opening_next": True}, False),
        ({"info": replace(KNOWN, is_seekable=False)}, False),
        ({"info": replace(KNOWN, is_stream=True)}, False),
        ({**PAUSED, "has_begun": False, "info": GUESSED, "position_ms": 59_000}, True),
        ({**PAUSED, "has_audio": False}, False),
        ({**PAUSED, "has_listeners": True}, False),
        ({**PAUSED, "info": replace(KNOWN, is_seekable=False)}, False),
    ],
)
def test_a_player_sleeps_when_nobody_listens_and_all_that_comes_in_the_next_seconds_is_known(
    changes: dict[str, Any], sleeps: bool
) -> None:
    assert WITHOUT_LISTENERS._replace(**changes).is_worth_sleeping is sleeps


def began_to_hear(bench: SleepBench, listener: MemoryListener, step: int = FRAME_SAMPLES) -> int:
    """From which sample on somebody heard the track without a gap, up to where the player is."""
    samples = [content.pieces[0].sample for content in bench.heard(listener)]
    assert samples == [samples[0] + step * number for number in range(len(samples))]
    assert samples[-1] + step == bench.position_ms * 48
    return samples[0]


@pytest.mark.parametrize(
    ("timescale", "pace"),
    [
        (Timescale(), 1.0),
        (Timescale(speed=0.5), 0.5),
        (Timescale(speed=1.25, rate=2.0), 2.5),
        (Timescale(pitch=1.5), 1.0),
    ],
)
async def test_a_sleeping_player_has_no_decoder_and_goes_on_at_its_speed_for_who_listens_then(
    timescale: Timescale, pace: float
) -> None:
    bench = SleepBench({"a": seconds(240)}, "a")
    bench.player.do(Requests.change_filters, FilterChange(effects={"timescale": timescale}))
    await bench.run(0.2)
    assert bench.is_asleep
    rendered = len(bench.pool.contents)
    assert rendered <= GRANT_FRAMES
    await bench.run(4.8)
    timers, before = bench.time.timers_set, bench.player.status()
    await bench.run(30)
    after = bench.player.status()
    assert after.position_ms - before.position_ms == 30_000 * pace
    assert after.quality.frames_sent - before.quality.frames_sent == 1500
    assert after.quality.decoder_process_id is None
    assert len(bench.pool.contents) == rendered
    assert bench.time.timers_set - timers == 6  # for a PlayerUpdate each
    updates = [event["position"] for event in bench.events.named("PlayerUpdate")]
    assert updates[-6:] == [5_000 * pace * number for number in range(1, 7)]
    listener = MemoryListener()
    leave = bench.player.attach(listener)
    await bench.run(0.2)
    step = round(FRAME_SAMPLES * pace)
    # What was missed is what passed while the source was opened.
    assert 0 < began_to_hear(bench, listener, step) - after.position_ms * 48 <= 4 * step
    # The clock's next tick may be some ms later than the next frame was.
    assert bench.position_ms - after.position_ms == pytest.approx(200 * pace, abs=20 * pace)
    assert bench.player.status().quality.underruns == 0
    leave()
    await bench.run(4)
    assert bench.is_asleep
    await bench.player.delete()
    said = len(bench.events.events)
    bench.time.forward(120)
    assert bench.events.ops[said - 2 :] == ["TrackEnd", "PlayerDelete"]


async def test_a_player_wakes_a_minute_before_an_estimated_end_to_find_the_true_one() -> None:
    bench = SleepBench({"a": seconds(150), "b": seconds(600)}, "a", "b", sleeps=False)
    bench.shelf.claims["a"] = 200 * SAMPLE_RATE_HZ
    await bench.run(125)
    assert bench.is_asleep
    await bench.run(10)
    assert not bench.is_asleep
    await bench.run(16)
    assert bench.title == "b"
    end = bench.events.named("TrackEnd")[0]
    assert (end["reason"], end["position"]) == ("finished", 150_000)
    assert bench.player.status().quality.underruns == 0


async def test_a_player_that_slept_through_a_long_standstill_of_the_node_is_at_the_end_of_its_track() -> None:
    bench = SleepBench({"a": seconds(120), "b": seconds(600)}, "a", "b")
    await bench.run(5)
    assert bench.is_asleep
    bench.events.events.clear()
    bench.time.stand_still(36_000)
    assert bench.position_ms == 120_000
    assert [event["position"] for event in bench.events.events] == [120_000]
    await bench.run(1)
    (end,) = bench.events.named("TrackEnd")
    assert (end["reason"], end["playedMs"]) == ("finished", 120_000)
    assert bench.title == "b"
    assert bench.position_ms <= 1_000


@pytest.mark.parametrize("pauses", [False, True])
async def test_a_source_that_takes_long_to_open_lets_the_player_load_and_after_a_pause_the_position_stands(
    pauses: bool,
) -> None:
    bench = SleepBench({"a": seconds(60)}, "a")
    await bench.run(6.5)
    if pauses:
        bench.player.do(Requests.pause)
    await bench.run(5)
    assert bench.is_asleep
    position_ms = bench.position_ms + (0 if pauses else 2000)
    bench.pool.opening_s = 5.0
    listener = bench.listen()
    bench.player.do(Requests.play)
    await bench.run(4)
    status = bench.player.status()
    assert (status.state, status.position_ms, status.quality.underruns) == ("loading", position_ms, not pauses)
    await bench.run(2)
    assert bench.player.status().state == "playing"
    assert bench.heard(listener)[0].pieces[0].sample == position_ms * 48


@pytest.mark.parametrize("seek_ms", [None, 10_000])
@pytest.mark.parametrize("passes_s", [0, 4])
async def test_after_a_pause_with_an_overlay_the_track_goes_on_where_it_is_asleep_or_heard(
    seek_ms: int | None, passes_s: int
) -> None:
    bench = SleepBench({"a": seconds(240), "bell": seconds(0.3)}, "a")
    await bench.run(5)
    if seek_ms is not None:
        bench.player.seek(seek_ms)
        await bench.run(3)
    bench.player.do(Requests.pause)
    await bench.run(3)
    position_ms = bench.position_ms
    assert position_ms == pytest.approx(5_000 if seek_ms is None else seek_ms + 3_000, abs=100)
    assert bench.is_asleep
    bench.player.add_overlays((bench.new_track("bell"), OverlaySettings()))
    await bench.run(3)
    assert [op for op in bench.events.ops if op.startswith("Overlay")] == ["OverlayStart", "OverlayEnd"]
    assert (bench.is_asleep, bench.position_ms) == (True, position_ms)
    if passes_s:
        bench.player.do(Requests.play)
        await bench.run(passes_s)
        assert bench.is_asleep
        assert bench.position_ms == pytest.approx(position_ms + passes_s * 1000, abs=20)
    position_ms = bench.position_ms
    listener = bench.listen()
    bench.player.do(Requests.play)
    await bench.run(0.5)
    # After a pause the position stands until there is sound; otherwise some frames pass meanwhile.
    missed_frames = began_to_hear(bench, listener) / FRAME_SAMPLES - position_ms / FRAME_MS
    assert 0 <= missed_frames <= (4 if passes_s else 0)


async def test_a_source_that_fails_in_a_pause_is_told_of_when_the_player_plays_on() -> None:
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", "b")
    await bench.run(6.5)
    bench.player.do(Requests.pause)
    await bench.run(5)
    del bench.shelf.tracks["a"]
    leave = bench.player.attach(MemoryListener())
    await bench.run(5)
    leave()
    await bench.run(5)
    assert bench.is_asleep
    bench.listen()
    await bench.run(5)
    assert not bench.events.named("TrackException")
    bench.player.do(Requests.play)
    await bench.run(1)
    assert [event["error"]["code"] for event in bench.events.named("TrackException")] == ["file_missing"]
    assert bench.title == "b"


@pytest.mark.parametrize(
    ("left_s", "is_heard", "reason", "failures"),
    [(20, True, "finished", []), (0, False, "loadFailed", ["file_missing"])],
)
async def test_a_source_that_is_shorter_or_gone_ends_where_the_player_wakes(
    left_s: int, is_heard: bool, reason: str, failures: list[str]
) -> None:
    """For a listener, or ten seconds before its end."""
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", "b")
    await bench.run(10)
    bench.shelf.tracks["a"] = seconds(left_s)
    await bench.run(38)
    assert bench.events.events[-1]["op"] == "PlayerUpdate"
    if is_heard:
        bench.listen()
    await bench.run(3)
    assert [event["reason"] for event in bench.events.named("TrackEnd")] == [reason]
    assert [event["error"]["code"] for event in bench.events.named("TrackException")] == failures
    assert (bench.title, bench.player.status().state) == ("b", "playing")


async def test_an_error_in_its_sleep_ends_the_track_and_reaches_nobody_who_asks_for_its_state() -> None:
    bench = SleepBench({"a": seconds(120), "b": seconds(120)}, "a", "b")
    await bench.run(6)
    with frames_not_passed():
        assert bench.title == "b"
    assert bench.events.named("TrackException")[0]["error"]["code"] == "internal"
    await bench.run(1)
    assert bench.player.status().state == "playing"


async def test_a_part_of_a_file_sleeps_until_shortly_before_its_own_end_and_joins_another_one() -> None:
    bench = SleepBench({"a": seconds(300), "b": seconds(60)}, "a#t=100,140", "b#t=30")
    await bench.run(5)
    assert bench.position_ms == pytest.approx(105_000, abs=100)
    await bench.run(24)
    assert bench.is_asleep
    assert bench.shelf.opened == ["a"]
    await bench.run(10)
    assert not bench.is_asleep
    listener = bench.listen()
    while bench.title == "a":
        await bench.run(0.02)
    assert bench.position_ms == pytest.approx(30_000, abs=40)
    await bench.run(0.1)
    assert bench.position_ms == pytest.approx(30_100, abs=40)
    assert bench.joints(listener) == [(140 * SAMPLE_RATE_HZ, 30 * SAMPLE_RATE_HZ)]
    end = bench.events.named("TrackEnd")[0]
    assert (end["reason"], end["playedMs"]) == ("finished", 40_000)


async def test_a_player_that_may_fade_at_any_skip_sleeps_too_while_nobody_hears_it() -> None:
    """With a listener the next track is open, and fades in at a skip; without one it need not be."""
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", "b")
    bench.player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=8000, on_skip=True))
    for _ in range(2):
        await bench.run(3)
        assert bench.is_asleep
        opened = len(bench.shelf.opened)
        leave = bench.player.attach(MemoryListener())
        await bench.run(5)
        assert (bench.is_asleep, bench.shelf.opened[opened:]) == (False, ["a", "b"])
        leave()
    bench.player.do(Requests.set_loop, LoopMode.TRACK)
    await bench.run(3)
    assert bench.is_asleep


async def test_known_files_in_a_loop_are_slept_through_but_for_some_seconds() -> None:
    """Each second awake is decoded. Joins, openings and times are as ever. One that is not known comes in between."""
    bench = SleepBench({name: seconds(60) for name in "abc"}, "a", "b", has_files=True)
    bench.player.do(Requests.set_loop, LoopMode.QUEUE)
    await bench.run(170)  # all have been opened once
    rendered = len(bench.pool.contents)
    opened = len(bench.shelf.opened)
    await bench.run(120)
    assert len(bench.shelf.opened) - opened == 4  # both at each turn
    assert len(bench.pool.contents) - rendered < 2 * 2 * 50
    starts = [event["time"] for event in bench.events.named("TrackStart")]
    assert [later - before for before, later in itertools.pairwise(starts)] == pytest.approx([60_000] * 4, abs=20)
    await bench.run(1.5)
    assert bench.is_asleep  # 8.5 s before the end
    bench.player.do(Requests.enqueue, bench.new_track("c"), index=0)
    await bench.run(0.1)
    assert bench.shelf.opened[-1] == "c"
    await bench.run(15)
    assert bench.title == "c"
    assert bench.player.status().quality.underruns == 0
