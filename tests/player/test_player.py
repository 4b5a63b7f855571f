"""A player in moments that are rare with a real decoder: late frames, late ends, changes at the wrong time, faults."""

import asyncio
import gc
import inspect
import logging
import random
import tracemalloc
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from operator import methodcaller
from types import FunctionType, ModuleType
from typing import Any, Final, TypeAlias

import pytest

from tests.support.hand_time import HandTime
from tests.support.planted_faults import audio_not_taken_in, broken_ticks, frames_not_sent, sources_not_begun
from tests.support.player_bench import BEGIN, END, INTERRUPTED, PlayerBench, frame, playing
from tests.support.processes import descriptors_left
from tests.support.sinks import MemoryListener
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.filters import FilterChange, Timescale
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.core.overlays import OverlaySettings
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.core.playback_state import Outcome
from tonearm.core.track import Track
from tonearm.decoder.messages import DropSource, Flush, Grant, OpenSource, Plan, SeekSource
from tonearm.protocol.framing import Framing

Step: TypeAlias = Callable[[PlayerBench], Any]
step: Final = methodcaller  # of the bench


def asked(order: Callable[..., Outcome], *given: object) -> Step:
    """What a client asks the player for."""
    return lambda bench: bench.player.do(order, *given)


def lost(bench: PlayerBench) -> None:
    bench.pool.lose()


QUIETLY: Final = asked(Requests.change_filters, FilterChange(volume=0.5))
LAST: Final = step("audio", 10, 0, marks=[(END, 10, 1)])
DEATH: Final = step("lose")
JOINING: Final = (step("decoded", 1), step("opened", 2), step("audio", 0, 5, marks=[(BEGIN, 0, 1)]))


async def done(bench: PlayerBench, *steps: Step) -> None:
    for one in steps:
        result = one(bench)
        if inspect.isawaitable(result):
            await result


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


async def test_a_player_that_was_deleted_does_not_start() -> None:
    bench = PlayerBench("a", wait_ms=500)
    bench.begin()
    await bench.player.delete()
    before = list(bench.events.ops)
    bench.tick(100)
    assert bench.events.ops == before == ["TrackEnd", "PlayerDelete"]
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([step("tick", 10), LAST], []),
        ([step("tick", 15), step("decoded", 1), LAST], []),
        ([LAST, step("tick", 9)], [step("tick", 1)]),
        ([step("tick", 10), asked(Requests.pause), LAST], [asked(Requests.play)]),
    ],
    ids=["known only after the last frame", "after an underrun", "in the tick of the last frame", "at play"],
)
async def test_an_end_is_reported_once_its_last_frame_is_sent(before: list[Step], after: list[Step]) -> None:
    bench = playing("a")
    await done(bench, *before)
    assert not after or ends(bench) == []
    await done(bench, *after)
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


@pytest.mark.parametrize(
    ("first", "length_ms"), [(make_track("a"), 100), (replace(make_track("a"), start_ms=5_000, end_ms=5_150), 60_000)]
)
async def test_a_track_that_is_short_waits_for_the_next_one(first: Track, length_ms: int) -> None:
    bench = PlayerBench(first, "b")
    bench.listen()
    bench.opened(1, length_ms=length_ms)
    bench.decoded(1)
    assert bench.plan.following == 2
    assert not bench.orders(Flush)


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
    bench = PlayerBench("a")
    bench.listen()
    bench.opened_live(1)
    bench.audio(0, 10, marks=[(BEGIN, 0, 1)])
    bench.tick(3)
    bench.time.stand_still(0.5)
    bench.tick()  # ten frames are due at once, and what the decoder sent meanwhile is not read yet
    quality = bench.player.status().quality
    assert (quality.underruns, quality.frames_left_out) == (0, 1)
    assert (bench.clock.times_left_out, bench.clock.frames_left_out) == (1, 1)
    assert not bench.totals.underruns
    bench.audio(10, 30)
    bench.tick(30)
    assert len(bench.listener) == 40
    bench.tick(20)  # this time nothing came, and the node was in time
    assert bench.player.status().quality.underruns == 1
    assert bench.totals.underruns.total() == 1
    assert bench.clock.times_left_out == 1


