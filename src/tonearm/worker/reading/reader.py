"""The bytes of a source as a file object for libav: from a file's descriptor, or requested from the node.

`DescriptorQueue` receives the descriptors, which arrive over the socket beside the messages.
"""

import errno
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.decoder.message_coding import BrokenMessage
from tonearm.decoder.messages import DATA_CHUNK_BYTES

# Read at once from a file that is not in the page cache; another job uses the slot during each such read.
DISK_CHUNK_BYTES: Final = 128 * 1024
# Errors of file systems that cannot report whether a read would block (tmpfs, NFS, FUSE), of older kernels, and of
# system call filters.
_CANNOT_ASK_CACHE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM})

LOST: Final = -1
_DESCRIPTORS_PER_READ: Final = 4  # the kernel ends a read at the bytes of a descriptor: one is expected


class MediaReader(Protocol):
    """A file object over the bytes of one source. Any method may raise `PlayError`.

    `read` blocks until at least one byte is available, and returns `b""` only at the end. `seek` moves to an offset
    from the start; call it only if `seekable()` is true.
    """

    def read(self, n: int, /) -> bytes: ...

    def seek(self, offset: int, /) -> int: ...

    def seekable(self) -> bool: ...


class Dropped(PlayError):
    """The source was dropped: an order to stop, not a failure. A `PlayError`, since libav passes these on unchanged."""

    def __init__(self) -> None:
        super().__init__(
            PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The source was dropped.", "Nothing to do.")
        )


