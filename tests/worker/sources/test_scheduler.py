import queue
import threading
from collections.abc import Callable

import pytest

from tests.support.hand_time import HandTime
from tonearm.worker.sources.scheduler import BEGINNING_SLACK_S, DecodeScheduler, DecodeThreads, SlotJob, Waiter


class Notes:
    """What was written down for each slot."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}

    def __call__(self, slot: int, suspect: int) -> None:
        self.slots[slot] = suspect


class NotingWaiter(Waiter):
    """Notes its name when it gets a slot."""

    def __init__(self, name: str, order: list[str]) -> None:
        super().__init__(2)
        self._name = name
        self._order = order

    def start_in(self, slot: int) -> None:
        self._order.append(self._name)
        super().start_in(slot)


def acquire(scheduler: DecodeScheduler, deadline_s: float, suspect: int) -> int:
    """Blocks until the calling thread gets a slot, and returns it."""
    waiter = Waiter(suspect)
    scheduler.submit(waiter, deadline_s)
    return waiter.wait()


def start_waiting(
    scheduler: DecodeScheduler, deadline_s: float, suspect: int, then: Callable[[int], None]
) -> threading.Thread:
    """A thread that waits for a slot."""
    waiter = Waiter(suspect)
    scheduler.submit(waiter, deadline_s)
    thread = threading.Thread(target=lambda: then(waiter.wait()))
    thread.start()
    return thread


def test_as_many_jobs_run_at_once_as_there_are_slots() -> None:
    notes = Notes()
    scheduler = DecodeScheduler(range(1, 3), notes)
    slots = {acquire(scheduler, 5, 11), acquire(scheduler, 6, 12)}
    assert slots == {1, 2}
    assert sorted(notes.slots.values()) == [11, 12]

    taken: list[int] = []
    third = start_waiting(scheduler, 0, 13, taken.append)
    assert taken == []
    scheduler.release(2)
    third.join()
    assert taken == [2]
    assert notes.slots[2] == 13


def test_the_earliest_deadline_goes_first_and_equal_ones_in_order() -> None:
    scheduler = DecodeScheduler(range(1), Notes())
    acquire(scheduler, 0, 1)
    order: list[str] = []

    def note(name: str) -> Callable[[int], None]:
        def then(slot: int) -> None:
            order.append(name)
            scheduler.release(slot)

        return then

    threads = [
        start_waiting(scheduler, deadline_s, 2, note(name))
        for name, deadline_s in [
            ("late", 90),
            ("first equal", 10),
            ("second equal", 10),
            ("urgent", -1),
            ("third equal", 10),
        ]
    ]
    scheduler.release(0)
    for thread in threads:
        thread.join()
    assert order == ["urgent", "first equal", "second equal", "third equal", "late"]


def test_busy_is_the_time_of_the_slot_that_is_held_longest() -> None:
    clock = HandTime()
    scheduler = DecodeScheduler(range(2), Notes(), clock.now_s)
    assert scheduler.busy_s() == 0.0
    first = acquire(scheduler, 0, 1)
    clock.forward(3)
    second = acquire(scheduler, 0, 2)
    clock.forward(2)
    assert scheduler.busy_s() == 5.0
    scheduler.release(first)
    assert scheduler.busy_s() == 2.0
    scheduler.release(second)
    clock.forward(10)
    assert scheduler.busy_s() == 0.0
    both = acquire(scheduler, 0, 3), acquire(scheduler, 0, 4)
    waiting = start_waiting(scheduler, 0, 5, lambda _: None)
    clock.forward(60)  # to wait for a slot is not to be busy
    for slot in both:
        scheduler.release(slot)
    waiting.join()
    clock.forward(1)
    assert scheduler.busy_s() == 1.0


def test_what_begins_waits_while_others_are_late_and_goes_on_when_they_are_not() -> None:
    clock = HandTime()
    decoding = DecodeScheduler(range(1), Notes(), clock.now_s)
    opening = DecodeScheduler(range(1, 3), Notes(), clock.now_s, before=decoding)
    slot = acquire(decoding, 0, 1)
    late = start_waiting(decoding, clock.now_s(), 2, lambda _: None)
    clock.forward(1)
    begun: list[int] = []
    begins = start_waiting(opening, clock.now_s() + BEGINNING_SLACK_S, 3, begun.append)
    acquire(opening, clock.now_s(), 4)  # that of somebody who plays

    decoding.release(slot)
    late.join()
    begins.join()
    assert len(begun) == 1


def test_late_is_how_long_a_job_waited_behind_others_since_its_deadline() -> None:
    clock = HandTime()
    scheduler = DecodeScheduler(range(1), Notes(), clock.now_s)
    slot = acquire(scheduler, 0, 1)
    urgent = start_waiting(scheduler, clock.now_s() - 50, 2, lambda _: None)  # its bytes came late: nobody's fault
    patient = start_waiting(scheduler, clock.now_s() + 2, 3, scheduler.release)
    clock.forward(1)
    assert scheduler.take_work_s() == (1.0, 1.0)
    scheduler.release(slot)
    urgent.join()
    clock.forward(4)
    assert scheduler.take_work_s() == (4.0, 3.0)
    scheduler.release(slot)
    patient.join()
    clock.forward(1)
    assert scheduler.take_work_s() == (0.0, 3.0)
    assert scheduler.take_work_s() == (0.0, 0.0)


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
    scheduler, threads = DecodeScheduler(range(1), Notes()), DecodeThreads()
    threads.add(1)
    done_by: queue.SimpleQueue[int] = queue.SimpleQueue()
    slot = acquire(scheduler, 0, 1)
    taken: list[int] = []
    waiting = start_waiting(scheduler, 7, 13, taken.append)
    SlotJob(NotingWork(done_by), scheduler, threads, has_own_thread=False).start()
    scheduler.release(slot)
    waiting.join(10)
    assert taken == [slot]
    assert done_by.qsize() == 1
    threads.remove()


def test_a_job_lets_those_go_first_whose_deadline_is_later_by_less_than_it_yields_and_is_late_since_its_own() -> None:
    clock = HandTime()
    scheduler = DecodeScheduler(range(1), lambda _slot, _suspect: None, clock.now_s)
    slot = acquire(scheduler, clock.now_s(), 1)
    order: list[str] = []
    for name, deadline_s, yields_s in (("newest", 0.1, 0.6), ("oldest", 0.5, 0.0), ("other", 0.8, 0.0)):
        scheduler.submit(NotingWaiter(name, order), clock.now_s() + deadline_s, yields_s)
    clock.forward(0.4)
    scheduler.release(slot)
    assert scheduler.take_work_s()[1] == pytest.approx(0.3)
    for _ in range(2):
        scheduler.release(slot)
    assert order == ["oldest", "newest", "other"]


def test_a_job_that_is_hastened_goes_before_the_others_and_runs_once() -> None:
    scheduler = DecodeScheduler(range(1), lambda _slot, _suspect: None)
    slot = acquire(scheduler, 0, 1)
    order: list[str] = []
    waiters = {name: NotingWaiter(name, order) for name in ("first", "second", "last")}
    for deadline_s, waiter in enumerate(waiters.values(), start=1):
        scheduler.submit(waiter, deadline_s)
    scheduler.hasten(waiters["last"], 0.5)
    for _ in range(3):
        scheduler.release(slot)
    scheduler.hasten(waiters["last"], 0.1)  # it waits no longer
    scheduler.release(slot)
    assert order == ["last", "first", "second"]


def test_a_hastened_job_that_runs_makes_nobody_late() -> None:
    clock = HandTime()
    scheduler = DecodeScheduler(range(1), Notes(), clock.now_s)
    slot = acquire(scheduler, 0, 1)
    hastened, patient = Waiter(2), Waiter(3)
    scheduler.submit(hastened, clock.now_s() + 1)
    scheduler.submit(patient, clock.now_s() + 100)
    scheduler.hasten(hastened, clock.now_s())
    scheduler.release(slot)
    clock.forward(50)
    assert scheduler.take_work_s() == (50.0, 0.0)