async def test_a_next_track_that_cannot_be_opened_is_not_waited_for() -> None:
    bench = playing("a", "missing")
    bench.decoded(1)
    assert bench.plan.following == 2
    await bench.settle()
    assert bench.plan.following is None
    bench.audio(0, 10, marks=[(BEGIN, 0, 1), (END, 10, 1)])
    bench.tick(10)
    assert ends(bench) == [("a", "finished"), ("missing", "loadFailed")]
    assert state(bench) == "failed"
    assert "loading" not in [event["state"] for event in bench.events.named("PlayerUpdate")][1:-2]


async def test_what_follows_an_interrupted_source_is_opened_while_its_last_frames_are_sent() -> None:
    bench = playing("a", "b", frames=20)
    bench.tick(3)
    bench.failed(1, CONNECTION_LOST, gave_audio=True)
    bench.tick(2)
    await bench.settle()
    assert list(bench.started_at) == [1, 2]


@pytest.mark.parametrize("speed", [1.5, 1.03, 0.25, 4.0])
async def test_at_another_speed_the_position_is_still_time_in_the_file(speed: float) -> None:
    bench = PlayerBench("a", "b")
    bench.player.do(Requests.change_filters, FilterChange(effects={"timescale": Timescale(speed=speed)}))
    assert bench.events.named("PlayerUpdate") == []
    bench.listen()
    bench.opened(1, length_ms=round(12_000 * speed))
    for first in range(0, 140, 10):
        place = round(first * FRAME_SAMPLES * speed)
        bench.audio(first, 10, position=place, marks=[(BEGIN, 0, 1)] if first == 0 else [], rate=speed)
        for _ in range(10):
            bench.tick()
            position_ms = 20 * len(bench.listener) * speed
            assert bench.player.status().position_ms == pytest.approx(position_ms, abs=1)
        await bench.settle()
        # Ten seconds before the end as it is heard.
        sent_ms = 20 * len(bench.listener)
        assert sent_ms == 2000 or list(bench.started_at) == ([1, 2] if sent_ms > 2000 else [1])
    updates = bench.events.named("PlayerUpdate")
    assert updates[0]["positionRate"] == speed
    bench.player.do(Requests.change_filters, FilterChange(resets=True))
    assert bench.events.named("PlayerUpdate")[len(updates) :][0]["positionRate"] == 1.0


# Skips and other changes


async def test_pause_and_play_many_times_does_not_hasten_the_sound() -> None:
    bench = playing("a", frames=100)
    for _ in range(100):
        bench.player.do(Requests.pause)
        bench.player.do(Requests.play)
        bench.time.forward(0.005)
    assert len(bench.listener) <= 26


# Filters


async def test_changes_faster_than_the_decoder_answers_are_heard_all_the_time() -> None:
    """From several clients at once, while each answer takes longer than the next change."""
    bench = playing("a")
    unanswered: deque[Plan] = deque()
    seen = len(bench.orders(Plan))
    heard: set[int] = set()
    for step in range(1, 200):
        bench.player.do(Requests.change_filters, FilterChange(volume=step / 100))
        bench.time.forward(0.01)
        plans = bench.orders(Plan)
        unanswered.extend(plans[seen:])
        seen = len(plans)
        if step % 3 == 0 and unanswered:  # 30 ms for each answer
            plan = unanswered.popleft()
            voice = round(plan.filters.volume * 100)
            bench.audio(plan.at_frame, 12, epoch=plan.epoch, voice=voice % 256)
    assert len(bench.listener) >= 95
    heard = {message[-1] for message in bench.listener.messages}
    assert len(heard) > 20
    assert "loading" not in [event["state"] for event in bench.events.named("PlayerUpdate")]


# Deaths of the decoder


