"""When a player gives up after internal errors of the node: one may come of the track, two in a row do not."""

from typing import Final

WITHIN_S: Final = 60.0


class RepeatedErrors:
    """The internal errors of one player. Times are seconds of a monotonic clock; the caller passes them in."""

    def __init__(self) -> None:
        self._last_s: float | None = None

    def is_second(self, now_s: float) -> bool:
        """Notes an error. True when the error before it was at most `WITHIN_S` ago."""
        before_s, self._last_s = self._last_s, now_s
        return before_s is not None and now_s - before_s <= WITHIN_S
