"""Answers that stay open: writing them past aiohttp, ending all of them at the stop, and the endless WAV file.

WebSockets and HTTP audio share all but their framing: whole messages go straight to the connection's transport.
"""

import asyncio
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from aiohttp import HttpVersion11, web

from tonearm.audio.sinks import Framing
from tonearm.core.frame import CHANNELS, SAMPLE_BLOCK_BYTES, SAMPLE_BYTES, SAMPLE_RATE_HZ
from tonearm.node import Node
from tonearm.server.http_server import connection_lost
from tonearm.server.routing import Call, Route

# What is in the kernel's buffer can neither be dropped nor measured, so it is kept short: about a third of a second.
_SEND_BUFFER_BYTES: Final = 64 * 1024

CLOSE_GRACE_S: Final = 1.0


class RawOutput:
    """Writes whole messages in order. No method but the constructor raises, whatever became of the connection.

    Until `open` is called messages are held: a sink is attached before the answer's head is sent, so that a refusal
    can still be an ordinary answer with its status.
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


_GOING_AWAY: Final = 1001  # RFC 6455, 7.4.1


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
            stream.close(_GOING_AWAY, "The node is shutting down.")
        try:
            await asyncio.wait_for(self._empty.wait(), patience_s)
        except TimeoutError:
            for stream in tuple(self._streams):
                stream.abort()


_PCM: Final = 1
_UNKNOWN_SIZE: Final = 0xFFFFFFFF  # what streaming encoders write when a length cannot be known

# RIFF header, "fmt " chunk of 16 bytes, and the head of the "data" chunk.
WAV_HEADER: Final = struct.pack(
    "<4sI4s4sIHHIIHH4sI",
    b"RIFF",
    _UNKNOWN_SIZE,
    b"WAVE",
    b"fmt ",
    16,
    _PCM,
    CHANNELS,
    SAMPLE_RATE_HZ,
    SAMPLE_RATE_HZ * SAMPLE_BLOCK_BYTES,
    SAMPLE_BLOCK_BYTES,
    SAMPLE_BYTES * 8,
    b"data",
    _UNKNOWN_SIZE,
)


class WavStreamRoutes:
    def __init__(self, node: Node, streams: OpenStreams) -> None:
        self._node = node
        self._streams = streams

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/v0/players/{player_id}/stream.wav", self._listen),)

    async def _listen(self, call: Call) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "audio/wav", "Cache-Control": "no-store"})
        response.force_close()
        if call.request.method == "HEAD":
            await response.prepare(call.request)
            return response
        sink = HttpFrameSink(call.request)
        lost = connection_lost(call.request)
        # Attached before the head is sent, so that a refusal is still an ordinary answer.
        detach = self._node.player(call.player_id).attach(sink)
        try:
            with self._streams.kept(sink):
                await response.prepare(call.request)
                await response.write(WAV_HEADER)
                sink.output.open()
                await asyncio.wait((sink.closed, lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            detach()
            sink.output.end()
        return response


class HttpFrameSink:
    """A listener on an HTTP answer: chunked for HTTP/1.1, for HTTP/1.0 the bare bytes until the connection closes."""

    wants_silence = True

    def __init__(self, request: web.BaseRequest) -> None:
        self.framing = Framing.WAV_CHUNKED if request.version >= HttpVersion11 else Framing.RAW
        self.output = RawOutput(request)
        self.closed = asyncio.get_running_loop().create_future()

    def write(self, message: bytes) -> None:
        self.output.write(message)

    def offer(self, message: bytes) -> bool:
        return self.output.offer(message)

    def pending_bytes(self) -> int:
        return self.output.pending_bytes()

    def close(self, code: int, reason: str) -> None:
        """Ends the body properly; HTTP has no place for the code and the reason."""
        self.output.end()
        if not self.closed.done():
            self.closed.set_result(None)

    def abort(self) -> None:
        self.output.abort()
