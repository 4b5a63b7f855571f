"""The ticker of all players, with time turned by hand."""

import logging
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from tests.support.hand_time import HandTime
from tonearm.player.clock import (
    BEAT_MEMBERS,
    CATCH_UP_FRAMES,
    FULL_BEAT_MEMBERS,
    LOG_INTERVAL_S,
    PHASE_MEMBERS,
    PHASES,
    Clock,
)

FRAME_S = 0.02
EARLY_S = 0.0011


class Member:
    """Writes down when it was ticked, and then does what the test wants."""

    def __init__(self, time: HandTime, then: Callable[[], None] = lambda: None) -> None:
        self._time = time
        self.then = then
        self.ticks_s: list[float] = []
        self.skipped = 0

    def ticks_skipped(self, count: int) -> None:
        self.skipped += count

    def tick(self) -> None:
        self.ticks_s.append(self._time.now_s())
        self.then()

    @property
    def steps_s(self) -> list[float]:
        return [later - before for before, later in pairwise(self.ticks_s)]


def joined(clock: Clock, time: HandTime, count: int = 1, then: Callable[[], None] = lambda: None) -> list[Member]:
    members = [Member(time, then) for _ in range(count)]
    for member in members:
        clock.join(member)
    return members


@pytest.fixture
def time() -> HandTime:
    return HandTime()


@pytest.fixture
def clock(time: HandTime) -> Clock:
    return Clock(time.now_s, time.call_later)


def test_ticks_once_every_20_ms_however_often_it_joined(clock: Clock, time: HandTime) -> None:
    found: list[float] = []
    (member,) = joined(clock, time)
    member.then = lambda: found.append(clock.until_tick_s(member))
    clock.join(member)
    time.forward(1.0)
    assert len(member.ticks_s) == 50
    assert member.steps_s == pytest.approx([FRAME_S] * 49)
    assert found == pytest.approx([FRAME_S] * 50)  # within a tick the next one is a frame away
    time.forward(clock.until_tick_s(member) - EARLY_S)
    assert len(member.ticks_s) == 50
    time.forward(EARLY_S)
    assert len(member.ticks_s) == 51
    time.stand_still(0.05)
    assert clock.until_tick_s(member) == 0


@pytest.mark.parametrize("late_s", [0.004, -0.0009])
def test_wakes_that_are_late_or_a_little_early_do_not_add_up(clock: Clock, time: HandTime, late_s: float) -> None:
    (member,) = joined(clock, time)
    time.forward(100, late_s=late_s)
    assert len(member.ticks_s) in (4999, 5000, 5001)
    first_s, last_s = member.ticks_s[0], member.ticks_s[-1]
    assert last_s - first_s == pytest.approx((len(member.ticks_s) - 1) * FRAME_S, abs=0.001)
    assert clock.frames_left_out == 0


