"""Descriptors that come over a Unix socket beside the bytes."""

import socket
from collections import deque
from typing import Final

from tonearm.decoder.messages import BrokenMessage

LOST: Final = -1
_AT_ONCE: Final = 4  # the kernel ends a read at the bytes that a descriptor came with, so one is expected


class DescriptorQueue:
    """Reads a socket and keeps the descriptors in the order of the messages that they came with."""

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()

    def receive(self, connection: socket.socket, length: int) -> bytes:
        """Up to `length` bytes; none when the other end has closed. Raises `OSError`."""
        data, descriptors, flags, _ = socket.recv_fds(connection, length, _AT_ONCE)
        self._waiting.extend(descriptors)
        if flags & socket.MSG_CTRUNC:
            # One was lost, most likely because this process has too many open: the following ones must not be taken
            # for it, which would play another source's file.
            self._waiting.append(LOST)
        return data

    def take(self) -> int:
        """The descriptor for the next message that has one, or `LOST`. Raises `BrokenMessage` when none came."""
        if not self._waiting:
            raise BrokenMessage("a message should have had a descriptor with it")
        return self._waiting.popleft()
