"""A player that nobody listens to: when it sleeps, where it is meanwhile, and what is heard of it afterwards."""

import itertools
from dataclasses import replace

import pytest

from tests.support.planted_faults import frames_not_passed
from tests.support.sinks import MemoryListener
from tests.support.sleep_bench import SleepBench, seconds
from tests.support.tracks import make_track
from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.filters import FilterChange, Timescale
from tonearm.core.frame import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import GRANT_FRAMES
from tonearm.player.sleep import Asleep, Circumstances

KNOWN = make_track("a").with_facts(SourceFacts(60_000, is_seekable=True, is_length_exact=True)).info
WITHOUT_LISTENERS = Circumstances(
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
PAUSED = WITHOUT_LISTENERS._replace(is_running=False)


@pytest.mark.parametrize(
    ("circumstances", "allow_sleep"),
    [
        (WITHOUT_LISTENERS, True),
        (PAUSED, True),
        (PAUSED._replace(has_begun=False), True),
        (PAUSED._replace(info=replace(KNOWN, is_length_exact=False)), True),
        (PAUSED._replace(has_audio=False), False),
        (PAUSED._replace(has_listeners=True), False),
        (PAUSED._replace(info=replace(KNOWN, is_seekable=False)), False),
        (WITHOUT_LISTENERS._replace(has_listeners=True), False),
        (WITHOUT_LISTENERS._replace(has_begun=False), False),
        (WITHOUT_LISTENERS._replace(has_audio=False), False),
        (WITHOUT_LISTENERS._replace(source=None), False),
        (WITHOUT_LISTENERS._replace(has_overlays=True), False),
        (WITHOUT_LISTENERS._replace(is_opening_next=True), False),
        (WITHOUT_LISTENERS._replace(info=replace(KNOWN, is_seekable=False)), False),
        (WITHOUT_LISTENERS._replace(info=replace(KNOWN, is_stream=True)), False),
    ],
)
def test_a_player_may_sleep_when_nobody_listens_and_all_that_comes_is_known(
    circumstances: Circumstances, allow_sleep: bool
) -> None:
    assert circumstances.allow_sleep is allow_sleep


@pytest.mark.parametrize(("position_ms", "is_worth_it"), [(0, True), (45_000, True), (45_020, False), (59_000, False)])
def test_the_last_fifteen_seconds_are_not_worth_a_sleep(position_ms: int, is_worth_it: bool) -> None:
    assert WITHOUT_LISTENERS._replace(position_ms=position_ms).is_worth_sleeping is is_worth_it
    assert PAUSED._replace(position_ms=position_ms).is_worth_sleeping


def test_by_an_estimate_the_last_minute_is_not_slept_through() -> None:
    guessed = WITHOUT_LISTENERS._replace(info=replace(KNOWN, is_length_exact=False), open_from_ms=150_000)
    assert guessed._replace(position_ms=85_000).is_worth_sleeping
    assert not guessed._replace(position_ms=86_000).is_worth_sleeping
    assert [guessed._replace(position_ms=position_ms).is_near_end for position_ms in (89_999, 90_000)] == [False, True]


@pytest.mark.parametrize(
    ("now_s", "frames"), [(99.0, 0), (99.998, 0), (99.9995, 1), (100.0, 1), (100.0189, 1), (100.02, 2), (200.0, 5001)]
)
def test_a_frame_passes_every_20_ms(now_s: float, frames: int) -> None:
    assert Asleep(1, 100.0).passed_frames(now_s) == frames
    assert Asleep(1, 100.0 + frames * FRAME_S).passed_frames(now_s) == 0
    assert Asleep(1, None).passed_frames(now_s) == 0


@pytest.mark.parametrize(("position_ms", "is_near"), [(0, False), (49_999, False), (50_000, True), (60_000, True)])
def test_ten_seconds_before_its_end_a_source_is_opened(position_ms: int, is_near: bool) -> None:
    assert WITHOUT_LISTENERS._replace(position_ms=position_ms).is_near_end is is_near


def began_to_hear(bench: SleepBench, listener: MemoryListener, step: int = FRAME_SAMPLES) -> int:
    """From which sample on somebody heard the track without a gap, up to where the player is."""
    samples = [content.pieces[0].sample for content in bench.heard(listener)]
    assert samples == [samples[0] + step * number for number in range(len(samples))]
    assert samples[-1] + step == bench.position_ms * 48
    return samples[0]


PACES = [
    pytest.param(Timescale(), 1.0, id="as it is"),
    pytest.param(Timescale(speed=1.25), 1.25, id="faster"),
    pytest.param(Timescale(speed=0.5), 0.5, id="slower"),
    pytest.param(Timescale(speed=1.25, rate=2.0), 2.5, id="both"),
    pytest.param(Timescale(pitch=1.5), 1.0, id="higher"),
]


@pytest.mark.parametrize(("timescale", "pace"), PACES)
async def test_a_sleeping_player_has_no_decoder_and_goes_on_at_its_speed_for_who_listens_then(
    timescale: Timescale, pace: float
) -> None:
    bench = SleepBench({"a": seconds(120)}, "a")
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
    assert [op for op in bench.events.ops if op != "FiltersChange"] == ["TrackStart", *["PlayerUpdate"] * 7]
    updates = [event["position"] for event in bench.events.named("PlayerUpdate")[-6:]]
    assert updates == [5_000 * pace * number for number in range(1, 7)]
    listener = bench.listen()
    await bench.run(0.2)
    step = round(FRAME_SAMPLES * pace)
    # What was missed is what passed while the source was opened.
    assert 0 < began_to_hear(bench, listener, step) - after.position_ms * 48 <= 4 * step
    # The clock's next tick may be some ms later than the next frame was.
    assert bench.position_ms - after.position_ms == pytest.approx(200 * pace, abs=20 * pace)
    assert bench.player.status().quality.underruns == 0


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


async def test_the_last_track_is_opened_again_only_a_second_before_its_end() -> None:
    bench = SleepBench({"a": seconds(60), "b": seconds(30)}, "a", has_files=True)
    await bench.run(61)
    end = bench.events.named("TrackEnd")[0]
    assert (end["reason"], end["position"], end["playedMs"]) == ("finished", 60_000, 60_000)
    start = bench.events.named("TrackStart")[0]
    assert end["time"] - start["time"] == pytest.approx(60_000, abs=20)
    assert bench.player.status().state == "idle"
    assert len(bench.pool.contents) < 2 * 50 + GRANT_FRAMES
    listener = bench.listen()
    bench.player.do(Requests.enqueue, bench.new_track("b"))
    await bench.run(2)
    assert bench.heard(listener)[0].pieces[0].sample == 0
    assert bench.title == "b"


async def test_a_listener_who_leaves_and_comes_back_at_once_finds_the_player_awake() -> None:
    bench = SleepBench({"a": seconds(60)}, "a")
    leave = bench.player.attach(MemoryListener())
    await bench.run(5)
    leave()
    await bench.run(1.5)
    assert not bench.is_asleep
    bench.listen()
    await bench.run(5)
    assert not bench.is_asleep
    assert bench.shelf.opened == ["a"]


@pytest.mark.parametrize("change", ["skip", "seek"])
async def test_a_player_sleeps_again_after_a_change_in_its_pause(change: str) -> None:
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", "b")
    await bench.run(6.5)
    bench.player.do(Requests.pause)
    await bench.run(3)
    if change == "skip":
        bench.player.do(Requests.skip)
    else:
        bench.player.seek(30_000)
    await bench.run(5)
    assert bench.is_asleep
    listener = bench.listen()
    await bench.run(1)
    assert not bench.is_asleep
    assert not listener.messages
    bench.player.do(Requests.play)
    await bench.run(1)
    assert bench.heard(listener)[0].pieces[0].sample == (0 if change == "skip" else 30_000 * 48)
    assert bench.position_ms == pytest.approx(1000 if change == "skip" else 31_000, abs=60)
    assert len(bench.events.named("TrackStart")) == (2 if change == "skip" else 1)
    assert bench.player.status().quality.underruns == 0


async def test_after_a_sleep_in_a_pause_the_position_stands_until_there_is_audio() -> None:
    bench = SleepBench({"a": seconds(60)}, "a")
    await bench.run(6.5)
    bench.player.do(Requests.pause)
    await bench.run(5)
    position_ms = bench.position_ms
    bench.pool.opening_s = 3.0
    listener = bench.listen()
    bench.player.do(Requests.play)
    await bench.run(2)
    assert (bench.player.status().state, bench.position_ms) == ("loading", position_ms)
    await bench.run(3)
    assert bench.heard(listener)[0].pieces[0].sample == position_ms * 48
    assert bench.player.status().quality.underruns == 0


async def test_a_source_that_fails_in_a_pause_is_told_of_when_the_player_plays_on() -> None:
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", "b")
    await bench.run(6.5)
    bench.player.do(Requests.pause)
    await bench.run(5)
    assert bench.is_asleep
    sound = bench.shelf.tracks.pop("a")
    leave = bench.player.attach(MemoryListener())
    await bench.run(5)
    assert not bench.events.named("TrackException")
    leave()
    await bench.run(5)
    assert bench.is_asleep
    bench.shelf.tracks["a"] = sound
    leave = bench.player.attach(MemoryListener())
    await bench.run(1)
    bench.player.do(Requests.play)
    await bench.run(1)
    assert (bench.title, bench.events.named("TrackException")) == ("a", [])
    bench.player.do(Requests.pause)
    leave()
    await bench.run(5)
    del bench.shelf.tracks["a"]
    bench.listen()
    await bench.run(1)
    bench.player.do(Requests.play)
    await bench.run(1)
    assert [event["error"]["code"] for event in bench.events.named("TrackException")] == ["file_missing"]
    assert bench.title == "b"


async def test_a_source_that_takes_long_to_open_lets_the_player_load_like_any_other() -> None:
    bench = SleepBench({"a": seconds(60)}, "a")
    await bench.run(10)
    position_ms = bench.position_ms
    bench.pool.opening_s = 5.0
    listener = bench.listen()
    await bench.run(4)
    status = bench.player.status()
    assert (status.state, status.position_ms) == ("loading", position_ms + 2000)
    assert status.quality.underruns == 1
    await bench.run(2)
    assert bench.player.status().state == "playing"
    assert bench.heard(listener)[0].pieces[0].sample == (position_ms + 2000) * 48


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
    assert bench.said[-1]["op"] == "PlayerUpdate"
    if is_heard:
        bench.listen()
    await bench.run(3)
    ends = bench.events.named("TrackEnd")
    assert [(event["track"]["info"]["title"], event["reason"]) for event in ends] == [("a", reason)]
    assert [event["error"]["code"] for event in bench.events.named("TrackException")] == failures
    assert (bench.title, bench.player.status().state) == ("b", "playing")


async def test_filters_that_change_while_the_source_is_opened_shift_nothing() -> None:
    bench = SleepBench({"a": seconds(60)}, "a")
    await bench.run(10)
    bench.pool.opening_s = 0.1
    position_ms = bench.position_ms
    listener = bench.listen()
    await bench.run(0.06)
    bench.player.do(Requests.change_filters, FilterChange(volume=0.5))
    await bench.run(2)
    assert {content.filters.volume for content in bench.heard(listener)} == {0.5}
    began_to_hear(bench, listener)
    assert bench.position_ms == pytest.approx(position_ms + 2060, abs=20)


@pytest.mark.parametrize("after_s", [0.02, 0.12])
async def test_a_listener_who_comes_while_the_source_is_opened_for_the_next_one_hears_it(after_s: float) -> None:
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", "b")
    bench.pool.opening_s = 0.1
    while bench.position_ms < 50_000:
        await bench.run(0.02)
    await bench.run(after_s)
    listener = bench.listen()
    await bench.run(0.3)
    began_to_hear(bench, listener)
    assert len(listener) >= 8


@pytest.mark.parametrize("after_s", [0.02, 0.04])
async def test_a_skip_while_the_source_is_opened_takes_nothing_from_the_next_track(after_s: float) -> None:
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", "b")
    await bench.run(10)
    bench.pool.opening_s = 0.1
    listener = bench.listen()
    await bench.run(after_s)
    bench.player.do(Requests.skip)
    await bench.run(2)
    assert began_to_hear(bench, listener) == 0


async def test_an_error_in_its_sleep_ends_the_track_and_reaches_nobody_who_asks_for_its_state() -> None:
    bench = SleepBench({"a": seconds(120), "b": seconds(120)}, "a", "b")
    await bench.run(6)
    assert bench.is_asleep
    with frames_not_passed():
        assert bench.title == "b"
    assert bench.events.named("TrackException")[0]["error"]["code"] == "internal"
    await bench.run(1)
    assert bench.player.status().state == "playing"


async def test_a_player_that_is_deleted_in_its_sleep_leaves_no_timer() -> None:
    bench = SleepBench({"a": seconds(60)}, "a")
    await bench.run(10)
    await bench.close()
    said = len(bench.said)
    bench.time.forward(120)
    assert len(bench.said) == said
    assert [event["op"] for event in bench.said[-2:]] == ["TrackEnd", "PlayerDelete"]


async def test_a_seek_while_asleep_moves_the_player_and_lets_it_sleep_again() -> None:
    bench = SleepBench({"a": seconds(100)}, "a")
    await bench.run(30)
    assert bench.is_asleep
    bench.player.seek(5_000)
    assert bench.position_ms == 5_000
    await bench.run(1)
    assert bench.position_ms == pytest.approx(6_000, abs=100)
    await bench.run(4)
    assert bench.is_asleep
    position_ms = bench.position_ms
    assert position_ms == pytest.approx(10_000, abs=100)
    listener = bench.listen()
    await bench.run(1)
    assert 0 <= began_to_hear(bench, listener) - position_ms * 48 <= 4 * FRAME_SAMPLES
    assert bench.events.ops.count("TrackStart") == 1


async def test_a_part_of_a_file_sleeps_until_shortly_before_its_own_end() -> None:
    bench = SleepBench({"a": seconds(300), "b": seconds(60)}, "a#t=100,140", "b#t=30")
    await bench.run(5)
    assert bench.is_asleep
    assert bench.position_ms == pytest.approx(105_000, abs=100)
    await bench.run(24)
    assert bench.is_asleep
    assert bench.shelf.opened == ["a"]
    await bench.run(10)
    assert not bench.is_asleep
    listener = bench.listen()
    await bench.run(4)
    assert bench.joints(listener) == [(140 * SAMPLE_RATE_HZ, 30 * SAMPLE_RATE_HZ)]
    end = bench.events.named("TrackEnd")[0]
    assert (end["reason"], end["playedMs"]) == ("finished", 40_000)


async def test_a_player_that_may_fade_at_any_skip_sleeps_too_while_nobody_hears_it() -> None:
    """With a listener the next track is open, and fades in at a skip; without one it need not be."""
    bench = SleepBench({"a": seconds(60), "b": seconds(60), "c": seconds(60)}, "a", "b", "c")
    bench.player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=8000, on_skip=True))
    await bench.run(3)
    assert (bench.is_asleep, bench.shelf.opened) == (True, ["a"])
    leave = bench.player.attach(MemoryListener())
    await bench.run(5)
    assert (bench.is_asleep, bench.shelf.opened) == (False, ["a", "a", "b"])
    bench.player.do(Requests.skip)
    await bench.run(1)
    assert (bench.title, bench.shelf.opened) == ("b", ["a", "a", "b", "c"])
    leave()
    await bench.run(20)
    assert (bench.is_asleep, bench.shelf.opened) == (True, ["a", "a", "b", "c"])
    listener = bench.listen()
    await bench.run(35)
    assert bench.joints(listener) == [(52 * SAMPLE_RATE_HZ, 0)]
    assert bench.player.status().quality.underruns == 0


