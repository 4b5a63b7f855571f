"""The node's end of a decoder process's socket: messages in both directions, and nothing ever waits."""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from tonearm.decoding.message_coding import BrokenMessage, Message, MessageSplitter, pack
from tonearm.decoding.messages import FromNode

RECEIVE_BYTES: Final = 1024 * 1024
SEND_BYTES: Final = 256 * 1024  # about as much as the kernel takes at once


class DecoderLink:
    """`take_in` is called with every message, and must not raise. `ended` is called once, when the other end has closed
    its socket, or with the error that ended the link; not after `close`."""

    def __init__(
        self,
        connection: socket.socket,
        take_in: Callable[[Message], None],
        ended: Callable[[OSError | BrokenMessage | None], None],
    ) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._take_in = take_in
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._splitter = MessageSplitter()
        self._received = memoryview(bytearray(RECEIVE_BYTES))
        self._outgoing: deque[tuple[bytes, int | None]] = deque()
        self._will_send = False
        self._is_over = False
        self._loop.add_reader(connection, self._receive)

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        """Queues a message; `descriptor` is taken over and closed when it was sent, or cannot be."""
        if self._is_over:
            _close(descriptor)
            return
        self._outgoing.append((pack(message), descriptor))
        if not self._will_send:
            # What many players say in one go, as their grants, wakes the process once.
            self._will_send = True
            self._loop.call_soon(self._send_all)

    def close(self) -> None:
        self._end()
        self._socket.close()

    def _receive(self) -> None:
        try:
            length = self._socket.recv_into(self._received)
            for message in self._splitter.feed(self._received[:length]):
                self._take_in(message)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, BrokenMessage) as error:
            self._end()
            self._ended(error)
            return
        if not length:
            self._end()
            self._ended(None)

    def _send_all(self) -> None:
        """Sends what is queued, or as much as the kernel takes: the rest as soon as it takes more."""
        try:
            while self._outgoing:
                self._send_some()
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._socket, self._send_on)
        except OSError:
            pass  # the process is gone, as is seen in receiving, too; until then nothing is sent any more
        else:
            self._will_send = False

    def _send_on(self) -> None:
        self._loop.remove_writer(self._socket)
        self._send_all()

    def _send_some(self) -> None:
        data, descriptor = self._outgoing.popleft()
        try:
            if descriptor is None:
                data = self._with_what_follows(data)
                sent = self._socket.send(data)
            else:
                sent = socket.send_fds(self._socket, [data], [descriptor])
        except OSError:
            self._outgoing.appendleft((data, descriptor))
            raise
        _close(descriptor)
        if sent < len(data):
            self._outgoing.appendleft((data[sent:], None))

    def _with_what_follows(self, data: bytes) -> bytes:
        """The queued bytes after `data` with it, up to a message that a descriptor goes with."""
        parts, length = [data], len(data)
        while self._outgoing and self._outgoing[0][1] is None and length < SEND_BYTES:
            parts.append(self._outgoing.popleft()[0])
            length += len(parts[-1])
        return b"".join(parts)

    def _end(self) -> None:
        """Nothing is sent or received any more."""
        if self._is_over:
            return
        self._is_over = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        for _, descriptor in self._outgoing:
            _close(descriptor)
        self._outgoing.clear()


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
