"""A client's WebSocket, with the frames that a server sends: one for each message, unmasked (RFC 6455, section 5.2).

Messages of the client are read and ignored, except for pings, pongs, the close, and texts when a handler takes them.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from aiohttp import HttpVersion11, WSMsgType, web

from tonearm.server.replies import UpgradeRequired
from tonearm.server.streams import MessageWriter, OpenStreams

# Clients need not send anything, so a larger message is answered with a close, code 1009.
_MAX_MESSAGE_BYTES: Final = 64 * 1024

# A client that reads nothing gets no more pongs when so much is pending, so that its pings cannot fill the memory.
_MAX_PENDING_FOR_PONG_BYTES: Final = 256 * 1024

# At most this many messages of a client are read at once, before a pause: a megabyte may contain a hundred thousand
# messages.
_MESSAGES_AT_ONCE: Final = 50
_FLOOD_PAUSE_S: Final = 0.01

_LOWEST_CLOSE_CODE: Final = 1000


class _Response(web.WebSocketResponse):
    """A response that removes the traceback of its error. aiohttp's `close` keeps the error of a lost connection, and
    the error's traceback would keep the response in memory."""

    async def close(self, *, code: int = 1000, message: bytes = b"", drain: bool = True) -> bool:
        try:
            return await super().close(code=code, message=message, drain=drain)
        finally:
            error = self.exception()
            if error is not None:
                error.__traceback__ = None


class WebSocketConnection:
    """A WebSocket: aiohttp does the handshake and parses what is received, this class writes what is sent.

    aiohttp's writer would send pongs and a second close frame after our close frame, and its `close` waits for the
    peer, which the audio clock cannot do. `heard` takes the texts that the client sends.
    """

    def __init__(self, request: web.BaseRequest, streams: OpenStreams, kernel_buffer_bytes: int | None = None) -> None:
        """Raises `UpgradeRequired` when the request is no WebSocket handshake."""
        self._request = request
        self._response = _Response(
            compress=False,
            autoping=False,
            autoclose=False,
            max_msg_size=_MAX_MESSAGE_BYTES,
            timeout=streams.close_grace_s,
        )
        _require_handshake(request, self._response)
        self.heard: Callable[[str], None] | None = None
        self.writer = MessageWriter(request, streams.close_grace_s, kernel_buffer_bytes)
        self._streams = streams
        self._received_since_ping = True
        self._next_ping: asyncio.TimerHandle | None = None

    async def run(self, leave: Callable[[], object]) -> web.WebSocketResponse:
        """Answers the handshake, serves the socket until it is closed, and calls `leave`, however it ended. Returns the
        finished response."""
        try:
            with self._streams.kept(self):
                return await self._run()
        finally:
            leave()

    async def _run(self) -> web.WebSocketResponse:
        await self._response.prepare(self._request)
        try:
            self.writer.open()
            self._schedule_ping()
            await self._receive_until_closed()
        finally:
            self._cancel_ping()
            # Before aiohttp gets the response back: it sends no close frame of its own to a closing transport.
            self.writer.hang_up()
        return self._response

    def close(self, code: int, reason: str) -> None:
        """Sends the close frame at once, and nothing after it. The socket is cut when the peer does not answer."""
        self.writer.write(close_frame(code, reason))
        self.writer.end()
        self._cancel_ping()

    def abort(self) -> None:
        self.writer.abort()
        self._cancel_ping()

    async def _receive_until_closed(self) -> None:
        for count in itertools.count(1):
            if count % _MESSAGES_AT_ONCE == 0:
                await asyncio.sleep(_FLOOD_PAUSE_S)  # `receive` does not suspend while messages are there
            message = await self._response.receive()
            self._received_since_ping = True
            if message.type is WSMsgType.PING:
                if self.writer.pending_bytes() <= _MAX_PENDING_FOR_PONG_BYTES:
                    self.writer.write(_frame(_PONG, bytes(message.data)))
            elif message.type is WSMsgType.TEXT and self.heard is not None:
                self.heard(message.data)
            elif message.type is WSMsgType.CLOSE:
                # The answer has the peer's code, or none when the peer sent none.
                code = int(message.data or 0)
                self.writer.write(close_frame(code if code >= _LOWEST_CLOSE_CODE else None))
                return
            elif message.type in (WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                return

    def _schedule_ping(self) -> None:
        if not self.writer.has_ended:
            self._next_ping = asyncio.get_running_loop().call_later(self._streams.ping_interval_s, self._ping)

    def _ping(self) -> None:
        if not self._received_since_ping:
            self.abort()
            return
        self._received_since_ping = False
        self.writer.write(_frame(_PING, b""))
        self._schedule_ping()

    def _cancel_ping(self) -> None:
        if self._next_ping is not None:
            self._next_ping.cancel()
            self._next_ping = None


def _require_handshake(request: web.BaseRequest, response: web.WebSocketResponse) -> None:
    try:
        is_handshake = request.method == "GET" and request.version >= HttpVersion11 and response.can_prepare(request).ok
    except ValueError:  # a key that is not ASCII
        is_handshake = False
    if not is_handshake:
        raise UpgradeRequired


# The first byte of a frame: it is final, and its opcode.
_TEXT: Final = 0x81
_CLOSE: Final = 0x88
_PING: Final = 0x89
_PONG: Final = 0x8A

_MAX_REASON_BYTES: Final = 123  # a control frame has at most 125 bytes, two of them for the code


def text_frame(text: str) -> bytes:
    return _frame(_TEXT, text.encode("utf-8", "replace"))


def close_frame(code: int | None, reason: str = "") -> bytes:
    """A close frame, with `code` None one without a code. A reason too long for a control frame is cut."""
    if code is None:
        return _frame(_CLOSE, b"")
    cut = reason.encode("utf-8", "replace")[:_MAX_REASON_BYTES].decode("utf-8", "ignore").encode()
    return _frame(_CLOSE, code.to_bytes(2) + cut)


def _frame(first_byte: int, payload: bytes) -> bytes:
    size = len(payload)
    if size <= 125:
        return bytes((first_byte, size)) + payload
    if size < 1 << 16:
        return bytes((first_byte, 126)) + size.to_bytes(2) + payload
    return bytes((first_byte, 127)) + size.to_bytes(8) + payload
