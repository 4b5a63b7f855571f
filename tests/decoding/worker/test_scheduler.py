import queue
import threading
from collections.abc import Callable

from tonearm.decoding.worker.scheduler import DecodeScheduler, DecodeThreads, Slot


class Notes:
    """What was written down, slot by slot."""

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
    turns: DecodeScheduler, urgency: float, suspect: int, then: Callable[[int], None]
) -> threading.Thread:
    """A thread that takes a turn, returned as soon as it waits for it."""
    waiting = turns.waiting
    thread = threading.Thread(target=lambda: then(turns.take(urgency, suspect)))
    thread.start()
    while turns.waiting == waiting:
        thread.join(0.001)
    return thread


def test_as_many_work_at_once_as_there_are_slots() -> None:
    notes = Notes()
    turns = DecodeScheduler(range(1, 3), notes)
    slots = {turns.take(5, 11), turns.take(6, 12)}
    assert slots == {1, 2}
    assert sorted(notes.slots.values()) == [11, 12]

    taken: list[int] = []
    third = start_waiting(turns, 0, 13, taken.append)
    assert taken == []
    turns.give_up(2)
    third.join()
    assert taken == [2]
    assert notes.slots[2] == 13


def test_the_most_urgent_goes_first_and_equals_in_order() -> None:
    turns = DecodeScheduler(range(1), Notes())
    turns.take(0, 1)
    order: list[str] = []

    def work(name: str) -> Callable[[int], None]:
        def then(slot: int) -> None:
            order.append(name)
            turns.give_up(slot)

        return then

    threads = [
        start_waiting(turns, urgency, 2, work(name))
        for name, urgency in [
            ("late", 90),
            ("first equal", 10),
            ("second equal", 10),
            ("urgent", -1),
            ("third equal", 10),
        ]
    ]
    turns.give_up(0)
    for thread in threads:
        thread.join()
    assert order == ["urgent", "first equal", "second equal", "third equal", "late"]


def test_a_slot_is_noted_for_as_long_as_it_is_used() -> None:
    notes = Notes()
    turns = DecodeScheduler(range(1), notes)
    slot = turns.take(0, 7 << 32 | 8)
    assert notes.slots == {0: 7 << 32 | 8}
    turns.give_up(slot)
    assert notes.slots == {0: 0}
    assert turns.take(0, 9) == slot
    assert notes.slots == {0: 9}


def test_busy_is_the_longest_turn_of_now() -> None:
    clock = Clock()
    turns = DecodeScheduler(range(2), Notes(), clock)
    assert turns.busy_s() == 0.0
    first = turns.take(0, 1)
    clock.now_s += 3
    second = turns.take(0, 2)
    clock.now_s += 2
    assert turns.busy_s() == 5.0
    turns.give_up(first)
    assert turns.busy_s() == 2.0
    turns.give_up(second)
    clock.now_s += 10
    assert turns.busy_s() == 0.0


def test_the_time_spent_waiting_for_a_turn_is_not_busy() -> None:
    clock = Clock()
    turns = DecodeScheduler(range(1), Notes(), clock)
    slot = turns.take(0, 1)
    taken: list[int] = []
    waiting = start_waiting(turns, 0, 2, taken.append)
    clock.now_s += 60
    turns.give_up(slot)
    waiting.join()
    clock.now_s += 1
    assert turns.busy_s() == 1.0


class Piece:
    """Work that notes by which thread its turn was done."""

    suspect = 5

    def __init__(self, turns: DecodeScheduler, crew: DecodeThreads, done_by: queue.SimpleQueue[int]) -> None:
        self._turns = turns
        self._crew = crew
        self._done_by = done_by

    def wake(self, slot: int) -> None:
        self._crew.order(self, slot)

    def do_turn(self, slot: int) -> Slot | None:
        self._done_by.put(threading.get_ident())
        return self._turns.pass_on(slot)


def test_a_thread_goes_on_with_what_waits_for_any_thread() -> None:
    notes = Notes()
    turns, crew = DecodeScheduler(range(1), notes), DecodeThreads()
    crew.start(2)
    done_by: queue.SimpleQueue[int] = queue.SimpleQueue()
    slot = turns.take(0, 1)
    for due_s in range(20):
        turns.enter(Piece(turns, crew, done_by), due_s)
    turns.give_up(slot)
    assert len({done_by.get(timeout=10) for _ in range(20)}) == 1
    assert turns.take(0, 2) == slot
    crew.shrink()
    crew.shrink()


def test_a_thread_that_sleeps_for_its_turn_is_woken_by_one_that_has_none_to_go_on_with() -> None:
    turns, crew = DecodeScheduler(range(1), Notes()), DecodeThreads()
    crew.start(1)
    done_by: queue.SimpleQueue[int] = queue.SimpleQueue()
    slot = turns.take(0, 1)
    taken: list[int] = []
    sleeping = start_waiting(turns, 7, 13, taken.append)
    turns.enter(Piece(turns, crew, done_by), 3)
    turns.give_up(slot)
    sleeping.join(10)
    assert taken == [slot]
    assert done_by.qsize() == 1
    crew.shrink()
