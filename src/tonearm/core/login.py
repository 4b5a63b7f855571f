"""The login of browsers: the value of the cookie, and the limit of wrong passwords. The caller passes in all times."""

import hmac
from collections import deque
from typing import Final

STAY_S: Final = 30 * 24 * 3600
_MINUTE_S: Final = 60.0
_WRONG_OF_ADDRESS: Final = 5
_WRONG_OF_ALL: Final = 50
_CLOCK_MOVED_MS: Final = 60_000  # how far a clock may have been set back since a cookie was made
_MAX_DIGITS: Final = 15


class LoginCookies:
    """Makes and checks the values of cookies. Lasting cookies are signed with `lasting_key`, others with `passing_key`,
    which each process draws anew. A value made before `ended_ms` is not valid. After the clock was set back, `ended_ms`
    may be later than now; then values are made just after it. Times are in ms since 1970."""

    def __init__(self, lasting_key: bytes, passing_key: bytes, ended_ms: int = 0) -> None:
        self._keys = {"stay": lasting_key, "here": passing_key}
        self._ended_ms = ended_ms

    def make(self, now_ms: int, port: int, *, stays: bool) -> str:
        """A value that only a node on `port` accepts."""
        return self._value("stay" if stays else "here", max(now_ms, self._ended_ms + 1), port)

    def knows(self, value: str, now_ms: int, port: int) -> bool:
        kind, _, rest = value.partition(".")
        digits = rest.partition(".")[0]
        if kind not in self._keys or not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
            return False
        made_ms = int(digits)
        is_known = hmac.compare_digest(value.encode("utf-8", "replace"), self._value(kind, made_ms, port).encode())
        is_old = made_ms <= max(self._ended_ms, now_ms - STAY_S * 1000)
        return is_known and not is_old and made_ms <= max(now_ms, self._ended_ms) + _CLOCK_MOVED_MS

    def end_all(self, now_ms: int) -> int:
        """Ends all values made until now. Returns the time before which no value is valid."""
        self._ended_ms = max(now_ms, self._ended_ms + 1)
        return self._ended_ms

    def _value(self, kind: str, made_ms: int, port: int) -> str:
        proof = hmac.new(self._keys[kind], f"{kind}.{made_ms}.{port}".encode(), "sha256").hexdigest()
        return f"{kind}.{made_ms}.{proof}"


class WrongTries:
    """The wrong passwords of the last minute. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._tries: deque[tuple[float, str]] = deque()
        self._told: dict[str, float] = {}

    def wait_s(self, address: str, now_s: float) -> float:
        """0 if a password from `address` may be tried now; otherwise the seconds until it may."""
        self._forget(now_s)
        of_all = [at_s for at_s, _ in self._tries]
        of_address = [at_s for at_s, one in self._tries if one == address]
        oldest = [
            times[-most]
            for times, most in ((of_all, _WRONG_OF_ALL), (of_address, _WRONG_OF_ADDRESS))
            if len(times) >= most
        ]
        return max(oldest) + _MINUTE_S - now_s if oldest else 0.0

    def note(self, address: str, now_s: float) -> bool:
        """Notes a wrong password. Returns whether to log it: once a minute for each address."""
        self._forget(now_s)
        self._tries.append((now_s, address))
        is_told = address not in self._told
        if is_told:
            self._told[address] = now_s
        return is_told

    def _forget(self, now_s: float) -> None:
        while self._tries and self._tries[0][0] <= now_s - _MINUTE_S:
            self._tries.popleft()
        self._told = {address: at_s for address, at_s in self._told.items() if at_s > now_s - _MINUTE_S}
