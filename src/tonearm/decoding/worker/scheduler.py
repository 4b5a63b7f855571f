"""The threads of a decoder process that open and decode.

Who may work in a decoder process, and for how long somebody has.

Threads that decode side by side fight for the interpreter lock and slow each other down (measured: two at once get
less done than one after the other), so they take turns. A piece of work that waits for bytes gives its turn up.
"""

import heapq
import queue
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Job(Protocol):
    """Something to do in turns, by any thread, that leaves nothing on a stack between them."""

    @property
    def suspect(self) -> int:
        """What is being worked on, for `note`."""
        ...

    def wake(self, slot: int) -> None:
        """Has some thread do the turn that was given to it."""
        ...

    def do_turn(self, slot: int) -> "Slot | None":
        """Does it, and returns what the slot was passed on to."""
        ...


class Slot(NamedTuple):
    """One that has begun, and that somebody must do."""

    work: Job
    slot: int


class DecodeScheduler:
    """Lets as many pieces of work go on at once as there are slots, the most urgent waiting one first.

    `note(slot, suspect)` is told who works in which slot (0: nobody), so that the node can see it when this process
    has died.
    """

    def __init__(
        self, slots: range, note: Callable[[int, int], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.Lock()
        self._free = list(slots)
        self._waiting: list[tuple[float, int, Job | Waiter]] = []
        self._arrivals = 0
        self._since_s: dict[int, float] = {}
        self._note = note
        self._now_s = now_s

    def take(self, due_s: float, suspect: int) -> int:
        """Waits for a turn and returns its slot. The smallest `due_s` goes first, then who has waited longest."""
        sleeper = Waiter(suspect)
        self.enter(sleeper, due_s)
        return sleeper.sleep()

    def enter(self, waiter: "Job | Waiter", due_s: float) -> None:
        """Has `waiter` woken with its turn, as soon as there is one for it; nobody is woken only to wait again."""
        with self._lock:
            if not self._free:
                self._arrivals += 1
                heapq.heappush(self._waiting, (due_s, self._arrivals, waiter))
                return
            slot = self._free.pop()
            self._begin(slot, waiter.suspect)
        waiter.wake(slot)

    def give_up(self, slot: int) -> None:
        """Ends a turn; the slot goes straight to the most urgent one that waits."""
        waiter = self._next(slot)
        if waiter is not None:
            waiter.wake(slot)

    def pass_on(self, slot: int) -> Slot | None:
        """As `give_up`, by a thread that has nothing else to do: it is given the next turn, if any thread can do it.

        Waking another one for it would cost more, mostly because that comes to run on another core.
        """
        waiter = self._next(slot)
        if isinstance(waiter, Waiter):
            waiter.wake(slot)
            return None
        return None if waiter is None else Slot(waiter, slot)

    @property
    def waiting(self) -> int:
        """How many wait for a turn now."""
        return len(self._waiting)

    def busy_s(self) -> float:
        """How long the longest turn of now has lasted."""
        with self._lock:
            begun_s = min(self._since_s.values(), default=None)
        return 0.0 if begun_s is None else self._now_s() - begun_s

    def _next(self, slot: int) -> "Job | Waiter | None":
        """Ends a turn and begins that of the one who is returned."""
        with self._lock:
            if not self._waiting:
                del self._since_s[slot]
                self._note(slot, 0)
                self._free.append(slot)
                return None
            _, _, waiter = heapq.heappop(self._waiting)
            self._begin(slot, waiter.suspect)
            return waiter

    def _begin(self, slot: int, suspect: int) -> None:
        self._since_s[slot] = self._now_s()
        self._note(slot, suspect)


class Waiter:
    """A thread that sleeps until it has a turn, in which it will work on `suspect`. For one turn only."""

    def __init__(self, suspect: int) -> None:
        self.suspect = suspect
        self._slot = -1
        self._gate = threading.Lock()
        self._gate.acquire()

    def sleep(self) -> int:
        """Returns the slot of the turn."""
        self._gate.acquire()
        return self._slot

    def wake(self, slot: int) -> None:
        self._slot = slot
        self._gate.release()


class DecodeThreads:
    """Does turns. One thread does one after the other, and sleeps only when there is none to go on with.

    There must be as many threads as turns can be done at once, and one more for each piece of work that may wait in the
    middle of a turn: it keeps its thread for that long. Then none is ever missing.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()

    def start(self, threads: int) -> None:
        """Begins with so many threads. Raises as `grow`."""
        for _ in range(threads):
            self.grow()

    def grow(self) -> None:
        """One thread more. Raises `RuntimeError` or `MemoryError` when the system does not give it."""
        threading.Thread(target=self._work, name="decoding", daemon=True).start()

    def shrink(self) -> None:
        """One thread less, as soon as one has nothing to do."""
        self._orders.put(None)

    def order(self, work: Job, slot: int) -> None:
        """Has a thread do the turn."""
        self._orders.put(Slot(work, slot))

    def _work(self) -> None:
        while (turn := self._orders.get()) is not None:
            while turn is not None:
                turn = turn.work.do_turn(turn.slot)
