"""How late the node is: whether its event loop, and with it the clock, gets to its work when it should."""

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

INTERVAL_S: Final = 0.05
WINDOW_S: Final = 10.0
LATE_S: Final = 0.02  # the length of a frame; listeners may hear what is later than this

_SAMPLES: Final = round(WINDOW_S / INTERVAL_S)


class LoadWatch:
    """Measures how late the event loop makes a call that is due every 50 ms. `call_later` is the event loop's."""

    def __init__(
        self, call_later: Callable[[float, Callable[[], None]], object], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._call_later = call_later
        self._now_s = now_s
        self._was_late: deque[bool] = deque(maxlen=_SAMPLES)
        self._due_s = now_s()
        self._is_stopped = False

    def start(self) -> None:
        self._due_s = self._now_s() + INTERVAL_S
        self._call_later(INTERVAL_S, self._measure)

    def stop(self) -> None:
        self._is_stopped = True

    @property
    def load(self) -> float:
        """The share of the last 10 s, 0 to 1, in which the node was late. Time before the start counts as in time."""
        return sum(self._was_late) / _SAMPLES

    def _measure(self) -> None:
        if self._is_stopped:
            return
        late_s = self._now_s() - self._due_s
        # Calls that were due meanwhile were late, too.
        missed = min(_SAMPLES, math.floor(late_s / INTERVAL_S)) if late_s > 0 else 0
        self._was_late.extend([True] * missed)
        self._was_late.append(late_s > LATE_S)
        self._due_s += (missed + 1) * INTERVAL_S
        self._call_later(max(0.0, self._due_s - self._now_s()), self._measure)
