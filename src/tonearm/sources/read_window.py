"""A bounded run of a file's bytes in memory."""

from collections import deque
from typing import Final

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
