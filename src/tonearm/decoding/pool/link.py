"""The node's end of a decoder process's socket: messages in both directions, without ever blocking."""

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
    """Calls `on_message` with every message received; it must not raise. Calls `on_end` once: with None when the
    process has closed its end, else with the error that ended the link; never after `close`."""

    def __init__(
        self,
        connection: socket.socket,
        on_message: Callable[[Message], None],
        on_end: Callable[[OSError | BrokenMessage | None], None],
    ) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._on_message = on_message
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._splitter = MessageSplitter()
        self._received = memoryview(bytearray(RECEIVE_BYTES))
        self._outgoing: deque[tuple[bytes, int | None]] = deque()
        self._will_send = False
        self._is_blocked = False  # the kernel takes no more: `_send_rest` goes on
        self._is_over = False
        self._loop.add_reader(connection, self._receive)

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        """Queues a message. Owns `descriptor` from now on and closes it once it is sent, or cannot be sent."""
        if self._is_over:
            _close(descriptor)
            return
        self._outgoing.append((pack(message), descriptor))
        if descriptor is not None and not self._is_blocked:
            # It is sent by itself anyway, and there is much to do with it: of many that move, the first is begun with.
            self._send_all()
        elif not self._will_send:
            # Messages of one loop turn, such as the grants of many players, wake the process once.
            self._will_send = True
            self._loop.call_soon(self._send_all)

    def close(self) -> None:
        self._end()
        self._socket.close()

    def receive_rest(self) -> None:
        """Receives all that a process that is gone had sent; ends the link."""
        while not self._is_over and self._receive():
            pass

    def _receive(self) -> bool:
        """Receives what there is, up to `RECEIVE_BYTES`. False when there is nothing, or nothing more to come."""
        try:
            length = self._socket.recv_into(self._received)
            for message in self._splitter.feed(self._received[:length]):
                self._on_message(message)
        except (BlockingIOError, InterruptedError):
            return False
        except (OSError, BrokenMessage) as error:
            self._end()
            self._on_end(error)
            return False
        if not length:
            self._end()
            self._on_end(None)
        return bool(length)

    def _send_all(self) -> None:
        """Sends what is queued, as much as the kernel takes, and the rest as soon as it takes more."""
        if self._is_blocked:
            return
        try:
            while self._outgoing:
                self._send_some()
        except (BlockingIOError, InterruptedError):
            self._is_blocked = self._will_send = True
            self._loop.add_writer(self._socket, self._send_rest)
        except OSError:
            pass  # The process is gone: receiving finds the same and ends the link.
        else:
            self._will_send = False

    def _send_rest(self) -> None:
        self._loop.remove_writer(self._socket)
        self._is_blocked = False
        self._send_all()

    def _send_some(self) -> None:
        data, descriptor = self._outgoing.popleft()
        try:
            if descriptor is None:
                data = self._joined_with_next(data)
                sent = self._socket.send(data)
            else:
                sent = socket.send_fds(self._socket, [data], [descriptor])
        except OSError:
            self._outgoing.appendleft((data, descriptor))
            raise
        _close(descriptor)
        if sent < len(data):
            self._outgoing.appendleft((data[sent:], None))

    def _joined_with_next(self, data: bytes) -> bytes:
        """`data` and the queued messages after it, up to one that carries a descriptor, as one piece."""
        parts, length = [data], len(data)
        while self._outgoing and self._outgoing[0][1] is None and length < SEND_BYTES:
            parts.append(self._outgoing.popleft()[0])
            length += len(parts[-1])
        return b"".join(parts)

    def _end(self) -> None:
        """Stops sending and receiving, and closes the descriptors that were not sent."""
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
