"""A player in moments that are rare with a real decoder: late frames, late ends, changes at the wrong time, faults."""

import gc
import logging
import random
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FunctionType, MethodType, ModuleType
from typing import Final

import pytest

from tests.support.hand_time import HandTime
from tests.support.planted_faults import audio_not_taken_in, frames_not_sent, sources_not_begun
from tests.support.player_bench import (
    BEGIN,
    END,
    HandOpener,
    HandPool,
    HandSession,
    PlayerBench,
    SleepBench,
    frame,
    playing,
    seconds,
)
from tests.support.processes import descriptors_left
from tests.support.sinks import MemoryEventClient, MemoryListener
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.filters import FilterChange, Timescale
from tonearm.core.frame import FRAME_BYTES
from tonearm.core.overlays import OverlaySettings
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.decoder.messages import DropSource, Flush, Grant, OpenSource, SeekRefused, SeekSource
from tonearm.protocol.framing import Framing


def ends(bench: PlayerBench) -> list[tuple[str, str]]:
    return [(event["track"]["info"]["title"], event["reason"]) for event in bench.events.named("TrackEnd")]


def state(bench: PlayerBench) -> str:
    return bench.player.status().state


# Start


async def test_the_clock_starts_without_a_listener_after_the_wait() -> None:
    bench = PlayerBench("a", wait_ms=500)
    bench.begin()
    bench.tick(24)
    assert bench.player.status().position_ms == 0
    bench.tick(6)
    assert bench.player.status().position_ms in range(80, 121, 20)


async def test_a_player_that_was_deleted_does_not_start_and_waits_for_no_decoder() -> None:
    bench = PlayerBench("a", wait_ms=500)
    bench.begin()
    bench.pool.is_empty = True
    bench.pool.lose()
    await bench.player.delete()
    assert bench.pool.waiting == []
    bench.pool.is_empty = False
    bench.pool.lose()
    bench.tick(100)
    assert len(bench.pool.sessions) == 1
    assert bench.events.ops == ["TrackEnd", "PlayerDelete"]
    assert bench.time.waiting_timers == 0


async def test_sound_starts_with_200_ms_here_or_the_whole_source() -> None:
    bench = PlayerBench("a")
    bench.listen()
    bench.begin(frames=9)
    bench.tick(5)
    assert len(bench.listener) == 0
    bench.decoded(1)
    bench.tick(5)
    assert len(bench.listener) == 5


# Ends


def last(bench: PlayerBench) -> None:
    """The first track ends after ten frames."""
    bench.audio(10, 0, marks=[(END, 10, 1)])


@pytest.mark.parametrize("story", ["10 last", "15 decoded last", "last 9 not-yet 1", "10 pause last not-yet play"])
async def test_an_end_is_reported_once_its_last_frame_is_sent_and_it_is_known(story: str) -> None:
    bench = playing("a")
    for word in story.split():
        match word:
            case "last":
                last(bench)
            case "decoded":
                bench.decoded(1)
            case "not-yet":
                assert ends(bench) == []
            case "pause" | "play":
                bench.player.do(getattr(Requests, word))
            case frames:
                bench.tick(int(frames))
    assert ends(bench) == [("a", "finished")]
    assert state(bench) == "idle"


@pytest.mark.parametrize("dies", [False, True])
async def test_a_track_that_waits_for_its_last_samples_does_not_wait_for_the_next_track(dies: bool) -> None:
    """Its last, partial frame would be held back for the next one, which may take long to open."""
    bench = playing("a", "b", sent=15)
    assert state(bench) == "loading"
    bench.decoded(1)
    if dies:
        bench.pool.lose()
        assert not bench.orders(Flush)
        bench.decoded(1)
    assert bench.plan.following == 2
    assert bench.orders(Flush)


async def test_a_track_that_is_short_waits_for_the_next_one_unless_that_cannot_be_opened() -> None:
    bench = PlayerBench("a", "missing")
    bench.listen()
    bench.opened(1, length_ms=100)
    bench.decoded(1)
    assert bench.plan.following == 2
    assert not bench.orders(Flush)
    await bench.settle()
    assert bench.plan.following is None
    bench.audio(0, 5, marks=[(BEGIN, 0, 1), (END, 5, 1)])
    bench.tick(5)
    assert ends(bench) == [("a", "finished"), ("missing", "loadFailed")]