@pytest.mark.parametrize(
    ("steps", "started_at", "plan"),
    [
        ([step("tick", 12), DEATH], {1: 10 * FRAME_SAMPLES}, (1, 10)),
        ([step("audio", 10, 10, rate=1.5), DEATH], {1: 25 * FRAME_SAMPLES}, (1, 20)),
        ([step("tick", 4), lost, DEATH], {1: 10 * FRAME_SAMPLES}, (1, 10)),
        ([step("tick", 4), DEATH, step("audio", 10, 5), DEATH], {1: 15 * FRAME_SAMPLES}, (1, 15)),
        ([step("tick", 4), lost, asked(Requests.skip), step("settle")], {2: 0}, (2, 4)),
        ([step("tick", 4), lost, asked(Requests.skip), QUIETLY, step("settle")], {2: 0}, (2, 4)),
        ([step("tick", 4), asked(Requests.skip), DEATH], {2: 0}, (2, 4)),
        ([step("settle"), asked(Requests.seek, 30_000), DEATH], {2: 1_440_000}, (2, 0)),
        ([*JOINING, step("audio", 5, 5, marks=[(END, 7, 1), (BEGIN, 7, 2, 500)]), step("tick", 20), DEATH],
         {2: 3 * FRAME_SAMPLES - 500}, (2, 10)),
        ([*JOINING, step("audio", 4, 1, marks=[(END, 4, 1), (BEGIN, 4, 2)]), step("audio", 5, 5, 2, position=1000),
          lost, asked(Requests.set_loop, LoopMode.TRACK), step("settle")],
         {1: 4 * FRAME_SAMPLES, 3: 0}, (1, 4)),
    ],
    ids=["all was sent", "at another speed", "two deaths", "twice", "a skip right after it", "and a filter",
         "a skip that was not heard yet", "a seek", "a track that has just joined", "another next track in a join"],
)  # fmt: skip
async def test_in_another_process_a_source_goes_on_where_the_frames_here_end(
    steps: list[Step], started_at: dict[int, int], plan: tuple[int, int]
) -> None:
    bench = playing("a", "b")
    await done(bench, *steps)
    assert bench.started_at == started_at
    assert (bench.plan.switch_to, bench.plan.at_frame) == plan


async def test_a_source_that_is_here_to_its_end_is_not_opened_again() -> None:
    bench = playing("a", "b")
    bench.decoded(1)
    bench.audio(0, 10, marks=[(BEGIN, 0, 1), (END, 10, 1)])
    bench.tick(4)
    await bench.lose()
    assert bench.started_at == {2: 0}
    bench.opened(2)
    bench.tick(6)
    assert ends(bench) == [("a", "finished")]
    assert (bench.plan.switch_to, bench.plan.at_frame) == (2, 10)


async def test_a_file_whose_only_descriptor_was_given_away_is_opened_again() -> None:
    bench = PlayerBench("a")
    with descriptors_left(1):
        await bench.settle()
    for _ in range(2):
        assert [order.has_descriptor for order in bench.orders(OpenSource)] == [True]
        await bench.lose()


async def test_a_player_without_a_decoder_takes_all_orders() -> None:
    bench = playing("a", "b", "c", sent=4)
    bench.pool.is_empty = True
    bench.pool.lose()
    bench.tick(10)
    assert len(bench.listener) == 10
    bench.player.do(Requests.change_filters, FilterChange(volume=0.5))
    bench.player.do(Requests.pause)
    bench.player.do(Requests.skip)
    bench.player.do(Requests.set_loop, LoopMode.QUEUE)
    bench.player.do(Requests.enqueue, make_track("d"))
    bench.player.do(Requests.play)
    bench.player.do(Requests.skip)
    bench.tick(10)
    assert bench.player.status().quality.decoder_process_id is None
    bench.pool.is_empty = False
    await bench.lose()
    assert bench.started_at == {3: 0}
    assert (bench.plan.switch_to, bench.plan.filters.volume) == (3, 0.5)
    bench.audio(10, 10, 3, position=0, marks=[(BEGIN, 10, 3)], voice=3)
    bench.tick(5)
    assert bench.listener.messages[10:] == [frame(number, 3) for number in range(10, 15)]


async def test_a_player_may_be_deleted_while_it_waits_for_a_decoder() -> None:
    bench = playing("a")
    bench.pool.is_empty = True
    bench.pool.lose()
    await bench.player.delete()
    assert bench.pool.waiting == []
    bench.pool.is_empty = False
    bench.pool.lose()
    assert len(bench.pool.sessions) == 1


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


