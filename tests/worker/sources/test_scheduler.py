"""Which job gets a slot when, and how late the others are."""

import threading
import weakref
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.hand_time import HandTime
from tonearm.worker.sources.scheduler import BEGINNING_SLACK_S, DecodeScheduler, UrgencyQueue, Waiter


class Job:
    """Its suspect is its name."""

    def __init__(self, suspect: int, begun: list[int]) -> None:
        self.suspect = suspect
        self.slot = -1
        self._begun = begun

    def start_in(self, slot: int) -> None:
        self._begun.append(self.suspect)
        self.slot = slot


class WaitingJob(Job, Waiter):
    """That of a thread which waits: nobody else can run it."""


class Jobs:
    """A scheduler, which of its jobs have begun, in that order, and the suspect of each slot."""

    def __init__(self, slots: int = 1, clock: HandTime | None = None, before: DecodeScheduler | None = None) -> None:
        self.clock = clock or HandTime()
        self.begun: list[int] = []
        self.suspects: dict[int, int] = {}
        self.scheduler = DecodeScheduler(range(slots), self.suspects.__setitem__, self.clock.now_s, before)
        self.jobs: dict[int, Any] = {}

    def submit(self, suspect: int, due_in_s: float = 0.0, yields_s: float = 0.0) -> None:
        self.jobs[suspect] = (WaitingJob if suspect % 2 else Job)(suspect, self.begun)
        self.scheduler.submit(self.jobs[suspect], self.clock.now_s() + due_in_s, yields_s)

    def end(self, suspect: int, *, is_by_idle_thread: bool = False) -> None:
        if not is_by_idle_thread:
            self.scheduler.release(self.jobs[suspect].slot)
        elif (following := self.scheduler.release_and_continue(self.jobs[suspect].slot)) is not None:
            assert not isinstance(following.job, Waiter)
            following.job.start_in(following.number)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(-9, 20), st.integers(0, 9)),
        st.tuples(st.just("hasten"), st.integers(0, 9), st.integers(-9, 5)),
        st.tuples(st.just("end"), st.integers(0, 1), st.integers(0, 1)),
        st.tuples(st.just("time"), st.integers(1, 9), st.just(0)),
        st.tuples(st.just("take"), st.just(0), st.just(0)),
    ),
    min_size=10,
    max_size=40,
)


@given(STEPS)
def test_slots_go_by_deadline_and_yield_and_it_is_told_how_long_they_were_held_and_jobs_late(
    steps: list[tuple[str, int, int]],
) -> None:
    """Two slots beside a list that is sorted. To wait for a slot is not to be busy, and bytes that come late are
    nobody's fault: a job is late since it was asked for at most."""
    jobs = Jobs(slots=2)
    waiting = dict[int, tuple[float, float]]()  # by suspect: how urgent it is, and since when it is late
    running, begun = dict[int, float](), list[int]()
    worked_s = late_s = 0.0
    for number, (step, first, second) in enumerate(steps, 1):
        now_s = jobs.clock.now_s()
        if step == "submit":
            waiting[number] = now_s + first + second, max(now_s, now_s + first)
            jobs.submit(number, first, second)
        elif step == "hasten" and jobs.jobs:
            suspect = sorted(jobs.jobs)[-1 - first % len(jobs.jobs)]
            if waiting.pop(suspect, None) is not None:  # one that runs, or has ended, is left alone
                waiting[suspect] = now_s + second, max(now_s, now_s + second)
            jobs.scheduler.hasten(jobs.jobs[suspect], now_s + second)
        elif step == "end" and running:
            suspect = sorted(running)[first % len(running)]
            del running[suspect]
            jobs.end(suspect, is_by_idle_thread=bool(second))
        elif step == "time":
            jobs.clock.forward(first)
            worked_s += first * len(running)
        elif step == "take":
            late_s = max([late_s, *(now_s - late_from_s for _, late_from_s in waiting.values())])
            assert jobs.scheduler.take_work_s() == (worked_s, late_s)
            worked_s = late_s = 0.0
        while waiting and len(running) < 2:
            suspect = min(waiting, key=lambda suspect: waiting[suspect][0])
            late_s = max(late_s, now_s - waiting.pop(suspect)[1])
            running[suspect] = now_s
            begun.append(suspect)
        assert jobs.begun == begun
        assert jobs.scheduler.busy_s() == jobs.clock.now_s() - min(running.values(), default=jobs.clock.now_s())
        assert sorted(filter(None, jobs.suspects.values())) == sorted(running)


def test_what_was_taken_is_not_kept_however_often_it_was_hastened() -> None:
    """A dropped job is hastened, and has all that its source has decoded."""
    waiting: UrgencyQueue[Waiter] = UrgencyQueue()
    waiting.add(last := Waiter(1), 5000.0)
    for number in range(100):
        job = Waiter(1)
        for urgency in (BEGINNING_SLACK_S + number, 10.0, 0.0):
            waiting.add(job, urgency)
        assert waiting.take() is job
    gone = weakref.ref(job)
    del job
    assert gone() is None
    assert waiting.take() is last
    assert not waiting


def test_what_begins_waits_while_others_are_late_and_goes_on_when_they_are_not() -> None:
    decoding = Jobs()
    opening = Jobs(2, decoding.clock, before=decoding.scheduler)
    decoding.submit(1)
    decoding.submit(2)
    decoding.clock.forward(1)
    opening.submit(3, BEGINNING_SLACK_S)
    opening.submit(4)  # that of somebody who plays
    assert opening.begun == [4]
    decoding.end(1)
    assert opening.begun == [4, 3]


def test_a_thread_waits_until_it_gets_the_slot_of_a_job_that_ends() -> None:
    jobs, waiter, taken = Jobs(), Waiter(13), list[int]()
    jobs.submit(2)
    jobs.scheduler.submit(waiter, 7)
    waiting = threading.Thread(target=lambda: taken.append(waiter.wait()))
    waiting.start()
    waiting.join(0.05)
    assert not taken
    jobs.end(2)
    waiting.join(10)
    assert taken == [0]