async def test_known_files_in_a_loop_are_slept_through_but_for_some_seconds() -> None:
    """Each second awake is decoded. Joins, openings and times are as ever."""
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", "b", has_files=True)
    bench.player.do(Requests.set_loop, LoopMode.QUEUE)
    await bench.run(170)  # all have been opened once
    rendered = len(bench.pool.contents)
    opened = len(bench.shelf.opened)
    await bench.run(120)
    assert len(bench.shelf.opened) - opened == 4  # both at each turn
    assert len(bench.pool.contents) - rendered < 2 * 2 * 50
    starts = [event["time"] for event in bench.events.named("TrackStart")]
    assert [later - before for before, later in itertools.pairwise(starts)] == pytest.approx([60_000] * 4, abs=20)
    assert bench.player.status().quality.underruns == 0


async def test_a_next_track_that_is_not_known_is_opened_as_early_as_ever() -> None:
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", has_files=True)
    bench.player.do(Requests.set_loop, LoopMode.TRACK)
    await bench.run(111)
    assert bench.is_asleep  # 9 s before the end
    bench.player.do(Requests.set_loop, LoopMode.NONE)
    bench.player.do(Requests.enqueue, bench.new_track("b"))
    await bench.run(0.1)
    assert bench.shelf.opened[-1] == "b"
    await bench.run(15)
    assert bench.title == "b"
    assert bench.player.status().quality.underruns == 0


