"""Answers that stay open: writing to them without aiohttp, and ending all of them when the node stops.

WebSockets and HTTP audio share this code: whole messages, framed already, go straight to the connection's transport.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from aiohttp import web

from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND, Output
from tonearm.protocol.framing import CloseCode

# Bytes in the kernel's buffer can neither be dropped nor measured, so few are allowed. Linux can limit the bytes that
# were not sent yet (TCP_NOTSENT_LOWAT) apart from the bytes that were not acknowledged. The buffer itself is the same
# for all forms: the kernel counts 2 KiB for each small packet that is under way.
_SEND_BUFFER_BYTES: Final = 64 * 1024
_KERNEL_BUFFER_S: Final = 0.1
_NOT_SENT_LOW_WATER: Final[int | None] = getattr(socket, "TCP_NOTSENT_LOWAT", None)


def kernel_buffer_bytes(output: Output) -> int:
    """How many unsent bytes of this form the kernel may have."""
    if output.format == "pcm":
        return int(_KERNEL_BUFFER_S * FRAMES_PER_SECOND) * FRAME_BYTES
    return max(1024, int(_KERNEL_BUFFER_S * output.bitrate_bps) // 8)


class MessageWriter:
    """Writes whole messages in order. No method but the constructor raises, whatever became of the connection.

    Messages wait until `open` is called. Sinks are attached before the answer's head is sent, so that a refusal can
    still be an ordinary answer with its status.
    """

    def __init__(self, request: web.BaseRequest, close_grace_s: float, kernel_buffer_bytes: int | None = None) -> None:
        """`close_grace_s`: see `OpenStreams`. `kernel_buffer_bytes`: how many unsent bytes the kernel may have, where
        it can limit them."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("The client went away before it was answered.")
        self._transport: asyncio.Transport = transport
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] | None = []
        self._has_ended = False
        self._close_grace_s = close_grace_s
        self._kernel_buffer_bytes = kernel_buffer_bytes
        self.written_bytes = 0

    @property
    def has_ended(self) -> bool:
        return self._has_ended

    def open(self) -> None:
        """To be called when the answer's head is written: from now on messages are sent at once."""
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
        """As `write`, and returns True. While earlier bytes are pending, sends nothing and returns False."""
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
        """Ends writing. A connection that is not closed soon after is cut."""
        if not self._has_ended:
            self._has_ended = True
            self._loop.call_later(self._close_grace_s, self.abort)

    def hang_up(self) -> None:
        """Ends writing, and closes the connection as soon as everything is sent."""
        self.end()
        self._transport.close()

    def abort(self) -> None:
        """Cuts the connection. Pending bytes are lost."""
        self._has_ended = True
        self._transport.abort()

    def _send(self, message: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(message)


class OpenStream(Protocol):
    def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None: ...


class OpenStreams:
    """All answers that stay open, to end them when the node stops. WebSockets are pinged each `ping_interval_s`, and
    cut after two intervals without an answer. A stream that has ended is cut if it is not closed `close_grace_s` later.
    """

    def __init__(self, ping_interval_s: float, close_grace_s: float) -> None:
        self.ping_interval_s: Final = ping_interval_s
        self.close_grace_s: Final = close_grace_s
        self._streams: set[OpenStream] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def kept(self, stream: OpenStream) -> Iterator[None]:
        """Counts `stream` among the open streams for the duration of the block."""
        self._streams.add(stream)
        self._empty.clear()
        try:
            yield
        finally:
            self._streams.discard(stream)
            if not self._streams:
                self._empty.set()

    async def close_all(self, patience_s: float) -> None:
        """Closes every stream, waits up to `patience_s` until all have ended, and cuts the others."""
        for stream in tuple(self._streams):
            stream.close(CloseCode.GOING_AWAY, "The node is shutting down.")
        try:
            await asyncio.wait_for(self._empty.wait(), patience_s)
        except TimeoutError:
            for stream in tuple(self._streams):
                stream.abort()