@pytest.mark.parametrize("seed", range(20))
async def test_however_often_there_is_an_underrun_the_sound_goes_on_with_what_comes(seed: int) -> None:
    chance = random.Random(seed)
    bench = playing("a")
    rendered = 10
    for _ in range(50):
        # A busy machine: the clock stands still, and only some of what may be rendered comes.
        bench.time.stand_still(chance.choice((0.0, 0.0, chance.random())))
        bench.tick(chance.randrange(25))
        may_render = bench.orders(Grant)[-1].granted - rendered
        frames = chance.randint(0, may_render)
        bench.audio(rendered, frames)
        rendered += frames
    sent = len(bench.listener)
    for _ in range(10):
        frames = bench.orders(Grant)[-1].granted - rendered
        bench.audio(rendered, frames)
        rendered += frames
        bench.tick(10)
    assert len(bench.listener) - sent >= 90
    assert bench.listener.messages == [frame(number) for number in range(len(bench.listener))]


async def test_a_buffer_that_runs_dry_while_the_node_catches_up_is_told_as_the_node_being_late() -> None:
    bench = playing("a", sent=3)
    bench.time.stand_still(0.5)
    bench.tick()  # ten frames are due at once, and what the decoder sent meanwhile is not read yet
    quality = bench.player.status().quality
    assert (quality.underruns, quality.frames_left_out) == (0, 1)
    assert (bench.clock.times_left_out, bench.clock.frames_left_out) == (1, 1)
    assert not bench.services.totals.underruns
    bench.audio(10, 30)
    bench.tick(50)  # this time nothing comes, and the node is in time
    assert len(bench.listener) == 40
    assert bench.player.status().quality.underruns == bench.services.totals.underruns.total() == 1
    assert bench.clock.times_left_out == 1


async def test_what_follows_an_interrupted_source_is_opened_while_its_last_frames_are_sent() -> None:
    bench = playing("a", "b", frames=20)
    bench.tick(3)
    bench.failed(1, CONNECTION_LOST, gave_audio=True)
    bench.tick(2)
    await bench.settle()
    assert list(bench.started_at) == [1, 2]


@pytest.mark.parametrize("speed", [1.03, 0.25, 4.0])
async def test_at_another_speed_the_next_track_is_opened_ten_seconds_before_the_end_as_it_is_heard(
    speed: float,
) -> None:
    bench = SleepBench({"a": seconds(20 * speed), "b": seconds(20 * speed)}, "a", "b")
    bench.player.do(Requests.change_filters, FilterChange(effects={"timescale": Timescale(speed=speed)}))
    listener = bench.listen()
    for after_s, opened in ((9.5, ["a"]), (1.0, ["a", "b"])):
        await bench.run(after_s)
        assert bench.shelf.opened == opened
        last = bench.heard(listener)[-1].pieces[-1]
        assert bench.position_ms == pytest.approx((last.sample + last.samples) / 48, abs=1)
    bench.player.do(Requests.change_filters, FilterChange(resets=True))
    rates = [event["positionRate"] for event in bench.events.named("PlayerUpdate")]
    assert (rates[0], rates[-1]) == (speed, 1.0)


# Skips and other changes


async def test_pause_and_play_many_times_does_not_hasten_the_sound() -> None:
    bench = playing("a", frames=100)
    for _ in range(100):
        bench.player.do(Requests.pause)
        bench.player.do(Requests.play)
        bench.time.forward(0.005)
    assert len(bench.listener) <= 26


async def test_changes_faster_than_the_decoder_answers_are_heard_all_the_time() -> None:
    bench = playing("a")
    asked = bench.plan
    for number in range(1, 200):
        bench.player.do(Requests.change_filters, FilterChange(volume=number / 100))
        bench.time.forward(0.01)
        if number % 3 == 0:  # an answer takes 30 ms, and is void when there is a newer plan by then
            if asked is bench.plan:
                bench.audio(asked.at_frame, 12, voice=number)
            asked = bench.plan
    assert len(bench.listener) >= 95
    assert len({message[-1] for message in bench.listener.messages}) > 20


# Deaths of the decoder


async def test_a_player_without_a_decoder_takes_all_orders() -> None:
    bench = playing("a", "b", "c", sent=4)
    bench.pool.is_empty = True
    bench.pool.lose()
    bench.tick(10)
    assert len(bench.listener) == 10
    for order in (Requests.pause, Requests.skip, Requests.play, Requests.skip):
        bench.player.do(order)
    bench.player.do(Requests.change_filters, FilterChange(volume=0.5))
    bench.player.do(Requests.enqueue, make_track("d"))
    bench.tick(10)
    assert bench.player.status().quality.decoder_process_id is None
    bench.pool.is_empty = False
    await bench.lose()
    assert bench.started_at == {3: 0}
    assert (bench.plan.switch_to, bench.plan.filters.volume) == (3, 0.5)
    bench.audio(10, 10, 3, position=0, marks=[(BEGIN, 10, 3)], voice=3)
    bench.tick(5)
    assert bench.listener.messages[10:] == [frame(number, 3) for number in range(10, 15)]


