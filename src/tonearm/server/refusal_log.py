"""Log lines that strangers can cause, in a measure that no stranger can raise."""

import logging
import time
from collections.abc import Callable
from typing import Final

_AT_ONCE: Final = 5
_INTERVAL_S: Final = 10.0

_LOG: Final = logging.getLogger(__name__)


class RefusalLog:
    """At most five lines at once, and one more for each ten seconds; the next one says how many were left out."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._allowance = float(_AT_ONCE)
        self._last_s = now_s()
        self._left_out = 0

    def warn(self, text: str) -> None:
        now_s = self._now_s()
        self._allowance = min(_AT_ONCE, self._allowance + (now_s - self._last_s) / _INTERVAL_S)
        self._last_s = now_s
        if self._allowance < 1:
            self._left_out += 1
            return
        self._allowance -= 1
        left_out, self._left_out = self._left_out, 0
        _LOG.warning("%s%s", text, f" ({left_out} more before it were not logged)" if left_out else "")
