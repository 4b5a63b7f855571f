"""The ticker of all players, with time turned by hand."""

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain, pairwise

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
PHASE_S = FRAME_S / PHASES


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
    (member,) = joined(clock, time)
    clock.join(member)
    time.forward(1.0)
    assert len(member.ticks_s) == 50
    assert [later - before for before, later in pairwise(member.ticks_s)] == pytest.approx([FRAME_S] * 49)


def test_the_first_tick_comes_within_a_frame(clock: Clock, time: HandTime) -> None:
    for _ in range(2 * PHASES):
        (member,) = joined(clock, time)
        time.forward(FRAME_S)
        assert len(member.ticks_s) == 1
        time.forward(0.0007)


@pytest.mark.parametrize("late_s", [0.004, -0.0009])
def test_wakes_that_are_late_or_a_little_early_do_not_add_up(clock: Clock, time: HandTime, late_s: float) -> None:
    (member,) = joined(clock, time)
    time.forward(100, late_s=late_s)
    assert len(member.ticks_s) in (4999, 5000, 5001)
    first_s, last_s = member.ticks_s[0], member.ticks_s[-1]
    assert last_s - first_s == pytest.approx((len(member.ticks_s) - 1) * FRAME_S, abs=0.001)
    assert clock.frames_left_out == 0


@pytest.mark.parametrize("late_frames", range(1, CATCH_UP_FRAMES))
def test_a_late_wake_sends_what_is_due_at_once(clock: Clock, time: HandTime, late_frames: int) -> None:
    (member,) = joined(clock, time)
    time.forward(FRAME_S)
    before = len(member.ticks_s)
    time.stand_still(late_frames * FRAME_S)
    time.forward(0)
    assert len(member.ticks_s) - before == late_frames
    assert clock.frames_left_out == 0


def test_frames_are_counted_by_how_late_their_tick_began(clock: Clock, time: HandTime) -> None:
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
    time.stand_still(0.5)
    time.forward(0.1)
    assert clock.lateness.frames_late[100] >= 3 * CATCH_UP_FRAMES
    assert 0 < clock.quiet_s < 0.2


def test_a_node_that_was_late_is_behind_for_a_while(clock: Clock, time: HandTime) -> None:
    joined(clock, time)
    time.forward(1.0)
    time.stand_still(0.09)
    time.forward(0)
    assert not clock.is_behind
    time.stand_still(0.15)
    time.forward(0.19)
    assert clock.is_behind
    time.forward(0.2)
    assert not clock.is_behind


@pytest.mark.parametrize("standstill_s", [0.5, 1.0, 10.0, 8 * 3600.0])
def test_much_too_late_sends_ten_frames_and_counts_the_others(
    clock: Clock, time: HandTime, standstill_s: float
) -> None:
    members = joined(clock, time, 2 * PHASES)
    time.forward(1.0)
    before = [len(member.ticks_s) for member in members]
    time.stand_still(standstill_s)
    time.forward(0)
    left_out = round(standstill_s / FRAME_S) - CATCH_UP_FRAMES
    assert [len(member.ticks_s) for member in members] == [ticks + CATCH_UP_FRAMES for ticks in before]
    assert [member.skipped for member in members] == [left_out] * len(members)
    assert clock.frames_left_out == len(members) * left_out
    assert clock.lateness.frames_late[100] > 0
    # No burst afterwards: deadlines were set anew, in the member's own phase.
    time.forward(1.0)
    assert [len(member.ticks_s) for member in members] == [ticks + CATCH_UP_FRAMES + 50 for ticks in before]
    assert clock.frames_left_out == len(members) * left_out


def test_deadlines_set_anew_keep_the_phase(clock: Clock, time: HandTime) -> None:
    (member,) = joined(clock, time)
    time.forward(0.5)
    time.stand_still(0.7531)
    time.forward(1.0)
    steps = (member.ticks_s[-1] - member.ticks_s[0]) / FRAME_S
    assert steps == pytest.approx(round(steps), abs=0.001)


def phases_of(members: list[Member]) -> Counter[int]:
    return Counter(round(member.ticks_s[-1] / PHASE_S) % PHASES for member in members)