@pytest.mark.parametrize("standstill_s", [0.02, 0.1, 0.18, 0.5, 0.7531, 10.0, 8 * 3600.0])
def test_a_late_wake_sends_what_is_due_at_once_up_to_ten_frames_and_counts_the_others(
    clock: Clock, time: HandTime, standstill_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    members = joined(clock, time, 2 * PHASES)
    time.forward(1.0)
    before = [len(member.ticks_s) for member in members]
    time.stand_still(standstill_s)
    time.forward(0)
    sent = min(CATCH_UP_FRAMES, round(standstill_s / FRAME_S - 0.01))
    left_out = [member.skipped for member in members]
    off = 1 if standstill_s == 0.7531 else 0  # which is no multiple of a frame
    assert all(abs(round(standstill_s / FRAME_S) - sent - count) <= off for count in left_out)
    assert any(left_out) is (standstill_s > 0.2)
    assert [len(member.ticks_s) - ticks for member, ticks in zip(members, before, strict=True)] == [sent] * len(members)
    assert clock.frames_left_out == sum(left_out)
    assert clock.times_left_out == sum(map(bool, left_out))
    # No burst afterwards: deadlines were set anew, in the member's own phase.
    time.forward(1.0)
    for member in members:
        assert abs(len(member.ticks_s) - 100 - sent) <= off
        steps = (member.ticks_s[-1] - member.ticks_s[0]) / FRAME_S
        assert steps == pytest.approx(round(steps), abs=0.001)
    assert clock.frames_left_out == sum(left_out)
    time.stand_still(standstill_s)
    time.forward(0)
    assert len(caplog.records) == (1 if any(left_out) and standstill_s < LOG_INTERVAL_S else 2 * any(left_out))


def test_frames_are_counted_by_how_late_their_tick_began_and_the_node_is_behind_for_a_while(
    clock: Clock, time: HandTime
) -> None:
    joined(clock, time, 3)
    time.forward(0.1)
    assert clock.lateness.frames_late == {5: 0, 20: 0, 100: 0}
    time.stand_still(0.03)
    time.forward(0.1)
    late = clock.lateness.frames_late
    assert late[20] == 3  # of the two that came at once, the first
    assert 3 <= late[5] <= 6
    assert late[100] == 0
    assert clock.quiet_s > 1_000_000
    assert not clock.is_behind
    time.stand_still(0.5)
    time.forward(0.1)
    assert clock.lateness.frames_late[100] >= 3 * CATCH_UP_FRAMES
    assert 0 < clock.quiet_s < 0.2
    assert clock.is_behind
    time.forward(0.2)
    assert not clock.is_behind


@pytest.mark.parametrize("seed", range(20))
def test_whoever_comes_and_goes_is_ticked_as_long_as_it_is_there_and_never_before_its_time(
    clock: Clock, time: HandTime, seed: int
) -> None:
    """Also those that go, come back or take others away in a tick; what it costs is one timer for each phase."""
    chance, late_s = random.Random(seed), (0.0, -0.0009)[seed % 2]
    members = [Member(time) for _ in range(6)]
    there: dict[Member, float] = {}  # since when

    def act(member: Member) -> None:
        if member in there:
            clock.leave(member)
            del there[member]
        if chance.random() < 0.7:
            clock.join(member)
            there[member] = time.now_s()

    def ticked(member: Member) -> None:
        assert member in there, "it has left"
        if chance.random() < 0.3:
            act(chance.choice([member, *members]))

    for member in members:
        member.then = partial(ticked, member)
    for _ in range(300):
        act(chance.choice(members))
        time.forward(chance.choice([0.0017, 0.0033, 0.02, 0.1]), late_s=late_s)
        for member, since_s in there.items():
            last_s = max([since_s, *member.ticks_s[-1:]])
            assert time.now_s() - last_s <= FRAME_S + EARLY_S, "it waits for longer than a frame"
        assert time.waiting_timers <= PHASES
    assert all(step_s >= FRAME_S - EARLY_S + late_s for member in members for step_s in member.steps_s)
    assert clock.frames_left_out == 0
    for member in members:
        clock.leave(member)
    time.forward(2 * FRAME_S)
    assert time.waiting_timers == 0
    assert clock.is_idle


def test_a_member_that_raises_is_logged_once_and_ticked_no_more(
    clock: Clock, time: HandTime, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("a fault in a tick")

    members = joined(clock, time, 5)
    members[0].then = fail
    with caplog.at_level(logging.ERROR):
        time.forward(1.0)
    assert [len(member.ticks_s) for member in members] == [1, 50, 50, 50, 50]
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_one_that_resumes_is_not_ticked_before_its_time(clock: Clock, time: HandTime) -> None:
    member = Member(time)
    clock.resume_at(member, time.now_s() + 0.017)
    clock.join(member)
    time.forward(0.016)
    assert not member.ticks_s
    assert clock.next_deadline_s(member) == pytest.approx(time.now_s() + 0.004)
    time.forward(0.02)
    assert len(member.ticks_s) == 1


@pytest.mark.parametrize("in_a_tick", [False, True])
def test_stop_ends_all_ticks_for_ever(clock: Clock, time: HandTime, in_a_tick: bool) -> None:
    members = joined(clock, time, 2 * PHASES, clock.stop if in_a_tick else lambda: None)
    time.forward(1.0)
    clock.stop()
    (latecomer,) = joined(clock, time)
    time.forward(1.0)
    assert sum(len(member.ticks_s) for member in members) == (1 if in_a_tick else 50 * len(members))
    assert latecomer.ticks_s == []
    assert time.waiting_timers == 0
    clock.leave(members[0])


def test_what_is_done_on_every_tenth_beat_is_done_by_few_at_once_and_nobody_waits_for_long_when_a_crowd_comes(
    clock: Clock, time: HandTime
) -> None:
    done_s: dict[int, list[float]] = {}

    def on_beat(number: int) -> None:
        if clock.beat % 10 == 0:
            done_s.setdefault(number, []).append(round(time.now_s(), 6))

    count = PHASES * PHASE_MEMBERS
    for first, frames, most in ((0, 20, BEAT_MEMBERS), (count, 30, FULL_BEAT_MEMBERS)):
        for number in range(first, first + count):
            joined(clock, time, then=partial(on_beat, number))
        time.forward(frames * FRAME_S)
        assert max(Counter(times_s[-1] for times_s in done_s.values()).values()) <= most
        assert {len(times_s) for times_s in done_s.values()} in ({2}, {3, 5})
    assert len(done_s) == 2 * count
    for times_s in done_s.values():
        assert max(after - before for before, after in pairwise(times_s)) < 15 * FRAME_S
