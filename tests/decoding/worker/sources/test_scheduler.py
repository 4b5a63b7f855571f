import queue
import threading
from collections.abc import Callable

from tonearm.decoding.worker.sources.scheduler import DecodeScheduler, DecodeThreads, Slot


class Notes:
    """What was written down for each slot."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}

    def __call__(self, slot: int, suspect: int) -> None:
        self.slots[slot] = suspect


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def start_waiting(
    scheduler: DecodeScheduler, deadline_s: float, suspect: int, then: Callable[[int], None]
) -> threading.Thread:
    """A thread that acquires a slot, returned as soon as it waits for one."""
    waiting = scheduler.waiting
    thread = threading.Thread(target=lambda: then(scheduler.acquire(deadline_s, suspect)))
    thread.start()
    while scheduler.waiting == waiting:
        thread.join(0.001)
    return thread


def test_as_many_jobs_run_at_once_as_there_are_slots() -> None:
    notes = Notes()
    scheduler = DecodeScheduler(range(1, 3), notes)
    slots = {scheduler.acquire(5, 11), scheduler.acquire(6, 12)}
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
    scheduler.acquire(0, 1)
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


def test_a_suspect_is_noted_for_as_long_as_it_holds_a_slot() -> None:
    notes = Notes()
    scheduler = DecodeScheduler(range(1), notes)
    slot = scheduler.acquire(0, 7 << 32 | 8)
    assert notes.slots == {0: 7 << 32 | 8}
    scheduler.release(slot)
    assert notes.slots == {0: 0}
    assert scheduler.acquire(0, 9) == slot
    assert notes.slots == {0: 9}


def test_busy_is_the_time_of_the_slot_that_is_held_longest() -> None:
    clock = Clock()
    scheduler = DecodeScheduler(range(2), Notes(), clock)
    assert scheduler.busy_s() == 0.0
    first = scheduler.acquire(0, 1)
    clock.now_s += 3
    second = scheduler.acquire(0, 2)
    clock.now_s += 2
    assert scheduler.busy_s() == 5.0
    scheduler.release(first)
    assert scheduler.busy_s() == 2.0
    scheduler.release(second)
    clock.now_s += 10
    assert scheduler.busy_s() == 0.0


def test_waiting_for_a_slot_does_not_count_as_busy() -> None:
    clock = Clock()
    scheduler = DecodeScheduler(range(1), Notes(), clock)
    slot = scheduler.acquire(0, 1)
    taken: list[int] = []
    waiting = start_waiting(scheduler, 0, 2, taken.append)
    clock.now_s += 60
    scheduler.release(slot)
    waiting.join()
    clock.now_s += 1
    assert scheduler.busy_s() == 1.0


class NotingJob:
    """A job that notes which thread ran it."""

    suspect = 5

    def __init__(self, scheduler: DecodeScheduler, threads: DecodeThreads, done_by: queue.SimpleQueue[int]) -> None:
        self._scheduler = scheduler
        self._threads = threads
        self._done_by = done_by

    def start_in(self, slot: int) -> None:
        self._threads.run(Slot(self, slot))

    def run(self, slot: int) -> Slot | None:
        self._done_by.put(threading.get_ident())
        return self._scheduler.release_and_continue(slot)


def test_a_thread_runs_the_next_waiting_job_itself() -> None:
    notes = Notes()
    scheduler, threads = DecodeScheduler(range(1), notes), DecodeThreads()
    threads.add(2)
    done_by: queue.SimpleQueue[int] = queue.SimpleQueue()
    slot = scheduler.acquire(0, 1)
    for deadline_s in range(20):
        scheduler.submit(NotingJob(scheduler, threads, done_by), deadline_s)
    scheduler.release(slot)
    assert len({done_by.get(timeout=10) for _ in range(20)}) == 1
    assert scheduler.acquire(0, 2) == slot
    threads.remove()
    threads.remove()


def test_a_thread_that_waits_for_a_slot_gets_it_from_a_thread_that_has_finished_its_job() -> None:
    scheduler, threads = DecodeScheduler(range(1), Notes()), DecodeThreads()
    threads.add(1)
    done_by: queue.SimpleQueue[int] = queue.SimpleQueue()
    slot = scheduler.acquire(0, 1)
    taken: list[int] = []
    waiting = start_waiting(scheduler, 7, 13, taken.append)
    scheduler.submit(NotingJob(scheduler, threads, done_by), 3)
    scheduler.release(slot)
    waiting.join(10)
    assert taken == [slot]
    assert done_by.qsize() == 1
    threads.remove()
