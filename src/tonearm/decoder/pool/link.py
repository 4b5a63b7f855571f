"""The node's end of a decoder process's socket: sends and receives messages, and never blocks."""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Final, NamedTuple

from tonearm.decoder.message_coding import BrokenMessage, Message, MessageSplitter, pack
from tonearm.decoder.messages import FromDecoder, FromNode

RECEIVE_BYTES: Final = 1024 * 1024
SEND_BYTES: Final = 256 * 1024  # about as much as the kernel takes at once
RETRY_S: Final = 0.05  # after the kernel refused a descriptor


class _Outgoing(NamedTuple):
    data: bytes
    descriptor: int | None
    session: int  # 0 if the data has parts of several messages


class DecoderLink:
    """Calls `on_message` with every received message; `on_message` may raise `BrokenMessage`. Calls `on_end` once, but
    not after `close`: with None when the process has closed its end, otherwise with the error that ended the link."""

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
        self._splitter = MessageSplitter(FromDecoder)
        self._received = memoryview(bytearray(RECEIVE_BYTES))
        self._outgoing: deque[_Outgoing] = deque()
        # By session: a message that the kernel refuses because too many descriptors are in flight, and all later ones.
        self._stuck: dict[int, list[_Outgoing]] = {}
        self._will_send = False
        self._is_blocked = False  # the kernel's buffer is full: `_send_remaining` goes on
        self._is_over = False
        self._loop.add_reader(connection, self._receive)

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        """Queues a message. Owns `descriptor` from now on and closes it once it is sent, or cannot be sent."""
        if self._is_over:
            _close(descriptor)
            return
        session = getattr(message, "session", 0)
        self._stuck.get(session, self._outgoing).append(_Outgoing(pack(message), descriptor, session))
        if descriptor is not None and not self._is_blocked:
            # A descriptor cannot be joined with other messages, and opening its source takes long. When many sessions
            # move to another process, this process begins with the first source while the node still queues the others.
            self._send_all()
        elif not self._will_send:
            # Messages of one iteration of the loop, such as the grants of many players, wake the process once.
            self._will_send = True
            self._loop.call_soon(self._send_all)

    def close(self) -> None:
        self._end()
        self._socket.close()

    def receive_remaining(self) -> None:
        """Receives what a process had sent before it exited, and ends the link."""
        while not self._is_over and self._receive():
            pass

    def _receive(self) -> bool:
        """Receives up to `RECEIVE_BYTES`. Returns False when there is nothing now, or the link has ended."""
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
            self._loop.add_writer(self._socket, self._send_remaining)
        except OSError:
            pass  # the process is gone: `_receive` finds that, too, and ends the link
        else:
            self._will_send = False

    def _send_remaining(self) -> None:
        self._loop.remove_writer(self._socket)
        self._is_blocked = False
        self._send_all()

    def _send_some(self) -> None:
        outgoing = self._outgoing.popleft()
        data, descriptor, session = outgoing
        try:
            if descriptor is None:
                data = self._joined_with_next(data)
                sent = self._socket.send(data)
            else:
                sent = socket.send_fds(self._socket, [data], [descriptor])
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:  # unix(7): more descriptors are in flight than may be open
                self._set_aside(outgoing)
                return
            self._outgoing.appendleft(_Outgoing(data, descriptor, session))
            raise
        _close(descriptor)
        if sent < len(data):
            self._outgoing.appendleft(_Outgoing(data[sent:], None, 0))

    def _set_aside(self, first: _Outgoing) -> None:
        """Makes a single session wait, from this message on."""
        if not self._stuck:
            self._loop.call_later(RETRY_S, self._retry)
        of_session = [outgoing for outgoing in self._outgoing if outgoing.session == first.session]
        self._outgoing = deque(outgoing for outgoing in self._outgoing if outgoing.session != first.session)
        self._stuck[first.session] = [first, *of_session]

    def _retry(self) -> None:
        if not self._is_over:
            self._outgoing += chain.from_iterable(self._stuck.values())
            self._stuck.clear()
            self._send_all()

    def _joined_with_next(self, data: bytes) -> bytes:
        """`data` and the queued messages after it, up to the next one with a descriptor, as one piece."""
        parts, length = [data], len(data)
        while self._outgoing and self._outgoing[0].descriptor is None and length < SEND_BYTES:
            parts.append(self._outgoing.popleft().data)
            length += len(parts[-1])
        return b"".join(parts)

    def _end(self) -> None:
        """Stops sending and receiving, and closes the descriptors that were not sent."""
        if self._is_over:
            return
        self._is_over = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        for outgoing in chain(self._outgoing, *self._stuck.values()):
            _close(outgoing.descriptor)
        self._outgoing.clear()
        self._stuck.clear()


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
