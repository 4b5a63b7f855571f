"""The resolver's proxy: an HTTP proxy on loopback that admits the targets of a resolving process as the node does.

Patterns see the whole URI of plain HTTP, and the host of HTTPS, which passes through encrypted. The guard is asked for
each address that is dialled. Only a process that is resolving a page has a password: a `ProxyPass`, good for that page.
Requests are parsed strictly (RFC 9112, 3.2), because there is one kind of client, and it is known.
"""

import asyncio
import base64
import binascii
import contextlib
import errno
import hmac
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final

from tonearm.core.errors import RequestError
from tonearm.core.failure import REFUSALS, FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.sources.guard import AddressGuard, AddressRefusedError, GuardedResolver
from tonearm.sources.http.errors import admission_error, refused
from tonearm.sources.resolver.door import PROXY_HOST

_REQUEST_LINE: Final = re.compile(r"([A-Z]{1,16}) ([!-~]{1,8192}) HTTP/1\.[01]")
_HEADER: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([^\x00-\x1f\x7f]*)")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
# Headers between client and proxy only, or written again by the proxy.
_NOT_PASSED_ON: Final = frozenset(
    {"connection", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade"}
)


class BadProxyRequest(Exception):
    """A request that is not valid, or can be read in several ways."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """`target` is host and port of a `CONNECT`, else an absolute URI. `headers` are those to pass on."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body_bytes: int
    password: str

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"


def parse_proxy_request(head: bytes) -> ProxyRequest:
    """`head` ends with the empty line. Raises `BadProxyRequest`."""
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    found = _REQUEST_LINE.fullmatch(lines[0])
    if found is None:
        raise BadProxyRequest("the request line cannot be read")
    headers: list[tuple[str, str]] = []
    special: dict[str, str] = {}
    for line in lines[1:]:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise BadProxyRequest("a header cannot be read")
        name, value = header[1].lower(), header[2].rstrip(" \t")
        if name in ("content-length", "proxy-authorization"):
            if name in special:
                raise BadProxyRequest(f"{name} is there twice")
            special[name] = value
        if name == "transfer-encoding":
            raise BadProxyRequest("a body of unknown length is not taken")
        if name not in _NOT_PASSED_ON:
            headers.append((header[1], value))
    length = special.get("content-length", "0")
    if _LENGTH.fullmatch(length) is None:
        raise BadProxyRequest("the length of the body cannot be read")
    return ProxyRequest(found[1], found[2], tuple(headers), int(length), _password(special.get("proxy-authorization")))


def _password(authorization: str | None) -> str:
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(encoded, validate=True).decode("latin-1").partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


USER: Final = "tonearm"
CONNECTIONS_AT_MOST: Final = 32


class ProxyPass:
    """`traffic_limit_bytes` are for both directions together."""

    def __init__(self, traffic_limit_bytes: int) -> None:
        self.password: Final = secrets.token_urlsafe(32)
        self._left_bytes = traffic_limit_bytes
        self._connections: set[asyncio.Task[None]] = set()
        # Why a target could not be reached: a refusal if there was one, otherwise the last failure.
        self.problem: PlayFailure | None = None

    def report(self, failure: PlayFailure) -> None:
        if self.problem is None or self.problem.code not in REFUSALS:
            self.problem = failure

    def enter(self, connection: asyncio.Task[None]) -> bool:
        """Adds a connection, which ends with the pass. Returns False when there are too many."""
        if len(self._connections) >= CONNECTIONS_AT_MOST:
            return False
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        return True

    def spend(self, count_bytes: int) -> bool:
        """Counts traffic. Returns False when there was too much."""
        self._left_bytes -= count_bytes
        if self._left_bytes < 0:
            self.report(
                PlayFailure(
                    FailureCode.LIMIT_EXCEEDED,
                    Stage.RESOLVE,
                    "The page makes the resolver load more than it may.",
                    "Give the link of the media itself.",
                )
            )
        return self._left_bytes >= 0

    async def revoke(self) -> None:
        connections = tuple(self._connections)
        for connection in connections:
            connection.cancel()
        if connections:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*connections, return_exceptions=True)


BAD_GATEWAY: Final = "502"
"""The status with which the proxy answers when a host cannot be reached."""
UNREACHABLE: Final = frozenset({FailureCode.NAME_NOT_FOUND, FailureCode.TIMEOUT, FailureCode.CONNECT_FAILED})

_HEAD_LIMIT_BYTES: Final = 64 * 1024
_HEAD_TIMEOUT_S: Final = 10.0
_BLOCK_BYTES: Final = 64 * 1024
_STRANGERS_AT_MOST: Final = 64  # connections that have not shown a password yet


