"""How many requests a second may come from one address: a token bucket that holds the requests of one second."""

from typing import Final

_FORGET_FROM: Final = 10_000  # addresses


class RequestRates:
    """A token bucket for each address. `a_second` requests are allowed; 0 allows all of them. Times are seconds of a
    monotonic clock; the caller passes them in."""

    def __init__(self, a_second: float) -> None:
        self._a_second = a_second
        self._left: dict[str, tuple[float, float]] = {}  # by address: how many requests were left, and when

    def allows(self, address: str, now_s: float) -> bool:
        """Whether a request may come from `address` now. It is counted if so."""
        if not self._a_second:
            return True
        most = max(1.0, self._a_second)
        left, at_s = self._left.get(address, (most, now_s))
        left = min(most, left + (now_s - at_s) * self._a_second)
        is_allowed = left >= 1
        self._left[address] = (left - is_allowed, now_s)
        if len(self._left) > _FORGET_FROM:
            full_after_s = most / self._a_second
            self._left = {address: kept for address, kept in self._left.items() if now_s - kept[1] < full_after_s}
        return is_allowed
