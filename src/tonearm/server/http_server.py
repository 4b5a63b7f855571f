"""aiohttp's HTTP server, with this node's answers instead of aiohttp's, and with limits on connections.

A connection is a stranger until a request of it was let in: a whole request with the password. Strangers may have only
a share of all connections, and the oldest stranger gives way to the next connection. So clients that never send a whole
request cannot keep others out. Admitted connections that give way cannot either.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, TypeVar

from aiohttp import HttpVersion10, HttpVersion11, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import BadHttpMethod
from aiohttp.http_parser import RawRequestMessage

from tonearm.core.request_rates import origin_of
from tonearm.server.replies import error_reply, internal_error_reply, new_request_id

T = TypeVar("T")

log = logging.getLogger(__name__)

# A source's URI has up to 4096 characters, and each may take nine bytes when it is percent-encoded in a query.
_MAX_REQUEST_LINE_BYTES: Final = 64 * 1024

_VERSIONS: Final = (HttpVersion10, HttpVersion11)

_LINES_AT_ONCE: Final = 5  # in the log
_LINE_INTERVAL_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`max_strangers` of the `max_connections` may be strangers.

    A request, head and body, must have arrived `request_timeout_s` after its first byte, the first request after
    connecting. `max_per_address` connections may come from one IPv4 address, or one IPv6 network (/64); 0: any number.
    A stream that has ended is cut when its client has not closed the connection `close_grace_s` later.
    """

    max_connections: int = 10_000
    max_strangers: int = 2_500
    request_timeout_s: float = 15.0
    keepalive_timeout_s: float = 75.0
    max_per_address: int = 0
    close_grace_s: float = 1.0


class RefusalLog:
    """Log lines that strangers can cause, at a limited rate: at most five lines at once, and one more for each ten
    seconds. The next line says how many lines were omitted.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._allowance = float(_LINES_AT_ONCE)
        self._last_s = now_s()
        self._left_out = 0

    def warn(self, text: str) -> None:
        now_s = self._now_s()
        self._allowance = min(_LINES_AT_ONCE, self._allowance + (now_s - self._last_s) / _LINE_INTERVAL_S)
        self._last_s = now_s
        if self._allowance < 1:
            self._left_out += 1
            return
        self._allowance -= 1
        left_out, self._left_out = self._left_out, 0
        log.warning("%s%s", text, f" ({left_out} more before it were not logged)" if left_out else "")


class EdgeRequest(web.BaseRequest):
    """A request. `reply_headers` are added to its answer. `fault` says why its head cannot be trusted, or is empty."""

    reply_headers: Mapping[str, str] = {}
    fault = ""
    known_body: bytearray | None = None  # set once the body was read, so that it can be read again

    @cached_property
    def id(self) -> str:
        """The id in an error's answer and in the log."""
        return new_request_id()

    @property
    def client(self) -> str:
        """The address of the client, for the log, and the client's address from the headers of a proxy."""
        forwarded_for = self.headers.get("X-Forwarded-For") or self.headers.get("Forwarded")
        return f"{self.remote}{f' for {forwarded_for}' if forwarded_for else ''}"

    @property
    def lost(self) -> asyncio.Future[None]:
        """Done when the client's connection is gone."""
        return self._connection.lost

    def let_in(self, *, gives_way: bool = False) -> None:
        """Records that the request has passed the checks, so its connection is no longer a stranger. With `gives_way`
        the connection still makes room when such connections outnumber the strangers."""
        if self.protocol.transport is not None:
            self._connection.was_let_in(gives_way=gives_way)

    def let_body_take_time(self) -> None:
        """Lets the body of an admitted request arrive slowly: within each period of the time for a request, only some
        bytes must arrive, not the whole body."""
        if self.protocol.transport is not None:
            self._connection.let_body_take_time()

    def add_reply_header(self, name: str, value: str) -> None:
        self.reply_headers = {**self.reply_headers, name: value}

    @property
    def _connection(self) -> "EdgeProtocol":
        protocol = self.protocol
        assert isinstance(protocol, EdgeProtocol), "requests of this server come through it"
        return protocol

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.update(self.reply_headers)
        response.headers["Server"] = "tonearm"  # aiohttp would send its own version and Python's