async def test_a_file_whose_only_descriptor_was_given_away_is_opened_again() -> None:
    bench = PlayerBench("a")
    with descriptors_left(1):
        await bench.settle()
    for _ in range(2):
        assert [order.has_descriptor for order in bench.orders(OpenSource)] == [True]
        await bench.lose()


async def test_a_source_that_cannot_be_opened_again_ends_after_what_is_here() -> None:
    bench = playing("a", "b", sent=4)
    bench.pool.lose()
    bench.failed(1, FILE_MISSING)
    bench.tick(5)
    assert ends(bench) == []
    bench.tick(3)
    assert len(bench.listener) == 10
    assert ends(bench) == [("a", "loadFailed")]
    assert bench.plan.switch_to == 2


# Faults


def exceptions(bench: PlayerBench, kind: str = "Track") -> list[str]:
    return [event["error"]["code"] for event in bench.events.named(f"{kind}Exception")]


async def require_next_to_play(bench: PlayerBench) -> None:
    await bench.settle()
    assert ends(bench) == [("a", "loadFailed")]
    assert exceptions(bench) == ["internal"]
    assert bench.started_at[2] == 0
    bench.begin(2, voice=2)
    bench.tick(5)
    assert bench.listener.messages[-1][-1] == 2


@pytest.mark.parametrize("fault", [frames_not_sent, audio_not_taken_in])
async def test_an_error_of_our_own_ends_the_track_and_not_the_player(
    fault: Callable[[], AbstractContextManager[None]], caplog: pytest.LogCaptureFixture
) -> None:
    bench = playing("a", "b", sent=2)
    with fault():
        bench.audio(10, 5)
        bench.tick(1)
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR]
    await require_next_to_play(bench)


async def test_an_error_after_a_source_was_opened_ends_its_track_at_once() -> None:
    with sources_not_begun():
        bench = PlayerBench("a")
        bench.listen()
        await bench.settle()
    assert ends(bench) == [("a", "loadFailed")]


async def test_after_an_error_in_the_decoder_what_is_here_is_heard_and_the_next_track_plays_without_overlays() -> None:
    bench = playing("a", "b", sent=2)
    bench.player.add_overlays((make_track("clip"), OverlaySettings()))
    await bench.settle()
    first = bench.session
    bench.session_failed(1)
    await bench.settle()
    assert bench.session is not first
    assert bench.started_at == {}  # neither is tried again
    assert exceptions(bench, "Overlay") == ["internal"]
    assert ends(bench) == []
    bench.tick(9)
    assert len(bench.listener.messages) == 10
    await require_next_to_play(bench)


async def test_an_error_in_the_decoder_at_the_next_track_spares_the_one_that_sounds() -> None:
    bench = playing("a", "b", "c", frames=20)
    bench.decoded(1)  # so that the next one is opened
    await bench.settle()
    bench.session_failed(2)
    await bench.settle()
    assert list(bench.started_at) == [1]
    bench.audio(20, 5, 1, marks=[(END, 25, 1)])
    bench.tick(26)
    assert ends(bench) == [("a", "finished"), ("b", "loadFailed")]
    await bench.settle()
    assert 3 in bench.started_at


@pytest.mark.parametrize("suspects", [(1, 77), (0,)], ids=["on its source", "on its session"])
async def test_a_process_that_ended_at_work_counts_against_its_track(suspects: tuple[int, ...]) -> None:
    bench = playing("a")
    bench.pool.lose(suspects)
    assert bench.suspects.uris == ["http://radio.example/a.mp3"]
    bench.player.do(Requests.stop)
    sessions = len(bench.pool.sessions)
    bench.pool.lose((0,))  # nothing to be counted: it must not end the next one, too
    assert len(bench.pool.sessions) == sessions


# Silence, log, memory


async def test_a_stream_is_fed_with_silence_while_nothing_plays() -> None:
    bench = PlayerBench("a")
    stream = MemoryListener(Framing.RAW, wants_silence=True)
    bench.player.attach(stream)
    bench.tick(5)
    bench.begin()
    bench.tick(4)
    bench.player.do(Requests.pause)
    bench.tick(5)
    assert len(stream) == 14
    assert stream.messages[5:9] == [frame(number) for number in range(4)]
    assert not any(b"".join(stream.messages[:5] + stream.messages[9:]))


async def test_a_slow_listener_gets_the_last_frames_although_no_others_follow() -> None:
    bench = playing("a")
    bench.listener.takes = 0
    bench.tick(5)
    last(bench)
    bench.tick(20)
    assert len(bench.listener) == 1
    bench.listener.takes = None
    bench.tick(1)
    assert bench.listener.messages == [frame(number) for number in range(10)]
    assert bench.clock.is_idle


