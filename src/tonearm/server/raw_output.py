"""Bytes that go past aiohttp's writers straight to a connection's transport."""

import asyncio
import socket
from typing import Final

from aiohttp import web

# What is in the kernel's buffer can neither be dropped nor measured, so it is kept short: about a third of a second.
_SEND_BUFFER_BYTES: Final = 64 * 1024

CLOSE_GRACE_S: Final = 1.0


class RawOutput:
    """Writes whole messages in order. No method but the constructor raises, whatever became of the connection.

    Until `open` is called messages are held: whoever feeds the output may begin before the answer's head is out,
    so that what it refuses can still be told by a status.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("The client went away before it was answered.")
        self._transport: asyncio.Transport = transport
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] | None = []
        self._has_ended = False
        self.written_bytes = 0

    @property
    def has_ended(self) -> bool:
        return self._has_ended

    def open(self) -> None:
        """The head of the answer is written: from now on messages go out at once."""
        connection = self._transport.get_extra_info("socket")
        if connection is not None and not self._transport.is_closing():
            # aiohttp sets TCP_NODELAY on every connection that it accepts.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        held, self._held = self._held, None
        for message in held or ():
            self._send(message)

    def write(self, message: bytes) -> None:
        """Sends `message`, or drops it after `end`."""
        if self._has_ended:
            return
        self.written_bytes += len(message)
        if self._held is not None:
            self._held.append(message)
        else:
            self._send(message)

    def offer(self, message: bytes) -> bool:
        """As `write`, unless something else is pending: then the message is not taken, and False returned."""
        transport = self._transport
        if self._held is not None or self._has_ended or transport.is_closing():
            if self.pending_bytes():
                return False
            self.write(message)
            return True
        if transport.get_write_buffer_size():
            return False
        self.written_bytes += len(message)
        transport.write(message)
        return True

    def pending_bytes(self) -> int:
        """Bytes written but not yet handed to the kernel."""
        if self._held is not None:
            return sum(map(len, self._held))
        return 0 if self._transport.is_closing() else self._transport.get_write_buffer_size()

    def end(self) -> None:
        """Nothing is written any more. A client that does not let the connection close is cut after a second."""
        if not self._has_ended:
            self._has_ended = True
            self._loop.call_later(CLOSE_GRACE_S, self.abort)

    def hang_up(self) -> None:
        """Ends, and closes the connection as soon as everything is sent."""
        self.end()
        self._transport.close()

    def abort(self) -> None:
        """Cuts the connection; what is pending is lost."""
        self._has_ended = True
        self._transport.abort()

    def _send(self, message: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(message)
