"""The node's side of a session: what leads from one state to another, and the orders that follow."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import get_args

import pytest

from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, NO_OUTPUTS, PCM, PCM_ONLY, Output
from tonearm.decoder.messages import (
    GRANT_FRAMES,
    PASSED_GRANT_FRAMES,
    SHORT_GRANT_FRAMES,
    Audio,
    CrossfadeOrder,
    Flush,
    Grant,
    Mark,
    MarkKind,
    OpenSession,
    Plan,
)
from tonearm.decoder.session.orders import Bursts
from tonearm.decoder.session.plan_moves import (
    Changing,
    Detached,
    Mix,
    OpenSourceAt,
    Order,
    Program,
    RefusedMove,
    RenewSession,
    Resting,
    Resuming,
    SessionState,
    SourceBegan,
    SourceEnded,
    SourceFaded,
    Steady,
    Switching,
)
from tonearm.decoder.session.plan_state import PlanState

FLAT, QUIET, LOUD = Filters(), Filters(volume=0.5), Filters(volume=2.0)


class Bench:
    """A plan of which source 1 plays, unless a test says otherwise."""

    def __init__(self, frames: int = 10) -> None:
        self.until_tick_s = 0.02
        self.plan = PlanState(lambda: self.until_tick_s, Bursts())
        self.plan.wake()
        self.plan.session_opened(1)
        self.plan.add(1)
        self.plan.add(2)
        self.ordered = plan_in(self.plan.play(Program(1, None, Mix(FLAT))))
        self.audio(0, frames, marks=(Mark(MarkKind.BEGIN, 0, 1),))

    def play(self, current: int | None, next: int | None = None, filters: Filters = FLAT) -> Plan:
        self.ordered = plan_in(self.plan.play(Program(current, next, Mix(filters))))
        return self.ordered

    def audio(
        self, first: int, frames: int, *, marks: tuple[Mark, ...] = (), epoch: int | None = None
    ) -> tuple[Order, ...]:
        """Frames of the plan ordered last, of source 1."""
        epoch = self.ordered.epoch if epoch is None else epoch
        position = first * FRAME_SAMPLES
        return self.plan.audio(Audio(1, epoch, first, frames, 1, position, marks, bytes(frames * FRAME_BYTES)))

    def send(self, frames: int) -> None:
        for _ in range(frames):
            self.plan.take_event()
            self.plan.buffer.pop()


def plan_in(orders: tuple[Order, ...]) -> Plan:
    (plan,) = (order for order in orders if isinstance(order, Plan))
    return plan


def reach(state: type[SessionState]) -> PlanState:
    bench = Bench()
    if state is Changing:
        bench.play(1, filters=QUIET)
    elif state is Switching:
        bench.play(2)
    elif state is Resting:
        bench.plan.rest()
    elif state is not Steady:
        bench.plan.lose()
        if state is Resuming:
            bench.plan.session_opened(2)
    assert type(bench.plan.state) is state
    return bench.plan


@pytest.mark.parametrize("state", get_args(SessionState))
def test_a_session_is_lost_where_there_may_be_one_opened_where_it_is_missing_and_a_rest_ends(
    state: type[SessionState],
) -> None:
    for move, is_possible in (
        (PlanState.lose, state is not Resting),
        (lambda plan: plan.session_opened(3), state is Detached),
        (PlanState.wake, state is Resting),
    ):
        with nullcontext() if is_possible else pytest.raises(RefusedMove, match="while"):
            move(reach(state))


# Cuts and changes


def test_a_session_begins_with_nothing_to_play() -> None:
    plan = PlanState(lambda: 0.02, Bursts())
    plan.wake()
    assert plan.session_opened(7) == (OpenSession(7, 1, 0, FLAT),)


@pytest.mark.parametrize(
    ("until_tick_s", "wanted", "plan", "frames_ahead"),
    [
        pytest.param(0.02, (2, None, QUIET), (3, 2, 2, None), 0, id="a cut: with the next, the buffer is emptied"),
        pytest.param(0.02, (1, 2, FLAT), (3, None, 1, 2), 7, id="a change keeps the buffer until it arrives"),
        pytest.param(0.005, (1, 2, FLAT), (3, None, 1, 2), 7, id="it comes in time shortly before a tick, too"),
        pytest.param(0.005, (1, None, QUIET), (4, None, 1, None), 7, id="filters are for the frame after that tick"),
    ],
)
def test_where_a_plan_begins(
    until_tick_s: float,
    wanted: tuple[int, int | None, Filters],
    plan: tuple[int, int | None, int, int | None],
    frames_ahead: int,
) -> None:
    bench = Bench()
    bench.send(3)
    bench.until_tick_s = until_tick_s
    made = bench.play(*wanted)
    assert (made.at_frame, made.switch_to, made.after, made.following) == plan
    assert bench.plan.buffer.frames_ahead == frames_ahead


def test_what_a_late_block_reports_of_a_source_is_void_once_another_one_is_cut_to() -> None:
    bench = Bench()
    bench.send(10)
    bench.audio(7, 3, marks=(Mark(MarkKind.BEGIN, 7, 1), Mark(MarkKind.END, 9, 1)))
    bench.plan.add(3)
    bench.play(3)
    assert not bench.plan.buffer.holds_end
    bench.plan.lose()
    assert OpenSourceAt(3, 0, resumes=False) in bench.plan.session_opened(2)
    bench.audio(10, 10, marks=(Mark(MarkKind.BEGIN, 10, 3),), epoch=bench.plan._planned.number)
    assert bench.plan.take_event() == SourceBegan(3)


def test_the_same_again_or_a_next_source_that_is_not_known_is_no_new_plan() -> None:
    bench = Bench()
    assert bench.plan.play(Program(1, None, Mix(FLAT))) == ()
    assert bench.plan.play(Program(1, 77, Mix(FLAT))) == ()
    bench.plan.drop(2)
    assert bench.plan.play(Program(1, 2, Mix(FLAT))) == ()


# Filters


@pytest.mark.parametrize("last", [LOUD, FLAT], ids=["others", "those before"])
def test_of_filters_that_change_faster_than_plans_arrive_the_last_ones_are_planned_then(last: Filters) -> None:
    bench = Bench()
    bench.play(1, filters=QUIET)
    assert bench.plan.play(Program(1, None, Mix(Filters(volume=0.7)))) == ()
    assert bench.plan.play(Program(1, None, Mix(last))) == ()
    assert plan_in(bench.audio(0, 10)).filters == last


def test_filters_that_arrive_too_late_are_planned_again_further_on_each_time() -> None:
    bench = Bench(20)
    bench.play(1, filters=QUIET)
    planned = []
    for _ in range(4):
        bench.send(bench.ordered.at_frame + 1 - bench.plan.buffer.next_frame)
        bench.ordered = plan_in(bench.audio(bench.ordered.at_frame, 5))
        planned.append((bench.plan.buffer.next_frame, bench.ordered.at_frame))
    assert planned == [(1, 2), (3, 6), (7, 12), (13, 20)], "never beyond the buffered frames"
    assert bench.plan.late_plans_total == 4


def test_filters_are_for_the_next_frame_where_the_way_there_and_back_as_it_was_lets_them() -> None:
    bench = Bench(40)

    def planned(until_tick_s: float, way_s: float) -> int:
        """How many frames later than the next one a change begins, which then takes so long."""
        bench.until_tick_s = until_tick_s
        volume = 0.5 + bench.ordered.epoch / 64
        plan = bench.play(1, filters=Filters(volume=volume))
        later = plan.at_frame - bench.plan.buffer.next_frame
        frames = int(way_s / 0.02)
        bench.send(frames)
        bench.until_tick_s -= way_s - frames * 0.02
        bench.audio(max(plan.at_frame, bench.plan.buffer.next_frame), 40)
        return later

    assert planned(0.005, 0.001) == 1  # nothing is known yet
    for _ in range(8):
        planned(0.015, 0.001)
    assert planned(0.003, 0.001) == 0
    assert planned(0.0015, 0.001) == 1
    for _ in range(8):
        planned(0.019, 0.200)
    assert planned(0.015, 0.001) == 1
    for _ in range(12):
        planned(0.015, 0.001)
    assert planned(0.003, 0.001) == 0


def test_a_late_plan_without_other_filters_is_taken_as_it_is() -> None:
    bench = Bench()
    bench.play(1, 2)
    bench.send(3)
    assert bench.audio(0, 12) == ()
    assert bench.plan.buffer.frames_ahead == 9
    assert bench.plan.late_plans_total == 0


@pytest.mark.parametrize("dies_first", [True, False])
def test_a_cut_is_one_also_where_the_process_dies(dies_first: bool) -> None:
    bench = Bench()
    bench.send(1)
    if dies_first:
        bench.plan.lose()
    bench.plan.play(Program(2, None, Mix(FLAT)))
    if not dies_first:
        bench.plan.lose()
    bench.plan.session_opened(2)
    epoch = bench.plan._planned.number
    bench.plan.audio(Audio(2, epoch, 1, 5, 2, 0, (Mark(MarkKind.BEGIN, 1, 2),), bytes(5 * FRAME_BYTES)))
    assert bench.plan.take_event() == SourceBegan(2)
    assert [bench.plan.buffer.pop().is_cut for _ in range(2)] == [True, False]


# Listeners, grants, flushes


def test_frames_for_a_new_listener_are_rendered_again_with_sound() -> None:
    bench = Bench()
    (grant,) = bench.plan.listen(NO_OUTPUTS)
    assert isinstance(grant, Grant)
    assert not grant.outputs
    bench.send(4)
    plan, grant = bench.plan.listen(PCM_ONLY)
    assert isinstance(plan, Plan)
    assert (plan.at_frame, plan.switch_to, plan.after) == (4, None, 1)
    assert isinstance(grant, Grant)
    assert grant.outputs == PCM_ONLY
    assert bench.plan.listen(PCM_ONLY) == ()


def test_a_grant_is_of_the_plan_that_is_played() -> None:
    bench = Bench()
    played = bench.ordered.epoch
    bench.play(1, filters=QUIET)
    bench.send(2)
    assert bench.plan.grant() == Grant(1, played, 2, 2 + GRANT_FRAMES)


def test_an_underrun_asks_for_more_once() -> None:
    bench = Bench()
    bench.send(10)
    assert bench.plan.underrun() == (Grant(1, bench.ordered.epoch, 10, 10 + GRANT_FRAMES),)
    assert bench.plan.underrun() == ()


def test_a_last_partial_frame_is_flushed_once_and_again_with_the_plan_for_a_new_listener() -> None:
    """The decoder waits for the next source again with each plan."""
    bench = Bench()
    bench.play(1, 2)
    assert bench.plan.flush() == ()
    bench.plan.decoded(1)
    assert bench.plan.flush() == (Flush(1),)
    assert bench.plan.flush() == ()
    bench.plan.listen(NO_OUTPUTS)
    bench.plan.listen(PCM_ONLY)
    assert bench.plan.flush() == (Flush(1),)


# Sessions


@pytest.mark.parametrize(
    ("mp3_to", "first_frame", "mp3_from"),
    [
        pytest.param(None, 10, None, id="nobody-wants-mp3"),
        pytest.param(0, 0, 0, id="nothing-was-encoded"),
        pytest.param(3, 3, 3, id="some-was"),
        pytest.param(10, 10, 10, id="all-was"),
    ],
)
def test_another_session_goes_on_after_the_buffered_frames_or_after_those_that_were_encoded_to_mp3(
    mp3_to: int | None, first_frame: int, mp3_from: int | None
) -> None:
    bench = Bench()
    bench.send(4)
    bench.plan.lose()
    opened, *openings, plan, grant = bench.plan.session_opened(2, mp3_to)
    assert isinstance(opened, OpenSession)
    assert (opened.first_frame, opened.mp3_from) == (first_frame, mp3_from)
    at_sample = first_frame * FRAME_SAMPLES
    assert openings == [OpenSourceAt(1, at_sample, resumes=True), OpenSourceAt(2, 0, resumes=False)]
    assert isinstance(plan, Plan)
    assert (plan.at_frame, plan.switch_to, plan.after) == (first_frame, 1, 1)
    assert isinstance(grant, Grant)


@pytest.mark.parametrize(("sent", "plays_on"), [(4, True), (10, False)])
def test_another_session_is_told_whether_its_player_plays_on_meanwhile(sent: int, plays_on: bool) -> None:
    bench = Bench(10)
    bench.send(sent)
    bench.plan.lose()
    opened = bench.plan.session_opened(2)[0]
    assert isinstance(opened, OpenSession)
    assert opened.plays_on == plays_on


def test_a_cut_that_died_before_it_was_heard_begins_where_it_was_to_begin_after_a_pause_too() -> None:
    bench = Bench()
    bench.send(1)
    bench.play(2)
    bench.plan.audio(Audio(1, bench.ordered.epoch, 1, 5, 2, 0, (Mark(MarkKind.BEGIN, 1, 2),), bytes(5 * FRAME_BYTES)))
    bench.plan.lose()
    assert OpenSourceAt(2, 5 * FRAME_SAMPLES, resumes=True) in bench.plan.session_opened(2)
    assert bench.plan.fall_silent() == (RenewSession(),)


def test_without_a_session_nothing_is_ordered() -> None:
    for state in (Detached, Resting):
        plan = reach(state)
        assert plan.play(Program(1, None, Mix(QUIET))) == plan.play(Program(2, None, Mix(LOUD))) == ()
        assert plan.listen(NO_OUTPUTS) == plan.listen(PCM_ONLY) == plan.flush() == plan.underrun() == ()
        assert plan.grant() is None
        assert not plan.can_be_sought(1)
    assert reach(Steady).can_be_sought(1)


# Crossfades

CROSS = CrossfadeOrder(5 * FRAME_SAMPLES, 10 * FRAME_SAMPLES, "linear")


def faded(bench: Bench) -> list[int]:
    found = []
    while (source := bench.plan.take_faded()) is not None:
        found.append(source)
    return found


def crossfading() -> Bench:
    """Source 2 has come in over 1 with frame 5, as far as frames were sent."""
    bench = Bench()
    bench.ordered = plan_in(bench.plan.play(Program(1, 2, Mix(FLAT, CROSS))))
    bench.audio(0, 20, marks=(Mark(MarkKind.FADING, 5, 1), Mark(MarkKind.BEGIN, 5, 2), Mark(MarkKind.FADED, 15, 1)))
    bench.send(5)
    assert bench.plan.take_event() == SourceEnded(1, None, fades=True)
    bench.plan.play(Program(2, None, Mix(FLAT)))
    assert bench.plan.take_event() == SourceBegan(2)
    return bench


def test_a_crossfade_is_ordered_and_another_one_changes_the_plan() -> None:
    bench = Bench()
    assert plan_in(bench.plan.play(Program(1, 2, Mix(FLAT, CROSS)))).crossfade == CROSS
    assert bench.plan.play(Program(1, 2, Mix(FLAT, CROSS))) == ()
    assert bench.plan.play(Program(1, 2, Mix(FLAT))) == ()  # made when the one under way has arrived
    orders = bench.audio(0, 20, epoch=bench.plan._planned.number)
    assert plan_in(orders).crossfade is None


def test_a_source_that_fades_is_reported_when_it_is_over() -> None:
    bench = crossfading()
    for _ in range(10):
        bench.plan.buffer.pop()
    assert bench.plan.take_event() == SourceFaded(1)
    assert faded(bench) == []


@pytest.mark.parametrize(
    "end",
    [lambda plan: plan.play(Program(None, None, Mix(LOUD))), PlanState.lose, PlanState.rest],
    ids=["cut", "lost", "rest"],
)
def test_a_cut_and_a_session_that_ends_end_the_fade(end: Callable[[PlanState], object]) -> None:
    bench = crossfading()
    end(bench.plan)
    assert faded(bench) == [1]
    assert bench.plan.take_event() is None


def test_a_cut_can_fade() -> None:
    bench = Bench()
    bench.send(2)
    order = plan_in(bench.plan.play(Program(2, None, Mix(FLAT)), cut_fade=CROSS))
    assert (order.switch_to, order.cut_fade) == (2, CROSS)
    bench.audio(2, 20, epoch=order.epoch, marks=(Mark(MarkKind.FADING, 2, 1), Mark(MarkKind.BEGIN, 2, 2)))
    assert faded(bench) == []
    assert bench.plan.take_event() == SourceBegan(2)
    bench.plan.play(Program(None, None, Mix(FLAT)))
    assert faded(bench) == [1]


def test_a_cut_that_came_too_early_for_its_source_does_not_fade() -> None:
    bench = Bench()
    order = plan_in(bench.plan.play(Program(2, None, Mix(FLAT)), cut_fade=CROSS))
    bench.audio(0, 1, epoch=order.epoch)
    assert faded(bench) == [1]


def test_of_two_cuts_at_once_the_sound_that_was_heard_fades() -> None:
    bench = Bench()
    bench.plan.add(3)
    bench.plan.play(Program(2, None, Mix(FLAT)), cut_fade=CROSS)
    order = plan_in(bench.plan.play(Program(3, None, Mix(FLAT)), cut_fade=CROSS))
    assert (order.switch_to, order.cut_fade) == (3, CROSS)
    assert faded(bench) == [2]
    bench.plan.lose()
    assert faded(bench) == [1]


@pytest.mark.parametrize(("rests", "first"), [(True, 5), (False, 10)])
def test_a_title_that_the_session_before_knew_ahead_is_forgotten(rests: bool, first: int) -> None:
    bench = Bench()
    bench.plan.titled(1, 6 * FRAME_SAMPLES, "Buffered")
    bench.plan.titled(1, 50 * FRAME_SAMPLES, "Ahead")
    bench.send(5)
    if rests:
        bench.plan.rest()
        bench.plan.wake()
    else:
        bench.plan.lose()
    bench.ordered = plan_in(bench.plan.session_opened(2))
    bench.plan.titled(1, first * FRAME_SAMPLES, "Present")
    bench.audio(first, 10)
    titles = [bench.plan.buffer.pop().title for _ in range(6)]
    assert [title for title in titles if title] == (["Present"] if rests else ["Buffered", "Present"])


def awake_after_a_sleep() -> Bench:
    """Nobody listened; the source is being opened again from frame 500 on, and three more frames have passed."""
    bench = Bench()
    bench.plan.listen(NO_OUTPUTS)
    bench.send(10)
    bench.plan.rest()
    bench.plan.buffer.skip(490)
    bench.plan.wake()
    orders = bench.plan.session_opened(2)
    assert OpenSourceAt(1, 500 * FRAME_SAMPLES, resumes=True) in orders
    bench.ordered = plan_in(orders)
    assert bench.ordered.at_frame == 500
    bench.plan.buffer.skip(3)
    return bench


def test_frames_that_pass_while_a_source_is_opened_are_rendered_and_not_sent() -> None:
    bench = awake_after_a_sleep()
    grant = bench.plan.grant()
    assert grant is not None
    assert (grant.sent, grant.granted) == (500, 503 + SHORT_GRANT_FRAMES)  # nobody listens
    assert bench.play(1, filters=QUIET).at_frame == 500
    bench.audio(500, 10, marks=(Mark(MarkKind.BEGIN, 500, 1),))
    assert (bench.plan.buffer.next_frame, bench.plan.buffer.frames_ahead) == (503, 7)
    bench.plan.take_event()
    assert bench.plan.buffer.pop().position_samples == 503 * FRAME_SAMPLES


def test_a_listener_who_comes_while_a_source_is_opened_gets_no_frames_without_sound() -> None:
    bench = awake_after_a_sleep()
    without_outputs = bench.ordered
    bench.ordered = plan_in(bench.plan.listen(PCM_ONLY))
    assert (bench.ordered.at_frame, bench.ordered.switch_to) == (500, 1)
    bench.audio(500, 10, epoch=without_outputs.epoch)
    assert bench.plan.buffer.end_frame == 503
    bench.audio(500, 10)
    assert bench.plan.buffer.end_frame == 510


def test_encoders_begin_with_the_last_frames_after_a_process_died() -> None:
    """They are rendered once more, and nobody gets them twice."""
    bench = Bench()
    bench.plan.listen(frozenset({PCM, Output("opus")}))
    bench.ordered = Plan(1, bench.plan._planned.number, 0, 0, None, 1, None, FLAT)
    bench.audio(0, 10)
    bench.send(4)
    bench.plan.lose()
    opened, opening, _, plan, _ = bench.plan.session_opened(2)
    assert isinstance(opened, OpenSession)
    assert isinstance(plan, Plan)
    bench.ordered = plan
    assert (opened.first_frame, plan.at_frame) == (7, 7)
    assert opening == OpenSourceAt(1, 7 * FRAME_SAMPLES, True)
    kept = bench.plan.buffer.frames_ahead
    bench.audio(7, 10)
    assert bench.plan.buffer.frames_ahead == kept + 7
    assert bench.plan.buffer.next_frame == 4


def test_no_fade_begins_in_frames_that_are_rendered_once_more() -> None:
    """One that should have begun there comes with the first frame that is sent."""
    bench = Bench()
    bench.send(5)
    bench.plan.rest()
    bench.plan.listen(frozenset({Output("opus")}))
    fade = CrossfadeOrder(4 * FRAME_SAMPLES, 9_600, "linear", is_late=True)
    bench.plan.play(Program(1, 2, Mix(FLAT, fade)))
    bench.plan.wake()
    plan = plan_in(bench.plan.session_opened(2))
    assert (plan.at_frame, plan.following, plan.crossfade) == (2, 2, None)
    arrived = Audio(2, plan.epoch, 2, 10, 1, 2 * FRAME_SAMPLES, (), bytes(10 * FRAME_BYTES))
    plan = plan_in(bench.plan.audio(arrived))
    assert (plan.at_frame, plan.following, plan.crossfade) == (5, 2, fade)


def test_while_packets_are_only_passed_through_a_grant_lasts_longer_until_something_else_is_wanted() -> None:
    opus = Output("opus", passes_through=True)
    bench = Bench()
    plan = bench.plan
    bench.ordered = plan_in(plan.listen(frozenset({opus})))

    def arrive(frames: int, *, is_passed: bool) -> None:
        first = max(plan.buffer.end_frame, bench.ordered.at_frame)
        of_frames = frames, 1, first * FRAME_SAMPLES, (), b"", 1.0, ((opus, (b"\xfc",) * frames),), (), is_passed
        plan.audio(Audio(1, bench.ordered.epoch, first, *of_frames))

    def granted(times: int) -> list[tuple[int, int]]:
        """Which frames are granted how far, asked every ten frames."""
        grants = []
        for step in range(times):
            for grant in plan.grant_in_time(is_long_step=not step % 2):
                assert isinstance(grant, Grant)
                assert grant.sent == plan.buffer.next_frame
                grants.append((grant.sent, grant.granted - grant.sent))
            bench.send(10)
        return grants

    plan.buffer.void_from(0)
    arrive(150, is_passed=True)
    assert granted(10) == [(0, PASSED_GRANT_FRAMES), (80, PASSED_GRANT_FRAMES)]
    bench.play(1, filters=QUIET)
    grant = plan.grant()
    assert grant is not None
    assert grant.granted - grant.sent == GRANT_FRAMES, "of which nothing is known yet"
    arrive(80, is_passed=False)
    assert granted(6) == [(frame, GRANT_FRAMES) for frame in range(100, 160, 20)]
