"""Reading ahead: a task fills a bounded window of a source's bytes, and a reader takes them.

Remote files, internet radio and HLS streams differ in how they fill the window, and when they retry a lost transfer.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from tonearm.core.failure import PlayError
from tonearm.sources.http.errors import read_error

# After this many bytes all retries are allowed again. Elapsed time does not count, so that a server that sends nothing
# is given up in the end.
EARNED_BACK_BYTES: Final = 64 * 1024
# Smaller chunks are joined, so that a server that sends single bytes cannot make a million objects.
JOIN_BELOW_BYTES: Final = 4096


class ReadWindow:
    """The bytes from `behind_bytes` behind the reading position up to `ahead_bytes` in front of it.

    The window contains the bytes from `start` to `end`. `position` is the offset of the next read. If it lies beyond
    `end`, the bytes that arrive before `position` are dropped.
    """

    def __init__(self, offset: int, *, behind_bytes: int, ahead_bytes: int) -> None:
        self._chunks: deque[bytes] = deque()
        self._behind_bytes = behind_bytes
        self._ahead_bytes = ahead_bytes
        self.start = offset
        self.end = offset
        self.position = offset

    def hold(self, behind_bytes: int, ahead_bytes: int) -> None:
        """Sets other bounds from now on."""
        self._behind_bytes, self._ahead_bytes = behind_bytes, ahead_bytes

    @property
    def is_full(self) -> bool:
        return self.end - self.position >= self._ahead_bytes

    def append(self, chunk: bytes) -> None:
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

    def clear(self) -> None:
        self._chunks.clear()
        self.start = self.position = self.end

    def _drop_old(self) -> None:
        keep_from = self.position - self._behind_bytes
        while self._chunks and self.start + len(self._chunks[0]) <= keep_from:
            self.start += len(self._chunks.popleft())


class ReadAhead(ReadWindow):
    """A window whose bytes `fill` appends in a task, waiting for room. `read_at` returns them.

    `fill` returns at the end of the source, and raises `PlayError` when it cannot go on. The reader gets all bytes
    before either. `host` is the server's name for messages. Offsets are those of the source.
    """

    def __init__(
        self,
        fill: Callable[[], Coroutine[Any, Any, None]],
        *,
        host: str,
        offset: int = 0,
        behind_bytes: int,
        ahead_bytes: int,
    ) -> None:
        super().__init__(offset, behind_bytes=behind_bytes, ahead_bytes=ahead_bytes)
        self._host = host
        self._part_start = offset
        self._part_ends: deque[int] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._failure: PlayError | None = None
        self._is_complete = False
        self._filling = asyncio.create_task(self._run(fill))

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` from `offset`, which must not lie before `start`.

        Returns `b""` once at the end of each part, and always at the end of the source. Raises `PlayError` after
        `close`, and when `fill` failed and all bytes before the failure were read.
        """
        self.move_to(offset)
        self._room.set()
        while True:
            if self._part_ends and offset == self._part_ends[0]:
                self._part_ends.popleft()
                return b""
            data = self.take(min(max_bytes, self._part_ends[0] - offset) if self._part_ends else max_bytes)
            if data:
                self._room.set()
                return data
            if self._failure is not None:
                raise self._failure
            if self._is_complete:
                return b""
            if self._filling.done():
                self._filling.result()  # raises an error that `fill` did not foresee
            self._arrived.clear()
            await self._arrived.wait()

    def hold(self, behind_bytes: int, ahead_bytes: int) -> None:
        super().hold(behind_bytes, ahead_bytes)
        self._room.set()

    async def close(self) -> None:
        """Cancels `fill` and drops the bytes. A waiting `read_at` raises `PlayError`."""
        self._failure = self._failure or read_error(ConnectionAbortedError(), self._host)
        self._arrived.set()
        self._filling.cancel()
        await asyncio.wait((self._filling,))
        if self._filling.cancelled():
            with contextlib.suppress(asyncio.CancelledError):
                self._filling.result()  # otherwise the task keeps the error, whose traceback keeps this object
        self.clear()

    async def wait_for_room(self) -> None:
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def append(self, chunk: bytes) -> None:
        """Adds the bytes that follow `end`."""
        if chunk:
            super().append(chunk)
            self._arrived.set()

    def end_part(self) -> None:
        """Ends a part at `end`, unless it is empty."""
        if self.end > self._part_start:
            self._part_start = self.end
            self._part_ends.append(self.end)
            self._arrived.set()

    async def _run(self, fill: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await fill()
            self._is_complete = True
        except PlayError as error:
            self._failure = error
        finally:
            self._arrived.set()


class RetryBudget:
    """At most `len(delays_s)` retries, each after the next delay. Once enough bytes have arrived, all retries are
    allowed again."""

    def __init__(self, delays_s: Sequence[float]) -> None:
        self._delays_s = tuple(delays_s)
        self._tries = 0
        self._earned_bytes = 0

    def earn(self, arrived_bytes: int) -> None:
        """Counts bytes that arrived. `EARNED_BACK_BYTES` since the last retry allow all retries again."""
        if self._tries:
            self._earned_bytes += arrived_bytes
            if self._earned_bytes >= EARNED_BACK_BYTES:
                self._tries = 0

    def next_delay_s(self) -> float | None:
        """Counts a retry, and returns the seconds to wait before it; None when no retry is left."""
        if self._tries >= len(self._delays_s):
            return None
        self._tries += 1
        self._earned_bytes = 0
        return self._delays_s[self._tries - 1]

    async def wait(self) -> bool:
        """Waits until the next retry is due, and returns True; False at once when no retry is left."""
        delay_s = self.next_delay_s()
        if delay_s is None:
            return False
        await asyncio.sleep(delay_s)
        return True