async def test_a_listener_that_takes_nothing_while_nothing_is_sent_is_closed_and_the_log_and_the_figures_say_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = playing("a", sent=5)
    bench.listener.takes = 0
    bench.tick(3)
    bench.player.do(Requests.pause)
    with caplog.at_level(logging.INFO):
        bench.tick(600)
    assert ([code for code, _ in bench.listener.closed], bench.listener.aborted) == ([1013], 1)
    assert bench.clock.is_idle
    assert "player p: a listener is closed (pcm): nothing was read for 10 seconds" in caplog.text
    quality = bench.player.status().quality
    assert (quality.closed_too_slow, quality.closed_failed) == (1, 0)


async def test_the_log_tells_of_tracks_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        bench = PlayerBench("a?token=secret", "missing?token=secret", "c")
        bench.start()
        bench.tick(2)
        bench.player.do(Requests.skip)
        await bench.settle()
    levels = [record.levelname for record in caplog.records if ": track " in record.getMessage()]
    assert levels == ["INFO", "DEBUG", "WARNING", "DEBUG"]  # starts, ends; fails, ends
    assert "track failed (file_missing): http://radio.example/missing" in caplog.text
    assert "secret" not in caplog.text


async def test_a_player_that_was_deleted_keeps_no_sound() -> None:
    """Also while a request or a connection still holds it."""
    bench = PlayerBench("a")
    bench.start(10)
    tracemalloc.start()
    try:
        bench.audio(10, 40)
        bench.tick(3)
        held_bytes = tracemalloc.get_traced_memory()[0]
        await bench.player.delete()
        assert held_bytes - tracemalloc.get_traced_memory()[0] > 30 * FRAME_BYTES
    finally:
        tracemalloc.stop()


async def test_hundreds_of_tracks_leave_nothing_behind() -> None:
    tracks = {"a": seconds(0.3), "broken": seconds(0.3, breaks=True), "missing": seconds(0)}
    bench = SleepBench(tracks, "a")
    bench.listen()
    kept: list[int] = []
    for number in range(301):
        bench.player.do(Requests.enqueue, bench.new_track([*tracks][number % 3]))
        await bench.run(0.4)
        if number % 7 == 0:
            bench.player.do(Requests.skip)
        if number in (150, 300):
            kept.append(count_reachable(bench.player))
    assert len(bench.events.named("TrackEnd")) > 300
    assert kept[1] - kept[0] < 10, "what was kept by source is gone with it"


NOT_ITS_OWN: Final = (
    *(type, ModuleType, FunctionType, MethodType, logging.Logger),
    *(HandOpener, HandPool, HandSession, HandTime, MemoryListener, MemoryEventClient, SleepBench),
)


def count_reachable(start: object) -> int:
    """How many objects this one keeps. What modules, classes, functions, the log and the bench keep is not its own."""
    found: dict[int, object] = {}
    waiting = [start]
    while waiting:
        one = waiting.pop()
        if id(one) not in found and not isinstance(one, NOT_ITS_OWN):
            found[id(one)] = one
            waiting += gc.get_referents(one)
    return len(found)


# Seeks


async def test_of_a_track_in_a_loop_the_source_that_sounds_goes_on_and_the_one_opened_ahead_is_closed() -> None:
    """Both are of the same track, and only one can be the new source."""
    bench = PlayerBench("a")
    bench.player.do(Requests.set_loop, LoopMode.TRACK)
    bench.start(10)
    bench.tick(3)
    bench.decoded(1)
    await bench.settle()
    bench.opened(2)
    bench.player.seek(30_000)
    bench.player.seek(20_000)
    await bench.settle()
    seeks = [(seek.source, seek.new_source, seek.start_sample) for seek in bench.orders(SeekSource)]
    assert seeks == [(1, 3, 1_440_000), (3, 4, 960_000)]
    assert [drop.source for drop in bench.orders(DropSource)] == [2]
    assert (bench.started_at, bench.plan.switch_to) == ({1: 0, 2: 0}, 4)


async def test_a_seek_in_a_station_that_is_loading_fails() -> None:
    bench = PlayerBench("a")
    bench.listen()
    bench.player.seek(60_000)
    await bench.settle()
    source = max(bench.started_at)
    bench.session.say(SeekRefused(bench.session.id, source, FILE_MISSING))
    bench.opened_live(source)
    (failed,) = bench.events.named("SeekFailed")
    assert (failed["code"], failed["position"], bench.player.status().position_ms) == ("not_seekable", 0, 0)
