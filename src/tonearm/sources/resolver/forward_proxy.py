"""The only way out of a resolving process: an HTTP proxy on loopback that judges each target as the node does.

Patterns see the whole URI of plain HTTP, and of HTTPS, which passes through encrypted, the host. The guard is asked
for each address that is dialled. Nobody but a process that resolves right now has a password.
"""

import asyncio
import contextlib
import hmac
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

from tonearm.core.errors import RequestError
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.source_uri import SourceUri
from tonearm.sources.address_guard import AddressGuard
from tonearm.sources.guarded_dial import GuardedDialer
from tonearm.sources.http_errors import admission_error
from tonearm.sources.resolver.confinement import PROXY_HOST
from tonearm.sources.resolver.proxy_pass import USER, ProxyPass
from tonearm.sources.resolver.proxy_request import BadProxyRequest, ProxyRequest, parse_proxy_request

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

    def __init__(self, guard: AddressGuard, admit: Callable[[str], SourceUri], connect_timeout_s: float) -> None:
        self._guard = guard
        self._admit = admit
        self._dialer = GuardedDialer(guard, connect_timeout_s)
        self._passes: set[ProxyPass] = set()
        self._strangers: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self.port = 0

    @contextlib.asynccontextmanager
    async def issued(self, traffic_limit_bytes: int) -> AsyncIterator[ProxyPass]:
        """A pass that is good inside of the block. Raises `OSError` when the proxy cannot listen."""
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
        """How the holder of the pass reaches the proxy."""
        return f"http://{USER}:{issued.password}@{PROXY_HOST}:{self.port}"

    async def close(self) -> None:
        """Ends all connections."""
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
            pass  # whoever it was has gone, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # the pass was revoked; the stream's own task has nobody to tell
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
            upstream_reader, upstream_writer = await self._dialer.dial(uri)
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
            uri = self._admit(target)
        except RequestError as error:
            raise admission_error(error) from error
        if not request.is_tunnel and not uri.normalised.startswith("http:"):
            raise _Answered("400 Bad Request")  # TLS goes through a tunnel
        return uri


def _head_for(request: ProxyRequest, uri: SourceUri) -> bytes:
    """What the server is asked: the reading of the URI that the patterns have judged, once a connection."""
    authority, _, rest = uri.normalised.removeprefix("http://").partition("#")[0].partition("/")
    lines = [f"{request.method} /{rest} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    return "\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1")


async def _pour(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, issued: ProxyPass, at_most: int | None
) -> None:
    """Passes bytes on until the end, too much traffic, or more than `at_most`."""
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
    """Either side's end is the end of both: nothing here is kept alive."""
    tasks = [asyncio.create_task(each) for each in pouring]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