async def test_an_error_in_a_tick_ends_the_track_and_not_the_player(caplog: pytest.LogCaptureFixture) -> None:
    bench = playing("a", "b", sent=2)
    with frames_not_sent():
        bench.tick(1)
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR]
    assert bench.events.named("TrackException")[0]["error"]["code"] == "internal"
    assert ends(bench) == [("a", "loadFailed")]
    bench.begin(2, voice=2)
    bench.tick(5)
    assert bench.listener.messages[-1][-1] == 2


async def test_an_error_in_every_tick_stops_the_player_and_not_the_clock() -> None:
    bench = playing("a")
    with broken_ticks():
        bench.tick(50)
    assert bench.time.waiting_timers == 0 or state(bench) == "failed"
    assert state(bench) == "failed"


async def test_an_error_with_a_message_ends_the_track(caplog: pytest.LogCaptureFixture) -> None:
    bench = playing("a")
    with audio_not_taken_in():
        bench.audio(10, 5)
    assert ends(bench) == [("a", "loadFailed")]
    assert state(bench) == "failed"
    assert any(record.exc_info for record in caplog.records)


async def test_after_an_error_in_the_decoder_what_is_here_is_heard_and_the_next_track_plays() -> None:
    bench = playing("a", "b", sent=2)
    first = bench.session
    bench.session_failed(1)
    await bench.settle()
    assert bench.session is not first
    assert bench.started_at == {}  # that track is not tried again
    assert ends(bench) == []
    bench.tick(9)
    assert len(bench.listener.messages) == 10
    assert [error["error"]["code"] for error in bench.events.named("TrackException")] == ["internal"]
    assert ends(bench) == [("a", "loadFailed")]
    await bench.settle()
    assert bench.started_at == {2: 0}
    bench.begin(2, voice=2)
    bench.tick(5)
    assert bench.listener.messages[-1][-1] == 2


async def test_an_error_in_the_decoder_at_the_next_track_spares_the_one_that_sounds() -> None:
    bench = playing("a", "b", "c", frames=20)
    bench.decoded(1)  # so that the next one is opened
    await bench.settle()
    bench.session_failed(2)
    await bench.settle()
    assert list(bench.started_at) == [1]
    assert ends(bench) == []
    bench.audio(20, 5, 1, marks=[(END, 25, 1)])
    bench.tick(26)
    assert ends(bench) == [("a", "finished"), ("b", "loadFailed")]
    await bench.settle()
    assert 3 in bench.started_at


async def test_an_error_after_a_source_was_opened_ends_its_track_at_once() -> None:
    with sources_not_begun():
        bench = PlayerBench("a")
        bench.listen()
        await bench.settle()
    assert ends(bench) == [("a", "loadFailed")]


async def test_a_second_error_in_the_decoder_within_a_minute_stops_the_player() -> None:
    bench = playing("a", "b", "c")
    bench.session_failed(1)
    bench.tick(20)
    await bench.settle()
    bench.session_failed(2)
    assert state(bench) == "failed"
    sessions = len(bench.pool.sessions)
    bench.session_failed(0)  # without a track nothing can be left out: it does not come back by itself
    bench.tick(20)
    assert len(bench.pool.sessions) == sessions
    bench.player.do(Requests.play)
    await bench.settle()
    assert len(bench.pool.sessions) == sessions + 1
    assert list(bench.started_at) == [3]


async def test_a_skip_while_an_error_of_the_decoder_is_under_way_spares_the_next_track() -> None:
    bench = playing("a", "b")
    bench.player.do(Requests.skip)
    await bench.settle()
    bench.session_failed(1)
    await bench.settle()
    assert list(bench.started_at) == [2]
    assert bench.events.named("TrackException") == []


async def test_after_an_error_in_the_decoder_no_overlay_is_opened_again() -> None:
    bench = playing("a")
    bench.player.add_overlays((make_track("clip"), OverlaySettings()))
    await bench.settle()
    bench.session_failed(0)
    bench.tick(15)
    await bench.settle()
    assert bench.started_at == {}
    assert [error["error"]["code"] for error in bench.events.named("OverlayException")] == ["internal"]
    assert [end["reason"] for end in bench.events.named("OverlayEnd")] == ["loadFailed"]
    assert ends(bench) == [("a", "loadFailed")]


