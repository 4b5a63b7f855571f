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
        self._waiting: list[tuple[float, int, _Waiting]] = []
        self._arrivals = 0
        self._since_s: dict[int, float] = {}
        self._note = note
        self._now_s = now_s

    def take(self, urgency: float, culprit: int) -> int:
        """Waits for a turn and returns its slot. The smallest `urgency` goes first, then who has waited longest."""
        with self._lock:
            if self._free:
                slot = self._free.pop()
                self._begin(slot, culprit)
                return slot
            waiting = _Waiting(culprit)
            self._arrivals += 1
            heapq.heappush(self._waiting, (urgency, self._arrivals, waiting))
        waiting.gate.acquire()
        return waiting.slot

    def give_up(self, slot: int) -> None:
        """Ends a turn; the slot goes straight to the most urgent one that waits."""
        with self._lock:
            if not self._waiting:
                del self._since_s[slot]
                self._note(slot, 0)
                self._free.append(slot)
                return
            _, _, waiting = heapq.heappop(self._waiting)
            self._begin(slot, waiting.culprit)
            waiting.slot = slot
        waiting.gate.release()

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


class _Waiting:
    """Somebody who waits at a closed gate for a slot."""

    def __init__(self, culprit: int) -> None:
        self.culprit = culprit
        self.slot = -1
        self.gate = threading.Lock()
        self.gate.acquire()