class DescriptorReader:
    """Reads an open file by position. A read from the page cache happens at once. A read that waits for the disk
    happens inside `without_slot()`, so a slow disk delays only the source that reads from it.

    Other threads call `drop`.
    """

    def __init__(
        self, descriptor: int, size_bytes: int, without_slot: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._descriptor = descriptor
        self._size_bytes = size_bytes
        self._without_slot = without_slot
        self._can_ask_cache = True
        self.offset = 0
        self._chunk = b""  # read from the disk, more than requested
        self._chunk_offset = 0
        self._is_dropped = False

    def read(self, n: int) -> bytes:
        """Up to `n` bytes; `b""` at the end. Raises `PlayError`."""
        if self._is_dropped:
            raise Dropped
        start = self.offset - self._chunk_offset
        try:
            if 0 <= start < len(self._chunk):
                data = self._chunk[start : start + n]
            else:
                self._chunk = b""
                cached = self._read_cached(n)
                data = self._read_disk(n) if cached is None else cached
        except OSError as error:
            message, hint = f"Reading the file failed: {error.strerror}.", "Check the disk and the file."
            raise PlayError.of(FailureCode.FILE_UNREADABLE, Stage.READ, message, hint) from error
        self.offset += len(data)
        return data

    def seek(self, offset: int) -> int:
        self.offset = offset
        return offset

    def seekable(self) -> bool:
        return True

    def begin_at(self, offset: int) -> None:
        self.offset = offset

    def begin_next_part(self) -> bool:
        return False

    def drop(self) -> None:
        self._is_dropped = True

    def close(self) -> None:
        os.close(self._descriptor)

    def _read_cached(self, n: int) -> bytes | None:
        """The part of the next `n` bytes in the page cache; None if no part is, or the kernel does not report it."""
        if not self._can_ask_cache:
            return None
        buffer = bytearray(n)
        try:
            count = os.preadv(self._descriptor, (buffer,), self.offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _CANNOT_ASK_CACHE:
                raise
            self._can_ask_cache = False
            return None
        if count == 0 and self.offset < self._size_bytes:
            return None  # in Linux 5.9 and 5.10 this means "would block"
        return bytes(memoryview(buffer)[:count])

    def _read_disk(self, n: int) -> bytes:
        """Reads a chunk, however long that takes, and returns its first `n` bytes."""
        with self._without_slot():
            chunk = os.pread(self._descriptor, max(n, DISK_CHUNK_BYTES), self.offset)
        if self._is_dropped:
            raise Dropped
        self._chunk, self._chunk_offset = chunk, self.offset
        return chunk[:n]


class RequestingReader:
    """Requests bytes from the node: stores one chunk, and requests the next chunk ahead.

    `request_read(offset, length)` sends a request. Every wait is inside `without_slot()`. Other threads call `deliver`,
    `fail` and `drop`.
    """

    def __init__(
        self,
        size_bytes: int | None,
        is_seekable: bool,
        request_read: Callable[[int, int], None],
        without_slot: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._size_bytes = size_bytes
        self._is_seekable = is_seekable
        self._request_read = request_read
        self._without_slot = without_slot
        self._changed = threading.Condition()
        self.offset = 0
        self._chunk = b""
        self._chunk_offset = 0
        self._end_offset: int | None = None
        self._requested_offset: int | None = None
        self._arrived: bytes | None = None
        self._failure: PlayFailure | None = None
        self._is_dropped = False

    def read(self, n: int) -> bytes:
        if self._is_dropped:
            raise Dropped
        if self._end_offset is not None and self.offset >= self._end_offset:
            return b""
        start = self.offset - self._chunk_offset
        if not 0 <= start < len(self._chunk):
            self._next_chunk()
            start = 0
        data = self._chunk[start : start + n]
        self.offset += len(data)
        if self._requested_offset is None and self._chunk:
            self._request(self._chunk_offset + len(self._chunk))
        return data

    def seek(self, offset: int) -> int:
        self.offset = offset
        return offset

    def seekable(self) -> bool:
        return self._is_seekable

    def begin_at(self, offset: int) -> None:
        """Reads from `offset` on, even in a source that is not seekable."""
        self.offset, self._end_offset = offset, None

    def begin_next_part(self) -> bool:
        """Continues after the end of a part. False at the end of the source.

        Only a source that is not seekable and whose size is unknown can have parts. Raises `PlayError`.
        """
        if self._end_offset is None or self._is_seekable or self._size_bytes is not None:
            return False
        self.offset = self._end_offset
        self._end_offset = None
        self._next_chunk()
        return bool(self._chunk)

    def deliver(self, offset: int, data: bytes) -> None:
        with self._changed:
            if offset == self._requested_offset:
                self._arrived = data
                self._changed.notify()

    def fail(self, offset: int, failure: PlayFailure) -> None:
        """Reading from `offset` fails with `failure`. Other offsets can still be read."""
        with self._changed:
            if offset == self._requested_offset:
                self._failure = failure
                self._changed.notify()

    def drop(self) -> None:
        with self._changed:
            self._is_dropped = True
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._chunk = b""
            self._arrived = self._requested_offset = None

    def _next_chunk(self) -> None:
        if self._requested_offset != self.offset:
            self._request(self.offset)
        self._chunk = self._await_answer()
        self._chunk_offset = self.offset
        if not self._chunk:
            self._end_offset = self.offset  # libav reads several times at the end: this avoids further requests

    def _request(self, offset: int) -> None:
        with self._changed:
            self._requested_offset = offset
            self._arrived = self._failure = None
        self._request_read(offset, DATA_CHUNK_BYTES)

    def _await_answer(self) -> bytes:
        with self._changed:
            if self._has_answer():
                return self._take_answer()
        with self._without_slot(), self._changed:
            self._changed.wait_for(self._has_answer)
        with self._changed:
            return self._take_answer()

    def _has_answer(self) -> bool:
        return self._arrived is not None or self._failure is not None or self._is_dropped

    def _take_answer(self) -> bytes:
        if self._is_dropped:
            raise Dropped
        if self._arrived is None:
            assert self._failure is not None
            raise PlayError(self._failure)
        data = self._arrived
        self._arrived = self._requested_offset = None
        return data


class DescriptorQueue:
    """Reads a socket and queues the descriptors in the order of their messages."""

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()

    def receive(self, connection: socket.socket, length: int) -> bytes:
        """Up to `length` bytes; `b""` when the other end has closed. Raises `OSError`."""
        data, descriptors, flags, _ = socket.recv_fds(connection, length, _DESCRIPTORS_PER_READ)
        self._waiting.extend(descriptors)
        if flags & socket.MSG_CTRUNC:
            # A descriptor was lost, most likely because this process has too many open files. `LOST` takes its place:
            # otherwise its source would play the next source's file.
            self._waiting.append(LOST)
        return data

    def take(self) -> int:
        """The descriptor of the next message with a descriptor, or `LOST`. Raises `BrokenMessage` when none came."""
        if not self._waiting:
            raise BrokenMessage("a message should have had a descriptor with it")
        return self._waiting.popleft()