@pytest.mark.parametrize("suspects", [(1, 77), (0,)], ids=["on its source", "on its session"])
async def test_a_process_that_ended_at_work_counts_against_its_track(suspects: tuple[int, ...]) -> None:
    bench = playing("a")
    bench.pool.lose(suspects)
    assert bench.suspects.uris == ["http://radio.example/a.mp3"]
    bench.player.do(Requests.stop)
    sessions = len(bench.pool.sessions)
    bench.pool.lose((0,))  # nothing to be counted: it must not end the next one, too
    assert len(bench.pool.sessions) == sessions


async def test_a_listener_may_go_and_the_player_be_deleted_while_a_frame_is_sent() -> None:
    bench = PlayerBench("a")
    deletions: list[asyncio.Task[None]] = []
    other = MemoryListener()
    bench.listener.on_write = lambda: deletions.append(asyncio.ensure_future(bench.player.delete()))
    bench.start(10)
    bench.player.attach(other)
    bench.tick(1)
    await asyncio.gather(*deletions)
    bench.tick(5)
    assert bench.listener.closed[0][0] == other.closed[0][0] == 1000
    assert bench.events.ops[-2:] == ["TrackEnd", "PlayerDelete"]


# Silence, log, memory


async def test_a_stream_is_fed_with_silence_while_nothing_plays() -> None:
    bench = PlayerBench("a")
    stream = MemoryListener(Framing.RAW, wants_silence=True)
    bench.player.attach(stream)
    bench.tick(5)
    assert len(stream) == 5
    bench.begin()
    bench.tick(4)
    bench.player.do(Requests.pause)
    bench.tick(5)
    assert len(stream) == 14
    assert stream.messages[5:9] == [frame(number) for number in range(4)]
    assert not any(b"".join(stream.messages[:5] + stream.messages[9:]))


@pytest.mark.parametrize(("then", "frames"), [(LAST, 10), (asked(Requests.pause), 5)], ids=["end", "pause"])
async def test_a_slow_listener_gets_the_last_frames_although_no_others_follow(then: Step, frames: int) -> None:
    bench = playing("a")
    bench.listener.takes = 0
    bench.tick(5)
    then(bench)
    bench.tick(20)
    assert len(bench.listener) == 1
    bench.listener.takes = None
    bench.tick(1)
    assert bench.listener.messages == [frame(number) for number in range(frames)]
    assert bench.clock.is_idle


async def test_a_listener_that_takes_nothing_while_nothing_is_sent_is_closed_and_cut() -> None:
    bench = playing("a", sent=5)
    bench.listener.takes = 0
    bench.tick(3)
    bench.player.do(Requests.pause)
    bench.tick(600)
    assert ([code for code, _ in bench.listener.closed], bench.listener.aborted) == ([1013], 1)
    assert bench.clock.is_idle


async def test_the_log_tells_of_tracks_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        bench = PlayerBench("a", "missing.mp3?token=secret")
        bench.start(10)
        await bench.settle()
        bench.player.do(Requests.skip)
        await bench.settle()
    lines = [record.getMessage() for record in caplog.records]
    bench.tick(2)
    assert "player p: track ended (skipped) without a sound: http://radio.example/a.mp3" in lines
    failed = "player p: track failed (file_missing): http://radio.example/missing.mp3:"
    assert f"{failed} There is no such file. Check the path." in lines
    assert not any("secret" in line for line in lines)


