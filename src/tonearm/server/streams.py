"""Answers that stay open: writing them past aiohttp, and ending all of them at the stop.

WebSockets and HTTP audio share all but their framing: whole messages go straight to the connection's transport.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from aiohttp import web

from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND
from tonearm.core.outputs import Output
from tonearm.protocol import close_codes

# What is in the kernel's buffer can neither be dropped nor measured, so it is kept short. Linux distinguishes what was
# sent and not acknowledged yet from what waits to be sent, and limits that; elsewhere there is one buffer for both. The
# buffer itself is the same for all forms: the kernel counts 2 KiB for each small packet that is under way.
_SEND_BUFFER_BYTES: Final = 64 * 1024
_KERNEL_BUFFER_S: Final = 0.1
_NOT_SENT_LOW_WATER: Final[int | None] = getattr(socket, "TCP_NOTSENT_LOWAT", None)


def kernel_buffer_bytes(output: Output) -> int:
    """How many bytes of this form may wait in the kernel to be sent."""
    if output.format == "pcm":
        return int(_KERNEL_BUFFER_S * FRAMES_PER_SECOND) * FRAME_BYTES
    return max(1024, int(_KERNEL_BUFFER_S * output.bitrate_bps) // 8)


CLOSE_GRACE_S: Final = 1.0


class RawOutput:
    """Writes whole messages in order. No method but the constructor raises, whatever became of the connection.

    Until `open` is called messages are held: a sink is attached before the answer's head is sent, so that a refusal
    can still be an ordinary answer with its status.
    """

    def __init__(self, request: web.BaseRequest, kernel_buffer_bytes: int | None = None) -> None:
        """`kernel_buffer_bytes`: how much may wait in the kernel to be sent, where the kernel reports it."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("The client went away before it was answered.")
        self._transport: asyncio.Transport = transport
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] | None = []
        self._has_ended = False
        self._kernel_buffer_bytes = kernel_buffer_bytes
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
            if self._kernel_buffer_bytes is not None and _NOT_SENT_LOW_WATER is not None:
                connection.setsockopt(socket.IPPROTO_TCP, _NOT_SENT_LOW_WATER, self._kernel_buffer_bytes)
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


class OpenStream(Protocol):
    def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None: ...


class OpenStreams:
    """All answers that stay open, to end them when the node stops."""

    def __init__(self) -> None:
        self._streams: set[OpenStream] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def kept(self, stream: OpenStream) -> Iterator[None]:
        """`stream` is open while this lasts."""
        self._streams.add(stream)
        self._empty.clear()
        try:
            yield
        finally:
            self._streams.discard(stream)
            if not self._streams:
                self._empty.set()

    async def close_all(self, patience_s: float) -> None:
        """Closes every stream that is not closing yet, gives all of them `patience_s` to end, and cuts the rest."""
        for stream in tuple(self._streams):
            stream.close(close_codes.GOING_AWAY, "The node is shutting down.")
        try:
            await asyncio.wait_for(self._empty.wait(), patience_s)
        except TimeoutError:
            for stream in tuple(self._streams):
                stream.abort()
