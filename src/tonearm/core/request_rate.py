"""How many requests may come from one place: as many a second as are allowed, and once as many as in a second."""

from typing import Final

_FORGET_FROM: Final = 10_000  # places


class RequestRates:
    """Times are seconds of a monotonic clock; the caller passes them in. A rate of 0 allows everything."""

    def __init__(self, a_second: float) -> None:
        self._a_second = a_second
        self._left: dict[str, tuple[float, float]] = {}  # by place: what was left, and when

    def allows(self, place: str, now_s: float) -> bool:
        """Counts a request."""
        if not self._a_second:
            return True
        most = max(1.0, self._a_second)
        left, at_s = self._left.get(place, (most, now_s))
        left = min(most, left + (now_s - at_s) * self._a_second)
        is_allowed = left >= 1
        self._left[place] = (left - is_allowed, now_s)
        if len(self._left) > _FORGET_FROM:
            full_after_s = most / self._a_second
            self._left = {place: kept for place, kept in self._left.items() if now_s - kept[1] < full_after_s}
        return is_allowed
