"""How often a broken transfer may be taken up again."""

from collections import deque
from collections.abc import Sequence
from typing import Final

WINDOW_S: Final = 60.0


class RetryBudget:
    """At most `len(delays_s)` tries in any minute, each after a longer delay than the one before."""

    def __init__(self, delays_s: Sequence[float]) -> None:
        self._delays_s = tuple(delays_s)
        self._tries_at_s: deque[float] = deque()

    def next_delay_s(self, now_s: float) -> float | None:
        """Seconds to wait before the next try, which is counted at `now_s`; None when all are used up."""
        while self._tries_at_s and now_s - self._tries_at_s[0] >= WINDOW_S:
            self._tries_at_s.popleft()
        if len(self._tries_at_s) >= len(self._delays_s):
            return None
        delay_s = self._delays_s[len(self._tries_at_s)]
        self._tries_at_s.append(now_s)
        return delay_s
