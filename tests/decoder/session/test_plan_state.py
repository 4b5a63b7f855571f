"""The node's side of a session: what leads from one state to another, and the orders that follow."""

import pytest

from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, NO_OUTPUTS, PCM, PCM_ONLY, Output, Outputs
from tonearm.decoder.messages import (
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
from tonearm.decoder.session.plan_moves import Mix, OpenSourceAt, Order, Program, RenewSession
from tonearm.decoder.session.plan_state import PlanState

FLAT, QUIET = Filters(), Filters(volume=0.5)


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

    def audio(self, first: int, frames: int, *, marks: tuple[Mark, ...] = ()) -> tuple[Order, ...]:
        """Frames of the plan ordered last, of source 1."""
        of_frames = first, frames, 1, first * FRAME_SAMPLES, marks, bytes(frames * FRAME_BYTES)
        return self.plan.audio(Audio(1, self.ordered.epoch, *of_frames))

    def send(self, frames: int) -> None:
        for _ in range(frames):
            self.plan.take_event()
            self.plan.buffer.pop()


def plan_in(orders: tuple[Order, ...]) -> Plan:
    (plan,) = (order for order in orders if isinstance(order, Plan))
    return plan


# Cuts and changes


def test_where_a_plan_begins() -> None:
    for until_tick_s, wanted, plan, frames_ahead in (
        (0.02, (2, None, QUIET), (3, 2, 2, None), 0),  # a cut: with the next frame, the buffer is emptied
        (0.02, (1, 2, FLAT), (3, None, 1, 2), 7),  # a change keeps the buffer until it arrives
        (0.005, (1, 2, FLAT), (3, None, 1, 2), 7),  # it comes in time shortly before a tick, too
        (0.005, (1, None, QUIET), (4, None, 1, None), 7),  # filters are for the frame after that tick
    ):
        bench = Bench()
        bench.send(3)
        bench.until_tick_s = until_tick_s
        made = bench.play(*wanted)
        assert (made.at_frame, made.switch_to, made.after, made.following) == plan
        assert bench.plan.buffer.frames_ahead == frames_ahead


# Filters


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


# Sessions


def test_a_cut_that_came_too_early_for_its_source_does_not_fade() -> None:
    bench = Bench()
    fade = CrossfadeOrder(5 * FRAME_SAMPLES, 10 * FRAME_SAMPLES, "linear")
    bench.ordered = plan_in(bench.plan.play(Program(2, None, Mix(FLAT)), cut_fade=fade))
    assert bench.plan.take_faded() is None
    bench.audio(0, 1)
    assert bench.plan.take_faded() == 1


def test_frames_for_a_new_listener_are_rendered_again_and_a_last_partial_frame_is_flushed_again_with_them() -> None:
    """The decoder waits for the next source again with each plan."""
    bench = Bench()
    bench.play(1, 2)
    assert bench.plan.flush() == ()
    bench.plan.decoded(1)
    assert bench.plan.flush() == (Flush(1),)
    (grant,) = bench.plan.listen(NO_OUTPUTS)
    assert isinstance(grant, Grant)
    assert (grant.outputs, bench.plan.flush()) == (NO_OUTPUTS, ())
    bench.send(4)
    plan, grant = bench.plan.listen(PCM_ONLY)
    assert isinstance(plan, Plan)
    assert (plan.at_frame, plan.switch_to, plan.after) == (4, None, 1)
    assert isinstance(grant, Grant)
    assert (grant.outputs, bench.plan.flush()) == (PCM_ONLY, (Flush(1),))
    assert bench.plan.listen(PCM_ONLY) == ()


@pytest.mark.parametrize(
    ("outputs", "mp3_to", "first_frame"),
    [
        (PCM_ONLY, None, 10),
        (frozenset({PCM, Output("opus")}), None, 7),  # encoders begin with the last frames, rendered once more
        (PCM_ONLY, 0, 0),  # nothing was encoded to MP3
        (PCM_ONLY, 3, 3),
        (PCM_ONLY, 10, 10),
    ],
)
def test_another_session_goes_on_after_the_buffered_frames_or_those_that_were_encoded(
    outputs: Outputs, mp3_to: int | None, first_frame: int
) -> None:
    bench = Bench()
    if orders := bench.plan.listen(outputs):
        bench.ordered = plan_in(orders)
        bench.audio(0, 10)
    bench.send(4)
    bench.plan.lose()
    opened, *openings, plan, grant = bench.plan.session_opened(2, mp3_to)
    assert isinstance(opened, OpenSession)
    assert (opened.first_frame, opened.mp3_from, opened.plays_on) == (first_frame, mp3_to, True)
    at_sample = first_frame * FRAME_SAMPLES
    assert openings == [OpenSourceAt(1, at_sample, resumes=True), OpenSourceAt(2, 0, resumes=False)]
    assert isinstance(plan, Plan)
    assert (plan.at_frame, plan.switch_to, plan.after) == (first_frame, 1, 1)
    assert isinstance(grant, Grant)
    bench.ordered = plan
    bench.audio(first_frame, 20)
    assert (bench.plan.buffer.next_frame, bench.plan.buffer.end_frame) == (4, first_frame + 20)  # nobody gets any twice


def test_a_cut_that_died_before_it_was_heard_begins_where_it_was_to_begin_after_a_pause_too() -> None:
    bench = Bench()
    bench.send(1)
    epoch = bench.play(2).epoch
    bench.plan.audio(Audio(1, epoch, 1, 5, 2, 0, (Mark(MarkKind.BEGIN, 1, 2),), bytes(5 * FRAME_BYTES)))
    bench.plan.lose()
    assert OpenSourceAt(2, 5 * FRAME_SAMPLES, resumes=True) in bench.plan.session_opened(2)
    assert bench.plan.fall_silent() == (RenewSession(),)


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


def test_frames_that_pass_while_a_source_is_opened_are_rendered_and_not_sent() -> None:
    bench = Bench()
    bench.plan.listen(NO_OUTPUTS)
    bench.send(10)
    bench.plan.rest()
    bench.plan.buffer.skip(490)
    bench.plan.wake()
    orders = bench.plan.session_opened(2)
    assert OpenSourceAt(1, 500 * FRAME_SAMPLES, resumes=True) in orders
    bench.ordered = plan_in(orders)
    bench.plan.buffer.skip(3)  # while the source is being opened
    grant = bench.plan.grant()
    assert grant is not None
    assert (grant.sent, grant.granted) == (500, 503 + SHORT_GRANT_FRAMES)  # nobody listens
    assert bench.play(1, filters=QUIET).at_frame == 500
    bench.audio(500, 10, marks=(Mark(MarkKind.BEGIN, 500, 1),))
    assert (bench.plan.buffer.next_frame, bench.plan.buffer.frames_ahead) == (503, 7)
    bench.plan.take_event()
    assert bench.plan.buffer.pop().position_samples == 503 * FRAME_SAMPLES