def test_few_members_are_ticked_together(clock: Clock, time: HandTime) -> None:
    members = [Member(time) for _ in range(PHASE_MEMBERS)]
    for member in members:
        clock.join(member)
        time.forward(0.0031)
    time.forward(0.1)
    assert list(phases_of(members).values()) == [PHASE_MEMBERS]


def test_many_members_fill_all_phases_and_then_all_of_them_further(clock: Clock, time: HandTime) -> None:
    members = joined(clock, time, PHASES * PHASE_MEMBERS)
    time.forward(FRAME_S)
    assert set(phases_of(members).values()) == {PHASE_MEMBERS}
    members += joined(clock, time, PHASE_MEMBERS)
    time.forward(FRAME_S)
    assert set(phases_of(members).values()) == {PHASE_MEMBERS + PHASE_MEMBERS // PHASES}


def test_a_member_that_leaves_and_rejoins_while_a_timer_waits_is_not_ticked_twice(clock: Clock, time: HandTime) -> None:
    member = Member(time)
    for _ in range(200):
        clock.join(member)
        time.forward(0.0033)
        clock.leave(member)
        clock.join(member)
        time.forward(0.0017)
        clock.leave(member)
    assert len(member.ticks_s) <= 200 * 0.005 / FRAME_S + 1
    assert min(later - before for before, later in pairwise(member.ticks_s)) >= FRAME_S - 0.0011


@pytest.mark.parametrize("late_s", [0.0, -0.0009])
def test_a_member_that_leaves_and_rejoins_within_its_tick_keeps_its_pace_and_costs_no_further_wake(
    clock: Clock, time: HandTime, late_s: float
) -> None:
    (member,) = joined(clock, time)

    def leave_and_join() -> None:
        clock.leave(member)
        clock.join(member)

    member.then = leave_and_join
    time.forward(2.0, late_s=late_s)
    assert len(member.ticks_s) in range(99, 102)
    assert time.waiting_timers == 1


def test_a_member_that_rests_costs_no_timer_and_is_ticked_soon_again(clock: Clock, time: HandTime) -> None:
    (member,) = joined(clock, time)
    time.forward(0.1)
    clock.leave(member)
    time.forward(10)
    assert time.waiting_timers == 0
    before = len(member.ticks_s)
    clock.join(member)
    time.forward(FRAME_S)
    assert len(member.ticks_s) - before == 1


def test_a_member_that_leaves_in_its_tick_gets_no_other(clock: Clock, time: HandTime) -> None:
    (member,) = joined(clock, time)
    member.then = lambda: clock.leave(member)
    time.stand_still(0.1)
    time.forward(1.0)
    assert len(member.ticks_s) == 1


def test_a_member_that_was_taken_away_in_this_tick_is_not_ticked(clock: Clock, time: HandTime) -> None:
    members = joined(clock, time, 5)  # the first and the last of them share a phase
    members[0].then = lambda: clock.leave(members[4])
    time.forward(1.0)
    assert [len(member.ticks_s) for member in members] == [50, 50, 50, 50, 0]


def test_a_member_that_joins_others_in_its_tick(clock: Clock, time: HandTime) -> None:
    newcomers: list[Member] = []

    def bring_one() -> None:
        if len(newcomers) < 20:
            newcomers.extend(joined(clock, time))

    joined(clock, time, then=bring_one)
    time.forward(1.0)
    assert all(len(newcomer.ticks_s) in range(29, 51) for newcomer in newcomers)


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


def test_until_tick(clock: Clock, time: HandTime) -> None:
    member = Member(time)
    assert clock.until_tick_s(member) == pytest.approx(FRAME_S)
    clock.join(member)
    time.forward(1.0)
    until_s = clock.until_tick_s(member)
    ticks = len(member.ticks_s)
    time.forward(until_s - 0.0011)
    assert len(member.ticks_s) == ticks
    time.forward(0.0012)
    assert len(member.ticks_s) == ticks + 1
    time.stand_still(0.05)
    assert clock.until_tick_s(member) == 0


def test_within_a_tick_the_next_one_is_a_frame_away(clock: Clock, time: HandTime) -> None:
    found: list[float] = []
    (member,) = joined(clock, time)
    member.then = lambda: found.append(clock.until_tick_s(member))
    time.forward(1.0)
    assert found == pytest.approx([FRAME_S] * 50)


def test_stop_ends_all_ticks_for_ever(clock: Clock, time: HandTime) -> None:
    (member,) = joined(clock, time)
    time.forward(1.0)
    clock.stop()
    (latecomer,) = joined(clock, time)
    time.forward(1.0)
    assert len(member.ticks_s) == 50
    assert latecomer.ticks_s == []
    assert time.waiting_timers == 0
    clock.leave(member)


def test_stop_within_a_tick(clock: Clock, time: HandTime) -> None:
    members = joined(clock, time, 2 * PHASES, clock.stop)
    time.forward(1.0)
    assert sum(len(member.ticks_s) for member in members) == 1


def test_one_that_resumes_is_not_ticked_before_its_time(clock: Clock, time: HandTime) -> None:
    member = Member(time)
    clock.resume_at(member, time.now_s() + 0.017)
    clock.join(member)
    time.forward(0.016)
    assert not member.ticks_s
    assert clock.next_deadline_s(member) == pytest.approx(time.now_s() + 0.004)
    time.forward(0.02)
    assert len(member.ticks_s) == 1


def test_left_out_frames_are_counted_for_each_member_and_logged_at_times(
    clock: Clock, time: HandTime, caplog: pytest.LogCaptureFixture
) -> None:
    members = joined(clock, time, 3)
    time.forward(1.0)
    for _ in range(4):
        time.stand_still(1.0)
        time.forward(1.0)
    assert [member.skipped for member in members] == [clock.frames_left_out // 3] * 3
    assert clock.frames_left_out > 4 * 3 * 30
    assert len(caplog.records) == 1
    assert "the node is overloaded" in caplog.text
    time.forward(LOG_INTERVAL_S)
    time.stand_still(1.0)
    time.forward(1.0)
    assert len(caplog.records) == 2
    assert f"{clock.frames_left_out} since its start" in caplog.records[1].getMessage()


def joined_on_beats(clock: Clock, time: HandTime, count: int, done_s: dict[int, list[float]]) -> list[Member]:
    """Each notes in `done_s` when it does what is done on every tenth beat."""

    def on_beat(number: int) -> None:
        if clock.beat % 10 == 0:
            done_s.setdefault(number, []).append(round(time.now_s(), 6))

    numbers = range(len(done_s), len(done_s) + count)
    return [joined(clock, time, then=partial(on_beat, number))[0] for number in numbers]


def test_what_is_done_on_every_tenth_beat_is_done_by_few_at_once(clock: Clock, time: HandTime) -> None:
    """Each does it once in ten ticks, also while others come and go."""
    done_s: dict[int, list[float]] = {}
    members = joined_on_beats(clock, time, 3 * PHASE_MEMBERS, done_s)
    time.forward(10 * FRAME_S)
    assert max(Counter(chain(*done_s.values())).values()) <= BEAT_MEMBERS
    assert {number: len(times_s) for number, times_s in done_s.items()} == dict.fromkeys(range(3 * PHASE_MEMBERS), 1)
    for member in members[:60]:
        clock.leave(member)
    done_s.clear()
    time.forward(20 * FRAME_S)
    assert set(done_s) == set(range(60, 3 * PHASE_MEMBERS))


def test_in_a_crowd_fewer_do_it_at_once_and_nobody_waits_for_long_when_it_comes(clock: Clock, time: HandTime) -> None:
    done_s: dict[int, list[float]] = {}
    count = PHASES * PHASE_MEMBERS
    for frames in (20, 30):
        joined_on_beats(clock, time, count, done_s)
        time.forward(frames * FRAME_S)
    last_s = Counter(times_s[-1] for times_s in done_s.values())
    assert max(last_s.values()) <= FULL_BEAT_MEMBERS
    assert len(done_s) == 2 * count
    for times_s in done_s.values():
        assert max(after - before for before, after in pairwise(times_s)) < 15 * FRAME_S
