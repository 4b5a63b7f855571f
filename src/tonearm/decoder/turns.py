"""Who may work in a decoder process, and for how long somebody has.

Threads that decode side by side fight for the interpreter lock and slow each other down (measured: two at once get
less done than one after the other), so they take turns. A piece of work that waits for bytes gives its turn up.
"""

import heapq
import threading
import time
from collections.abc import Callable
from typing import Final

CULPRIT_SLOTS: Final = 3
OPENING_SLOTS: Final = 2


class Turns:
    """Lets `slots` pieces of work go on at once, the most urgent waiting one first.

    `note(slot, culprit)` is told who works in which slot (0: nobody), so that the node can see it when this process
    has died.
    """

    def __init__(self, slots: range, note: Callable[[int, int], None]) -> None:
        self._lock = threading.Lock()
        self._free = list(slots)
        self._waiting: list[tuple[float, int, threading.Lock, list[int]]] = []
        self._arrivals = 0
        self._since_s: dict[int, float] = {}
        self._note = note

    def take(self, urgency: float, culprit: int) -> int:
        """Waits for a turn and returns its slot. The smallest `urgency` goes first."""
        with self._lock:
            if self._free:
                slot = self._free.pop()
                self._begin(slot, culprit)
                return slot
            gate = threading.Lock()
            gate.acquire()
            given: list[int] = []
            self._arrivals += 1
            heapq.heappush(self._waiting, (urgency, self._arrivals, gate, given))
        gate.acquire()
        slot = given[0]
        with self._lock:
            self._begin(slot, culprit)
        return slot

    def give_up(self, slot: int) -> None:
        with self._lock:
            self._since_s.pop(slot, None)
            self._note(slot, 0)
            if self._waiting:
                _, _, gate, given = heapq.heappop(self._waiting)
                given.append(slot)
                gate.release()
            else:
                self._free.append(slot)

    def busy_s(self) -> float:
        """How long the longest turn of now has lasted."""
        with self._lock:
            begun_s = min(self._since_s.values(), default=None)
        return 0.0 if begun_s is None else time.monotonic() - begun_s

    def _begin(self, slot: int, culprit: int) -> None:
        self._since_s[slot] = time.monotonic()
        self._note(slot, culprit)
