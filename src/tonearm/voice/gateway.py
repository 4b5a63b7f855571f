"""The WebSocket to a voice server: connects, reads and writes. The rules of the protocol are in `core.voice_gateway`.

TLS certificates are always checked, against the system's authorities or those of SSL_CERT_FILE. No redirect is
followed, and each address is checked when it is dialled.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol

import aiohttp

from tonearm.core.printable import one_line
from tonearm.core.voice import NodeReason, VoiceEndpoint
from tonearm.sources.guard import AddressGuard, AddressRefusedError, GuardedResolver

_VERSION: Final = 8
_MOST_MESSAGE_BYTES: Final = 2**20
_MOST_WAITING: Final = 1_000  # messages that the server does not read
_CLOSING_S: Final = 1.0  # for the server's answer to a close
_MOST_WORDS: Final = 200

log = logging.getLogger(__name__)


class SocketReports(Protocol):
    """The reports of a socket, called from the event loop until the socket is hung up. After `failed` and `lost` no
    more reports come."""

    def opened(self) -> None: ...

    def failed(self, reason: NodeReason) -> None:
        """The socket could not be opened, or the server broke the protocol."""

    def text(self, text: str) -> None: ...

    def binary(self, message: bytes) -> None: ...

    def pinged(self, size: int) -> None:
        """A ping or pong of the WebSocket came, of so many bytes."""

    def lost(self, code: int | None, text: str) -> None:
        """The socket has closed, with or without the server's code and reason."""


class GatewayDialler:
    """Opens sockets to voice servers, until `close`. `guard` checks addresses."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._session: aiohttp.ClientSession | None = None
        self._sockets: set[asyncio.Task[None]] = set()

    def dial(self, endpoint: VoiceEndpoint, reports: SocketReports) -> "GatewaySocket":
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_request_redirect.append(_refuse_redirect)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=GuardedResolver(self._guard), socket_factory=self._guard.open_socket, limit=0
                ),
                timeout=aiohttp.ClientTimeout(total=None),  # the rules set the timeouts
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[trace],
                trust_env=False,
            )
        socket = GatewaySocket(self._session, f"wss://{endpoint}/?v={_VERSION}", self._checked(endpoint), reports)
        self._sockets.add(socket.task)
        socket.task.add_done_callback(self._sockets.discard)
        return socket

    async def close(self) -> None:
        """Returns when all sockets are closed: in an orderly way if they were hung up, otherwise at once."""
        if self._sockets:
            await asyncio.wait(self._sockets, timeout=_CLOSING_S)
        for task in self._sockets:
            task.cancel()
        if self._sockets:
            await asyncio.wait(self._sockets)
        if self._session is not None:
            await self._session.close()

    def _checked(self, endpoint: VoiceEndpoint) -> Callable[[], None]:
        return lambda: self._guard.check_host(endpoint.host, endpoint.port)


class _Redirected(aiohttp.ClientError):
    pass


async def _refuse_redirect(*_: Any) -> None:
    raise _Redirected


class GatewaySocket:
    """One WebSocket. `check` raises `AddressRefusedError` for a host that may not be dialled."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, check: Callable[[], None], reports: SocketReports
    ) -> None:
        self._session = session
        self._url = url
        self._check = check
        self._reports: SocketReports | None = reports
        self._outgoing: asyncio.Queue[str | bytes | int] = asyncio.Queue(_MOST_WAITING)  # a number is a close code
        self._is_open = False
        self._is_hanging_up = False
        self.task = asyncio.get_running_loop().create_task(self._run())

    def send(self, message: str | bytes) -> None:
        if self._reports is None:
            return
        try:
            self._outgoing.put_nowait(message)
        except asyncio.QueueFull:
            self._end()
            self.task.cancel()

    def hang_up(self, code: int) -> None:
        """Closes the socket after the messages that were sent. No more reports come."""
        self._reports = None
        if not self._is_open or self._outgoing.full():
            self.task.cancel()
        else:
            self._is_hanging_up = True
            self._outgoing.put_nowait(code)

    def _end(self, code: int | None = None, text: str = "") -> None:
        reports, self._reports = self._reports, None
        if reports is not None:
            reports.lost(code, text)

    def _fail(self, reason: NodeReason) -> None:
        reports, self._reports = self._reports, None
        if reports is not None:
            reports.failed(reason)

    async def _run(self) -> None:
        try:
            self._check()
            timeout = aiohttp.ClientWSTimeout(ws_close=_CLOSING_S)
            async with self._session.ws_connect(
                self._url, max_msg_size=_MOST_MESSAGE_BYTES, timeout=timeout, autoping=False
            ) as socket:
                self._is_open = True
                if self._reports is not None:
                    self._reports.opened()
                writing = asyncio.get_running_loop().create_task(self._write(socket))
                try:
                    await self._read(socket)
                finally:
                    self._is_open = False
                    if self._is_hanging_up:
                        await asyncio.wait([writing], timeout=2 * _CLOSING_S)
                    writing.cancel()
                    await asyncio.wait([writing])
        except Exception as error:  # noqa: BLE001 - whatever a stranger's server does
            self._failed_by(error)

    def _failed_by(self, error: Exception) -> None:
        if isinstance(error, AddressRefusedError) or isinstance(error.__cause__, AddressRefusedError):
            self._fail(NodeReason.ENDPOINT_BLOCKED)
        elif isinstance(error, _Redirected):
            self._fail(NodeReason.REDIRECT)
        elif isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
            self._fail(NodeReason.TLS)
        else:
            if not isinstance(error, (aiohttp.ClientError, OSError, TimeoutError)):
                log.exception("the socket to a voice server failed unexpectedly")
            self._fail(NodeReason.UNREACHABLE)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        while self._reports is not None:
            message = await socket.receive()
            if self._reports is None:
                return
            match message.type:
                case aiohttp.WSMsgType.TEXT:
                    self._reports.text(message.data)
                case aiohttp.WSMsgType.BINARY:
                    self._reports.binary(message.data)
                case aiohttp.WSMsgType.PING:
                    self._reports.pinged(len(message.data))
                    await socket.pong(message.data)
                case aiohttp.WSMsgType.PONG:
                    self._reports.pinged(len(message.data))
                case aiohttp.WSMsgType.CLOSE:
                    self._end(message.data or None, one_line(message.extra or "")[:_MOST_WORDS])
                case aiohttp.WSMsgType.ERROR if isinstance(message.data, aiohttp.WebSocketError):
                    self._fail(NodeReason.PROTOCOL)  # too large, or against RFC 6455
                case _:
                    self._end()

    async def _write(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        try:
            while True:
                match await self._outgoing.get():
                    case int(code):
                        await socket.close(code=code)
                        return
                    case str(text):
                        await socket.send_str(text)
                    case message:
                        await socket.send_bytes(message)
        except (aiohttp.ClientError, OSError):
            await socket.close()  # which ends `_read`