async def test_a_part_that_joins_another_track_says_its_own_position_from_its_first_frame_on() -> None:
    bench = SleepBench({"a": seconds(5), "b": seconds(100)}, "a", "b#t=30")
    bench.listen()
    while bench.title == "a":
        await bench.run(0.02)
    assert bench.position_ms == pytest.approx(30_000, abs=40)
    await bench.run(0.1)
    assert bench.position_ms == pytest.approx(30_100, abs=40)


@pytest.mark.parametrize("change", ["enqueue", "loop", "remove"])
async def test_a_next_track_that_changes_in_its_sleep_is_opened_only_when_the_player_wakes(change: str) -> None:
    """A listener had the next track opened, for a fade at a skip, and has left."""
    bench = SleepBench({name: seconds(600) for name in "abc"}, "a", "b", "c")
    bench.player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=8000, on_skip=True))
    leave = bench.player.attach(MemoryListener())
    await bench.run(4)
    leave()
    await bench.run(3)
    assert bench.is_asleep
    match change:
        case "enqueue":
            bench.player.do(Requests.enqueue, bench.new_track("c"), index=0)
        case "loop":
            bench.player.do(Requests.set_loop, LoopMode.TRACK)
        case _:
            bench.player.do(Requests.remove, bench.player.queue.tracks[0].id)
    await bench.run(100)
    assert bench.is_asleep
    rendered, position_ms = len(bench.pool.contents), bench.position_ms
    listener = bench.listen()
    await bench.run(0.3)
    assert 0 <= began_to_hear(bench, listener) - position_ms * 48 <= 8 * FRAME_SAMPLES
    assert len(bench.pool.contents) - rendered < 100
    assert bench.player.status().quality.underruns == 0


async def test_a_listener_hears_the_whole_crossfade_of_a_player_that_slept() -> None:
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, "a", "b")
    bench.player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=8000))
    await bench.run(30)
    assert bench.is_asleep
    listener = bench.listen()
    await bench.run(60)
    assert bench.joints(listener) == [(52 * SAMPLE_RATE_HZ, 0)]