async def test_the_log_has_one_line_for_each_track_that_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        bench = PlayerBench("a?token=secret", "b", "c")
        listener = MemoryListener()
        detach = bench.player.attach(listener)
        bench.begin()
        bench.tick(2)
        bench.player.do(Requests.skip)
        bench.tick(2)
        detach()
        bench.begin(2)
        bench.tick(2)
    started = [record for record in caplog.records if "track started" in record.getMessage()]
    assert [record.levelno for record in started] == [logging.INFO, logging.DEBUG]
    ended = [record.levelno for record in caplog.records if "track ended" in record.getMessage()]
    assert ended == [logging.DEBUG]
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
    bench = PlayerBench("t0")
    bench.listen()
    kept: list[int] = []
    for number in range(501):
        if number:
            bench.player.do(Requests.enqueue, make_track(f"t{number}"))
        source = number + 1
        at_frame = bench.plan.at_frame
        if number % 5 == 1:
            bench.failed(source, FILE_MISSING)
        elif number % 5 == 2:
            bench.player.do(Requests.skip)
        elif number % 5 == 3:
            bench.opened(source)
            bench.decoded(source)
            bench.failed(source, CONNECTION_LOST, gave_audio=True)
            bench.audio(
                at_frame, 1, source, position=0, marks=[(BEGIN, at_frame, source), (INTERRUPTED, at_frame + 1, source)]
            )
            bench.tick(2)
        else:
            bench.opened(source)
            bench.decoded(source)
            bench.audio(at_frame, 1, source, position=0, marks=[(BEGIN, at_frame, source), (END, at_frame + 1, source)])
            bench.tick(2)
        bench.opened(source)
        bench.decoded(source)
        bench.failed(source, CONNECTION_LOST, gave_audio=True)
        for told in (bench.events.events, bench.events.texts, bench.listener.messages):
            told.clear()
        if number % 20 == 0:
            await bench.settle()
            bench.session.orders[:-1] = [order for order in bench.session.orders[:-1] if isinstance(order, Plan)][-1:]
        if number in (300, 500):
            kept.append(count_reachable(bench.player))
    assert kept[1] - kept[0] < 10, "what was kept by source is gone with it"


NOT_ITS_OWN: Final = (type, ModuleType, FunctionType, logging.Logger, HandTime)


def count_reachable(start: object) -> int:
    """How many objects this one keeps. What modules, classes, functions, the log and the hand-turned time keep is not
    its own."""
    found: dict[int, object] = {}
    waiting = [start]
    while waiting:
        one = waiting.pop()
        if id(one) not in found and not isinstance(one, NOT_ITS_OWN):
            found[id(one)] = one
            waiting += gc.get_referents(one)
    return len(found)


# Seeks


async def test_an_open_source_goes_on_elsewhere_and_is_not_opened_again() -> None:
    bench = playing("a")
    await bench.settle()
    bench.tick(3)
    bench.player.seek(30_000)
    bench.player.seek(20_000)
    seeks = bench.orders(SeekSource)
    assert [(seek.source, seek.new_source, seek.start_sample) for seek in seeks] == [(1, 2, 1_440_000), (2, 3, 960_000)]
    assert bench.plan.switch_to == 3
    await bench.settle()
    assert bench.started_at == {1: 0}
    assert not bench.orders(DropSource)


async def test_of_a_track_in_a_loop_the_source_that_sounds_goes_on_and_the_one_opened_ahead_is_closed() -> None:
    """Both are of the same track, and only one can be the new source."""
    bench = PlayerBench("a")
    bench.player.do(Requests.set_loop, LoopMode.TRACK)
    bench.start(10)
    bench.tick(3)
    bench.decoded(1)
    await bench.settle()
    assert sorted(bench.started_at) == [1, 2]
    bench.opened(2)
    bench.player.seek(0)
    await bench.settle()
    assert [(seek.source, seek.new_source) for seek in bench.orders(SeekSource)] == [(1, 3)]
    assert [drop.source for drop in bench.orders(DropSource)] == [2]


async def test_an_interrupted_source_is_opened_again_to_seek_in_it() -> None:
    bench = playing("a")
    await bench.settle()
    bench.failed(1, CONNECTION_LOST, gave_audio=True)
    bench.player.seek(5_000)
    await bench.settle()
    assert bench.started_at == {1: 0, 2: 240_000}


async def test_why_a_listener_is_closed_stands_in_the_log_and_in_the_figures(caplog: pytest.LogCaptureFixture) -> None:
    bench = PlayerBench("a")
    bench.listen()
    still = MemoryListener(takes=0, wants_silence=True)
    with caplog.at_level(logging.INFO):
        bench.player.attach(still)
        bench.tick(520)
    assert [code for code, _ in still.closed] == [1013]
    assert "player p: a listener is closed (pcm): nothing was read for 10 seconds" in caplog.text
    quality = bench.player.status().quality
    assert (quality.closed_too_slow, quality.closed_failed) == (1, 0)
