"""Time that a test turns by hand."""

import asyncio
import heapq
from collections.abc import Callable


class Timer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HandTime:
    """A clock with timers. `call_later` and `now_s` stand in for an event loop's."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._timers: list[tuple[float, int, Timer]] = []
        self.timers_set = 0

    def now_s(self) -> float:
        return self._now_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        assert delay_s >= 0
        timer = Timer(call)
        self.timers_set += 1
        heapq.heappush(self._timers, (self._now_s + delay_s, self.timers_set, timer))
        return timer

    @property
    def waiting_timers(self) -> int:
        return len(self._timers)

    def forward(self, seconds: float, late_s: float = 0.0) -> None:
        """Lets time pass; each timer goes off `late_s` after its time, or later when the one before it took long."""
        end_s = self._now_s + seconds
        while self._timers and self._timers[0][0] + late_s <= end_s:
            due_s, _, timer = heapq.heappop(self._timers)
            self._now_s = max(self._now_s, due_s + late_s)
            if not timer.is_cancelled:
                timer.call()
        self._now_s = max(self._now_s, end_s)

    def stand_still(self, seconds: float) -> None:
        """Time passes, and no timer goes off: the machine was busy with something else."""
        self._now_s += seconds


class LoopTime:
    """The running event loop's time, which goes on as ever, or `stands`, and can be put forward: what is due then comes
    at once. While it stands, somebody must have something to do."""

    def __init__(self, *, stands: bool = False) -> None:
        self._ahead_s = 0.0
        loop = asyncio.get_running_loop()
        time_s = loop.time
        stood_s = time_s()
        loop.time = lambda: (stood_s if stands else time_s()) + self._ahead_s  # type: ignore[method-assign]

    def forward(self, seconds: float) -> None:
        self._ahead_s += seconds