class EdgeProtocol(web.RequestHandler):
    """One client's connection."""

    def __init__(self, manager: "EdgeHttpServer", limits: ConnectionLimits, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            manager,
            loop=loop,
            keepalive_timeout=limits.keepalive_timeout_s,
            max_line_size=_MAX_REQUEST_LINE_BYTES,
            access_log=None,  # type: ignore[arg-type]  # documented to switch the access log off
        )
        self._edge = manager
        self._timeout_s = limits.request_timeout_s
        self._deadline: asyncio.TimerHandle | None = None
        self._arriving: StreamReader | None = None  # the body of the request that is handled
        self._has_shown_password = False
        self._gives_way = False
        self._body_may_take_time = False
        self.lost: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._begin_waiting()
        self._edge.places.enter(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._has_arrived()
        self._edge.places.leave(self)
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._payload_parser is not None or self._upgraded:  # a WebSocket, which has its pings
            super().data_received(data)
            return
        if data and self._deadline is None:  # aiohttp calls this without data to parse what it has
            self._begin_waiting()
        super().data_received(data)
        if self._body_may_take_time and self._arriving is not None:
            self._begin_waiting()

    def request_begins(self, body: StreamReader) -> None:
        """Takes the body of the request that is handled now; some of it, or all, may have arrived before."""
        self._arriving = body
        if self._deadline is None:
            self._begin_waiting()
        body.on_eof(self._has_arrived)

    def let_body_take_time(self) -> None:
        """As `EdgeRequest.let_body_take_time`."""
        if self._arriving is not None:
            self._body_may_take_time = True
            self._edge.places.let_in(self, gives_way=self._gives_way)
            self._begin_waiting()

    def _begin_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(self._timeout_s, self._took_too_long)

    def was_let_in(self, *, gives_way: bool) -> None:
        """Records that a request passed the checks. Once its body has arrived, the client is no stranger any more."""
        self._has_shown_password = True
        self._gives_way = gives_way
        if self._arriving is None:
            self._edge.places.let_in(self, gives_way=gives_way)

    @property
    def address(self) -> str:
        """The client's address; empty when the system does not know it any more."""
        peer = None if self.transport is None else self.transport.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    def cut(self) -> None:
        """Ends the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def _has_arrived(self) -> None:
        self._arriving = None
        self._body_may_take_time = False
        if self._has_shown_password:
            self._edge.places.let_in(self, gives_way=self._gives_way)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _took_too_long(self) -> None:
        self._deadline = None
        if not self._request_in_progress:
            self.cut()
            return
        if self._arriving is None or (self._body_may_take_time and self._reading_paused):
            # Bytes after a request, even an empty line, must not end its answer, which may be endless.
            # When the node itself does not read on because its disk is slow, the client is not late.
            self._begin_waiting()
            return
        # The handler that reads this body answers that it ended early; then the connection is closed.
        self._arriving.set_exception(web.RequestPayloadError("The body took too long."))
        self._arriving.feed_eof()  # otherwise aiohttp would read the rest, and log a failure
        self._arriving = None
        self.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answers data that is no request (`status` 400), and errors outside of every handler."""
        request_id = new_request_id()
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("request %s failed outside of its handler", request_id, exc_info=exc)
            response = internal_error_reply(request.path, request_id)
        else:
            log.debug("request %s is not HTTP: %s", request_id, _problem(exc, message))
            text = "This is not a valid HTTP request, or its head is too large. Send HTTP/1.1."
            if isinstance(exc, BadHttpMethod):  # a browser's `fetch` sends "patch" as it is written
                text += " A method is written in capital letters, such as PATCH."
            response = error_reply(HTTPStatus(status), "bad_request", text, request.path, request_id)
        response.force_close()
        return response


def _problem(error: BaseException | None, message: str | None) -> str:
    """The problem of a request, without the bytes that aiohttp's errors quote: these may contain a password."""
    if error is None:
        return message or ""
    sentence, has_quote, _ = (message or "").partition(":\n")
    return sentence if has_quote else type(error).__name__


class Places:
    """All connections. Strangers and admitted connections that give way are counted separately. The larger of these two
    groups gives way, its oldest connection first, so that clients that connect at the same moment do not displace each
    other."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._strangers: dict[EdgeProtocol, None] = {}
        self._giving_way: dict[EdgeProtocol, None] = {}
        self._let_in: set[EdgeProtocol] = set()
        self._origins: dict[EdgeProtocol, str] = {}  # the origin of each, when origins are limited
        self._by_origin: Counter[str] = Counter()
        self._log = RefusalLog()

    def enter(self, connection: EdgeProtocol) -> None:
        """Gives `connection` a place. If all are taken, another connection gives way, or `connection` is cut."""
        if self._limits.max_per_address and not self._has_room_for_origin(connection):
            connection.cut()
            return
        count = len(self._strangers) + len(self._giving_way) + len(self._let_in)
        is_full = count >= self._limits.max_connections
        if is_full and len(self._giving_way) > len(self._strangers):
            self._log.warn("all connections are in use (max_connections); the oldest that only follows gave way")
            self._end_first(self._giving_way)
        elif is_full and not self._strangers:
            self._log.warn(f"a connection was refused: all {self._limits.max_connections} are in use (max_connections)")
            connection.cut()
            return
        elif is_full or len(self._strangers) >= self._limits.max_strangers:
            limit = "all connections are in use (max_connections), and " if is_full else ""
            share = "" if is_full else " (stranger_share)"
            self._log.warn(
                f"{limit}{len(self._strangers)} of them have sent nothing that was let in{share}; "
                "the oldest of them gave way to a new one"
            )
            self._end_first(self._strangers)
        self._strangers[connection] = None

    def let_in(self, connection: EdgeProtocol, *, gives_way: bool) -> None:
        if connection in self._strangers:
            del self._strangers[connection]
            if gives_way:
                self._giving_way[connection] = None
            else:
                self._let_in.add(connection)

    def leave(self, connection: EdgeProtocol) -> None:
        self._strangers.pop(connection, None)
        self._giving_way.pop(connection, None)
        self._let_in.discard(connection)
        origin = self._origins.pop(connection, None)
        if origin is not None:
            self._by_origin[origin] -= 1
            if not self._by_origin[origin]:
                del self._by_origin[origin]

    @staticmethod
    def _end_first(connections: dict[EdgeProtocol, None]) -> None:
        oldest = next(iter(connections))
        del connections[oldest]
        oldest.cut()

    def _has_room_for_origin(self, connection: EdgeProtocol) -> bool:
        """Counts `connection` for its origin. Returns False when the origin has reached its limit."""
        most, origin = self._limits.max_per_address, origin_of(connection.address)
        if self._by_origin[origin] >= most:
            self._log.warn(f"a connection from {origin} was refused: it has {most} already (max_per_address)")
            return False
        self._by_origin[origin] += 1
        self._origins[connection] = origin
        return True


class EdgeHttpServer(web.Server):
    """Makes an `EdgeProtocol` for each connection."""

    def __init__(
        self, handler: Callable[[EdgeRequest], Awaitable[web.StreamResponse]], limits: ConnectionLimits
    ) -> None:
        super().__init__(self._answer, request_factory=self._make_edge_request)  # type: ignore[arg-type]  # our own requests
        self._handler = handler
        self._limits = limits
        self.places = Places(limits)
        self._event_loop = asyncio.get_running_loop()

    def __call__(self) -> EdgeProtocol:
        return EdgeProtocol(self, self._limits, loop=self._event_loop)

    def _make_edge_request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> EdgeRequest:
        assert isinstance(protocol, EdgeProtocol), "this server makes no others"
        protocol.request_begins(payload)
        fault = _fault(message)
        if message.version not in _VERSIONS:
            message = message._replace(version=HttpVersion11)  # the answer names it, too
        request = EdgeRequest(message, payload, protocol, writer, task, self._event_loop)
        request.fault = fault
        return request

    async def _answer(self, request: EdgeRequest) -> web.StreamResponse:
        if request.fault:
            return request.protocol.handle_error(request, HTTPStatus.BAD_REQUEST, message=request.fault)
        return await self._handler(request)


def _fault(message: RawRequestMessage) -> str:
    """The fault of a head that could be parsed; empty without one.

    HTTP/1.0 has no transfer encodings: a proxy with HTTP/1.0 may find the end of such a request elsewhere than the node
    (RFC 9112, section 6.1).
    """
    if message.version not in _VERSIONS:
        return "its version of HTTP is neither 1.0 nor 1.1"
    if message.version == HttpVersion10 and "Transfer-Encoding" in message.headers:
        return "it has a transfer encoding, which HTTP/1.0 does not know"
    return ""


async def while_connected(request: EdgeRequest, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. When the client goes away, cancels `work` and raises `ConnectionResetError`."""
    lost = request.lost
    task = asyncio.get_running_loop().create_task(work)
    both: tuple[asyncio.Future[Any], ...] = (task, lost)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    if task.cancelled() and lost.done():
        raise ConnectionResetError("the client did not wait for the answer")
    try:
        return task.result()
    finally:
        del task, both  # an error keeps this function's frame, by its traceback, and the task keeps the error
