"""Who may work in a decoder process, and for how long somebody has.

Threads that decode side by side fight for the interpreter lock and slow each other down (measured: two at once get
less done than one after the other), so they take turns. A piece of work that waits for bytes gives its turn up.
"""

import heapq
import threading
import time
from collections.abc import Callable


class Turns:
    """Lets as many pieces of work go on at once as there are slots, the most urgent waiting one first.

    `note(slot, culprit)` is told who works in which slot (0: nobody), so that the node can see it when this process
    has died.
    """

    def __init__(
        self, slots: range, note: Callable[[int, int], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.Lock()
        self._free = list(slots)
        self._waiting: list[tuple[float, int, Sleeper]] = []
        self._arrivals = 0
        self._since_s: dict[int, float] = {}
        self._note = note
        self._now_s = now_s

    def take(self, due_s: float, culprit: int) -> int:
        """Waits for a turn and returns its slot. The smallest `due_s` goes first, then who has waited longest."""
        sleeper = Sleeper(culprit)
        self.enter(sleeper, due_s)
        return sleeper.sleep()

    def enter(self, sleeper: "Sleeper", due_s: float) -> None:
        """Has `sleeper` woken with its turn, as soon as there is one for it; nobody is woken only to wait again."""
        with self._lock:
            if not self._free:
                self._arrivals += 1
                heapq.heappush(self._waiting, (due_s, self._arrivals, sleeper))
                return
            slot = self._free.pop()
            self._begin(slot, sleeper.culprit)
        sleeper.wake(slot)

    def give_up(self, slot: int) -> None:
        """Ends a turn; the slot goes straight to the most urgent one that waits."""
        with self._lock:
            if not self._waiting:
                del self._since_s[slot]
                self._note(slot, 0)
                self._free.append(slot)
                return
            _, _, sleeper = heapq.heappop(self._waiting)
            self._begin(slot, sleeper.culprit)
        sleeper.wake(slot)

    @property
    def waiting(self) -> int:
        """How many wait for a turn now."""
        return len(self._waiting)

    def busy_s(self) -> float:
        """How long the longest turn of now has lasted."""
        with self._lock:
            begun_s = min(self._since_s.values(), default=None)
        return 0.0 if begun_s is None else self._now_s() - begun_s

    def _begin(self, slot: int, culprit: int) -> None:
        self._since_s[slot] = self._now_s()
        self._note(slot, culprit)


class Sleeper:
    """A thread that sleeps until it has a turn, in which it will work on `culprit`. For one turn only."""

    def __init__(self, culprit: int) -> None:
        self.culprit = culprit
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
