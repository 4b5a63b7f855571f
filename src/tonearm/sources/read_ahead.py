"""A bounded run of a file's bytes in memory.

How often a broken transfer may be taken up again.
"""

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


# Chunks below this are joined, so that a server that drips single bytes cannot make a million objects.
JOIN_BELOW_BYTES: Final = 4096


class ReadWindow:
    """The bytes from a little behind the reading position up to `ahead_bytes` in front of it.

    Offsets are those of the file. `position` is where the reader wants to go on; it may lie beyond `end`,
    then what arrives before it is dropped.
    """

    def __init__(self, offset: int, *, behind_bytes: int, ahead_bytes: int) -> None:
        self._chunks: deque[bytes] = deque()
        self._behind_bytes = behind_bytes
        self._ahead_bytes = ahead_bytes
        self.start = offset
        self.end = offset
        self.position = offset

    def hold_ahead(self, ahead_bytes: int) -> None:
        """Changes how much may lie in front of the reading position."""
        self._ahead_bytes = ahead_bytes

    @property
    def is_full(self) -> bool:
        return self.end - self.position >= self._ahead_bytes

    def append(self, chunk: bytes) -> None:
        """Adds the bytes that follow `end`."""
        self.end += len(chunk)
        if self._chunks and len(self._chunks[-1]) + len(chunk) <= JOIN_BELOW_BYTES:
            self._chunks[-1] += chunk
        else:
            self._chunks.append(chunk)
        self._drop_old()

    def move_to(self, offset: int) -> None:
        """Sets the reading position, which must not lie before `start`."""
        self.position = offset
        self._drop_old()

    def take(self, max_bytes: int) -> bytes:
        """Up to `max_bytes` from the reading position, which moves on; empty when nothing is there yet."""
        skip = self.position - self.start
        wanted = min(max_bytes, self.end - self.position)
        if wanted <= 0:
            return b""
        parts: list[bytes] = []
        missing = wanted
        for chunk in self._chunks:
            if skip >= len(chunk):
                skip -= len(chunk)
                continue
            part = chunk[skip : skip + missing]  # the whole chunk is not copied by this
            parts.append(part)
            missing -= len(part)
            skip = 0
            if not missing:
                break
        self.move_to(self.position + wanted)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _drop_old(self) -> None:
        keep_from = self.position - self._behind_bytes
        while self._chunks and self.start + len(self._chunks[0]) <= keep_from:
            self.start += len(self._chunks.popleft())
