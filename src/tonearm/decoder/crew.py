"""The threads of a decoder process that open and decode."""

import queue
import threading

from tonearm.decoder.turns import Turn, Work


class Crew:
    """Does turns. One thread does one after the other, and sleeps only when there is none to go on with.

    There must be as many threads as turns can be done at once, and one more for each piece of work that may wait in the
    middle of a turn: it keeps its thread for that long. Then none is ever missing.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[Turn | None] = queue.SimpleQueue()

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

    def order(self, work: Work, slot: int) -> None:
        """Has a thread do the turn."""
        self._orders.put(Turn(work, slot))

    def _work(self) -> None:
        while (turn := self._orders.get()) is not None:
            while turn is not None:
                turn = turn.work.do_turn(turn.slot)
