"""Which job gets a slot when, and how late the others are."""

import queue
import threading
import weakref

import pytest

from tests.support.hand_time import HandTime
from tonearm.worker.sources.scheduler import (
    BEGINNING_SLACK_S,
    DecodeScheduler,
    DecodeThreads,
    SlotJob,
    UrgencyQueue,
    Waiter,
)


class Job(Waiter):
    def __init__(self, name: str, suspect: int, begun: list[str]) -> None:
        super().__init__(suspect)
        self._name = name
        self._begun = begun
        self.slot = -1

    def start_in(self, slot: int) -> None:
        self._begun.append(self._name)
        self.slot = slot


class Jobs:
    """A scheduler, which of its jobs have begun, in that order, and the suspect of each slot."""

    def __init__(self, slots: int = 1, clock: HandTime | None = None, before: DecodeScheduler | None = None) -> None:
        self.clock = clock or HandTime()
        self.begun: list[str] = []
        self.suspects: dict[int, int] = {}
        self.scheduler = DecodeScheduler(range(slots), self.suspects.__setitem__, self.clock.now_s, before)
        self._jobs: dict[str, Job] = {}

    def submit(self, name: str, due_in_s: float = 0.0, yields_s: float = 0.0, suspect: int = 1) -> None:
        self._jobs[name] = Job(name, suspect, self.begun)
        self.scheduler.submit(self._jobs[name], self.clock.now_s() + due_in_s, yields_s)

    def hasten(self, name: str, due_in_s: float = 0.0) -> None:
        self.scheduler.hasten(self._jobs[name], self.clock.now_s() + due_in_s)

    def end(self, *names: str) -> None:
        for name in names:
            assert name in self.begun
            self.scheduler.release(self._jobs[name].slot)


def test_as_many_jobs_run_at_once_as_there_are_slots() -> None:
    jobs = Jobs(slots=2)
    for suspect, name in enumerate(("first", "second", "third"), 11):
        jobs.submit(name, suspect=suspect)
    assert jobs.begun == ["first", "second"]
    assert sorted(jobs.suspects.items()) == [(0, 12), (1, 11)]
    jobs.end("first")
    assert jobs.begun[2:] == ["third"]
    assert jobs.suspects == {0: 12, 1: 13}
    jobs.end("second", "third")
    assert jobs.suspects == {0: 0, 1: 0}


def test_the_earliest_deadline_goes_first_and_equal_ones_in_order() -> None:
    jobs = Jobs()
    jobs.submit("first of all")
    due_in_s = {"late": 90, "first equal": 10, "second equal": 10, "urgent": -1, "third equal": 10}
    for name, seconds in due_in_s.items():
        jobs.submit(name, seconds)
    order = ["first of all", "urgent", "first equal", "second equal", "third equal", "late"]
    jobs.end(*order)
    assert jobs.begun == order


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


def test_busy_is_the_time_of_the_slot_that_is_held_longest() -> None:
    jobs = Jobs(slots=2)
    assert jobs.scheduler.busy_s() == 0.0
    jobs.submit("first")
    jobs.clock.forward(3)
    jobs.submit("second")
    jobs.clock.forward(2)
    assert jobs.scheduler.busy_s() == 5.0
    jobs.end("first")
    assert jobs.scheduler.busy_s() == 2.0
    jobs.submit("third")
    jobs.submit("waiting")
    jobs.clock.forward(60)  # to wait for a slot is not to be busy
    jobs.end("second", "third")
    jobs.clock.forward(1)
    assert jobs.scheduler.busy_s() == 1.0
    jobs.end("waiting")
    assert jobs.scheduler.busy_s() == 0.0


def test_what_begins_waits_while_others_are_late_and_goes_on_when_they_are_not() -> None:
    decoding = Jobs()
    opening = Jobs(2, decoding.clock, before=decoding.scheduler)
    decoding.submit("decodes")
    decoding.submit("is late")
    decoding.clock.forward(1)
    opening.submit("begins", BEGINNING_SLACK_S)
    opening.submit("is that of somebody who plays")
    assert opening.begun == ["is that of somebody who plays"]
    decoding.end("decodes")
    assert opening.begun[1:] == ["begins"]


def test_late_is_how_long_a_job_waited_behind_others_since_its_deadline() -> None:
    jobs = Jobs()
    jobs.submit("first")
    jobs.submit("urgent", -50)  # its bytes came late: nobody's fault
    jobs.submit("patient", 2)
    jobs.clock.forward(1)
    assert jobs.scheduler.take_work_s() == (1.0, 1.0)
    jobs.end("first")
    jobs.clock.forward(4)
    assert jobs.scheduler.take_work_s() == (4.0, 3.0)
    jobs.end("urgent", "patient")
    jobs.clock.forward(1)
    assert jobs.scheduler.take_work_s() == (0.0, 3.0)
    assert jobs.scheduler.take_work_s() == (0.0, 0.0)


class NotingWork:
    """Notes which thread does its only step."""

    suspect = 5
    needs_more = False
    yields_s = 0.0

    def __init__(self, done_by: queue.SimpleQueue[int]) -> None:
        self._done_by = done_by

    def step(self) -> bool:
        self._done_by.put(threading.get_ident())
        return False

    def deadline_s(self, now_s: float) -> float:
        return 3.0


def test_a_thread_that_waits_for_a_slot_gets_it_from_a_thread_that_has_finished_its_job() -> None:
    jobs, threads = Jobs(), DecodeThreads()
    threads.add(1)
    done_by: queue.SimpleQueue[int] = queue.SimpleQueue()
    jobs.submit("first")
    waiter, taken = Waiter(13), list[int]()
    jobs.scheduler.submit(waiter, 7)
    waiting = threading.Thread(target=lambda: taken.append(waiter.wait()))
    waiting.start()
    SlotJob(NotingWork(done_by), jobs.scheduler, threads, has_own_thread=False).start()
    jobs.end("first")
    waiting.join(10)
    assert taken == [0]
    assert done_by.qsize() == 1
    threads.remove()


def test_a_job_lets_those_go_first_whose_deadline_is_later_by_less_than_it_yields_and_is_late_since_its_own() -> None:
    jobs = Jobs()
    jobs.submit("first")
    for name, due_in_s, yields_s in (("newest", 0.1, 0.6), ("oldest", 0.5, 0.0), ("other", 0.8, 0.0)):
        jobs.submit(name, due_in_s, yields_s)
    jobs.clock.forward(0.4)
    jobs.end("first")
    assert jobs.scheduler.take_work_s()[1] == pytest.approx(0.3)
    jobs.end("oldest", "newest")
    assert jobs.begun == ["first", "oldest", "newest", "other"]


def test_a_job_that_is_hastened_goes_before_the_others_and_runs_once() -> None:
    jobs = Jobs()
    jobs.submit("first")
    for due_in_s, name in enumerate(("second", "third", "last"), start=1):
        jobs.submit(name, due_in_s)
    jobs.hasten("last", 0.5)
    jobs.end("first", "last", "second")
    jobs.hasten("last", 0.1)  # it waits no longer
    jobs.end("third")
    assert jobs.begun == ["first", "last", "second", "third"]


def test_a_hastened_job_that_runs_makes_nobody_late() -> None:
    jobs = Jobs()
    jobs.submit("first")
    jobs.submit("hastened", 1)
    jobs.submit("patient", 100)
    jobs.hasten("hastened")
    jobs.end("first")
    jobs.clock.forward(50)
    assert jobs.scheduler.take_work_s() == (50.0, 0.0)
