"""The file object that libav reads from: it holds what libav may take to limits, and keeps errors from being lost."""

import io
import time
from collections.abc import Callable
from typing import Final

from tonearm.core.failure import PlayError
from tonearm.decoder import play_errors
from tonearm.decoder.first_bytes import OPENING_DEADLINE_S
from tonearm.decoder.media_reader import MediaReader
from tonearm.decoder.reader import Dropped

OPENING_BUDGET_BYTES: Final = 32 * 1024 * 1024
# Between two audio packets of a playable file lies at most some video. An endless stream of junk ends here: libav needs
# up to 3 s of CPU for as much, when it is made to look like Ogg pages.
SILENT_BUDGET_BYTES: Final = 16 * 1024 * 1024


class GuardedReader:
    """Passes reads on to a `MediaReader` while they are within bounds.

    It has no `name`, `mode`, `write` or `close` on purpose: PyAV looks for those, and a name would be a path for libav.

    The first error is kept in `failure`, because libav may swallow what a callback raises or turn it into the end of
    the file. After it every read answers the end, so that libav comes back soon. A source whose bytes break off is
    kept in `break_off`: for libav it has ended, so that all that came before is still heard.

    `deadline_s` is when, by the clock, the source must be open; None: `OPENING_DEADLINE_S` from now.
    """

    def __init__(
        self,
        reader: MediaReader,
        *,
        name: str,
        size_bytes: int | None,
        deadline_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failure: Exception | None = None
        self.break_off: PlayError | None = None
        self.bytes_read = 0
        self._reader = reader
        self._name = name
        self._size_bytes = size_bytes
        self._clock = clock
        self._deadline_s: float | None = clock() + OPENING_DEADLINE_S if deadline_s is None else deadline_s
        self._budget_bytes = OPENING_BUDGET_BYTES
        self._budget_left = OPENING_BUDGET_BYTES
        self._is_seekable = reader.seekable()
        self._position = 0

    def begin_playing(self) -> None:
        """The source is open: from here the deadline is off and the budget counts from packet to packet."""
        self._deadline_s = None
        self._budget_bytes = SILENT_BUDGET_BYTES
        self.packet_came()

    def begin_seeking(self) -> None:
        """Containers without an index are read through to the wanted position."""
        self._budget_left = SILENT_BUDGET_BYTES + 2 * (self._size_bytes or 0)

    def packet_came(self) -> None:
        self._budget_left = self._budget_bytes

    def raise_failure(self) -> None:
        """Raise the error after which nothing can be used any more, if there was one."""
        if self.failure is not None:
            raise self.failure

    def raise_cause(self) -> None:
        """At the end, and where libav can make nothing of what it got: raise why no more came, if that is known."""
        self.raise_failure()
        if self.break_off is not None:
            raise self.break_off

    # What PyAV calls. An error must be an `Exception`: a `BaseException` is dropped there and decoding goes on.

    def read(self, n: int) -> bytes:
        if self.failure is not None or self.break_off is not None:
            return b""
        try:
            self._check_limits()
            # Cut and copied, because libav has room for n bytes only and takes the object for `bytes` unchecked.
            data = bytes(self._read_source(n)[:n])
        except OSError as error:
            self.failure = play_errors.unreadable(self._name, error)
            raise self.failure from error
        except Exception as error:
            self.failure = error
            raise
        self.bytes_read += len(data)
        self._budget_left -= len(data)
        self._position += len(data)
        return data

    def _read_source(self, n: int) -> bytes:
        try:
            return self._reader.read(n)
        except Dropped:
            raise
        except PlayError as error:
            self.break_off = error
            return b""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self.failure is not None:
            return self._position
        try:
            self._position = self._seek(offset, whence)
        except OSError as error:
            self.failure = play_errors.unreadable(self._name, error)
            raise self.failure from error
        except PlayError as error:
            self.failure = error
            raise
        return self._position

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return self._is_seekable

    def readable(self) -> bool:
        return True

    def _seek(self, offset: int, whence: int) -> int:
        if whence == io.SEEK_END and self._size_bytes is not None:
            offset, whence = self._size_bytes + offset, io.SEEK_SET
        if whence == io.SEEK_CUR:
            offset, whence = self._position + offset, io.SEEK_SET
        if whence == io.SEEK_SET and offset == self._position:
            return offset
        return self._reader.seek(max(offset, 0) if whence == io.SEEK_SET else offset, whence)

    def _check_limits(self) -> None:
        if self._deadline_s is not None and self._clock() > self._deadline_s:
            raise play_errors.opening_took_too_long(self._name, OPENING_DEADLINE_S)
        if self._budget_left <= 0:
            mebibytes = self._budget_bytes // (1024 * 1024)
            raise play_errors.limit_exceeded(self._name, f"no audio in {mebibytes} MiB of data")