class _Answered(Exception):
    """The request is answered with `status` and nothing else."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class ForwardProxy:
    """Listens from the first pass on until `close`."""

    def __init__(self, guard: AddressGuard, admit: Callable[[SourceUri], SourceUri], connect_timeout_s: float) -> None:
        self._guard = guard
        self._admit = admit
        self._resolver = GuardedResolver(guard)
        self._connect_timeout_s = connect_timeout_s
        self._passes: set[ProxyPass] = set()
        self._strangers: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self.port = 0

    @contextlib.asynccontextmanager
    async def issued(self, traffic_limit_bytes: int) -> AsyncIterator[ProxyPass]:
        """A pass that is valid inside the block. Raises `OSError` when the proxy cannot listen."""
        async with self._starting:
            if self._server is None:
                self._server = await asyncio.start_server(self._accept, PROXY_HOST, 0, limit=_HEAD_LIMIT_BYTES)
                self.port = self._server.sockets[0].getsockname()[1]
                self._guard.add_own_address(PROXY_HOST, self.port)
        issued = ProxyPass(traffic_limit_bytes)
        self._passes.add(issued)
        try:
            yield issued
        finally:
            self._passes.discard(issued)
            await issued.revoke()

    def uri_for(self, issued: ProxyPass) -> str:
        return f"http://{USER}:{issued.password}@{PROXY_HOST}:{self.port}"

    async def connection(self) -> socket.socket:
        """A connection to this proxy, for a process that cannot connect. Raises `OSError` when there is no pass."""
        if not self._passes:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "no page is being resolved")
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            await asyncio.get_running_loop().sock_connect(made, (PROXY_HOST, self.port))
        except BaseException:
            made.close()
            raise
        return made

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        strangers = tuple(self._strangers)
        for connection in strangers:
            connection.cancel()
        await asyncio.gather(*strangers, *(issued.revoke() for issued in self._passes), return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._strangers) < _STRANGERS_AT_MOST:
                await self._serve(task, reader, writer)
        except _Answered as answer:
            writer.write(f"HTTP/1.1 {answer.status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            with contextlib.suppress(OSError):
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # the client has gone, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # the pass was revoked
        finally:
            self._strangers.discard(task)
            writer.close()

    async def _serve(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._strangers.add(task)
        async with asyncio.timeout(_HEAD_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            request = parse_proxy_request(head)
        except BadProxyRequest as error:
            raise _Answered("400 Bad Request") from error
        issued = self._pass_of(request.password)
        if issued is None:
            raise _Answered('407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="tonearm"')
        self._strangers.discard(task)
        if not issued.enter(task):
            raise _Answered("429 Too Many Requests")
        try:
            uri = self._admitted(request)
            upstream_reader, upstream_writer = await self._dial(uri)
        except PlayError as error:
            issued.report(error.failure)
            is_refused = error.failure.code not in UNREACHABLE
            raise _Answered("403 Forbidden" if is_refused else f"{BAD_GATEWAY} Bad Gateway") from error
        try:
            if request.is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream_writer.write(_head_for(request, uri))
            away = _pour(reader, upstream_writer, issued, None if request.is_tunnel else request.body_bytes)
            back = _pour(upstream_reader, writer, issued, None)
            await _until_one_ends(away, back)
        finally:
            upstream_writer.close()

    async def _dial(self, uri: SourceUri) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to the host of an admitted URI. The timeout covers the name's lookup and all its addresses. Raises
        `PlayError`."""
        assert uri.host is not None
        assert uri.port is not None
        try:
            self._guard.check_host(uri.host, uri.port)
            async with asyncio.timeout(self._connect_timeout_s):
                # Literal addresses, each of which the guard allows.
                addresses = [found["host"] for found in await self._resolver.resolve(uri.host, uri.port)]
                return await _connected(addresses, uri.port)
        except AddressRefusedError as error:
            raise refused(error.message, error.hint) from error
        except socket.gaierror as error:
            message, hint = f"The host name {uri.host} was not found.", "Check how it is written."
            raise PlayError.of(FailureCode.NAME_NOT_FOUND, Stage.CONNECT, message, hint) from error
        except TimeoutError as error:
            message, hint = f"Connecting to {uri.host} took too long.", "Check that the server is up."
            raise PlayError.of(FailureCode.TIMEOUT, Stage.CONNECT, message, hint) from error
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "it failed"
            message, hint = f"No connection to {uri.host}: {reason}.", "Check that the server is up."
            raise PlayError.of(FailureCode.CONNECT_FAILED, Stage.CONNECT, message, hint) from error

    def _pass_of(self, password: str) -> ProxyPass | None:
        given = password.encode("latin-1")
        found = None
        for issued in self._passes:
            if hmac.compare_digest(issued.password.encode(), given):
                found = issued
        return found

    def _admitted(self, request: ProxyRequest) -> SourceUri:
        """Raises `PlayError`, or `_Answered` for what is no target of a proxy."""
        target = f"https://{request.target}/" if request.is_tunnel else request.target
        is_plain = request.is_tunnel or target.lower().startswith(("http://", "https://"))
        if not is_plain or (request.is_tunnel and set("/?#@") & set(request.target)):
            raise _Answered("400 Bad Request")
        try:
            uri = self._admit(parse_source_uri(target))
        except RequestError as error:
            raise admission_error(error) from error
        if not request.is_tunnel and not uri.normalised.startswith("http:"):
            raise _Answered("400 Bad Request")  # TLS goes through a tunnel
        return uri


async def _connected(addresses: Iterable[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first address that takes one. Raises the last `OSError`."""
    last_error = OSError(0, "")
    for address in addresses:
        try:
            return await asyncio.open_connection(address, port)
        except OSError as error:
            last_error = error
    raise last_error


def _head_for(request: ProxyRequest, uri: SourceUri) -> bytes:
    """The head for the server, with path and query as yt-dlp wrote them. Each connection is for one request."""
    authority, _, rest = uri.opened.removeprefix("http://").partition("#")[0].partition("/")
    lines = [f"{request.method} /{rest} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    return "\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1")


async def _pour(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, issued: ProxyPass, at_most: int | None
) -> None:
    """Passes bytes on until the end, until there was too much traffic, or until `at_most` bytes."""
    while block := await reader.read(_BLOCK_BYTES):
        if at_most is not None:
            at_most -= len(block)
            if at_most < 0:
                return
        if not issued.spend(len(block)):
            return
        writer.write(block)
        await writer.drain()


async def _until_one_ends(*pouring: Coroutine[Any, Any, None]) -> None:
    """Waits until either side ends, and ends the other: connections are not kept alive."""
    tasks = [asyncio.create_task(each) for each in pouring]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
