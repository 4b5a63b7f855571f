"""The HTTP client through which every source is fetched: GET, with the node's policy and guard asked on each hop.

Beside it the headers that a page wants sent with the link behind it, and what makes SHOUTcast servers readable.
"""

import asyncio
import functools
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler

from tonearm.core.errors import RequestError
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.sources.guard import AddressGuard, AddressRefusedError, GuardedResolver
from tonearm.sources.http.errors import admission_error, connect_error, read_error, refused

READ_AHEAD_S: Final = 10
LEAST_READ_AHEAD_BYTES: Final = 64 * 1024
MOST_READ_AHEAD_BYTES: Final = 2 * 1024 * 1024

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}", re.ASCII)
_MAX_VALUE_CHARACTERS: Final = 4096
_MAX_HEADERS: Final = 32
# Headers that the node sets itself, that count between two hops only (RFC 9110, 7.6.1), or that identify a user.
_WITHHELD: Final = frozenset(
    {
        "accept-encoding", "authorization", "connection", "content-length", "expect", "forwarded", "host", "if-range",
        "keep-alive", "range", "te", "trailer", "transfer-encoding", "upgrade", "via", "x-forwarded-for",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The timeouts, retries and amounts of fetching over HTTP.

    `connect_timeout_s` covers name lookup, connecting and TLS; `headers_timeout_s` begins after that.

    `stall_timeout_s` is the longest silence in a body while there is room for its bytes.
    """

    user_agent: str = "tonearm"
    connect_timeout_s: float = 5.0
    headers_timeout_s: float = 10.0
    stall_timeout_s: float = 10.0
    # Until the length is known; then `read_ahead_bytes_at` decides.
    read_ahead_bytes: int = 512 * 1024
    open_retry_delays_s: tuple[float, ...] = (0.5, 2.0)
    # As many retries has a lost transfer, until enough bytes came (`read_ahead.EARNED_BACK_BYTES`).
    resume_delays_s: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
    # The same for a live stream. After the last one the track fails.
    live_resume_delays_s: tuple[float, ...] = (0.0, 1.0, 3.0, 6.0, 12.0)
    # The shortest time between two reads of a live playlist, whatever it says.
    live_refresh_at_least_s: float = 0.5
    # How long a client's request waits for a playlist that it names.
    playlist_limit_s: float = 5.0


def read_ahead_bytes_at(size_bytes: int, length_ms: int) -> int:
    """How far to read ahead in a file of this size and length: ten seconds, within bounds."""
    ten_seconds = size_bytes * READ_AHEAD_S * 1000 // max(length_ms, 1)
    return min(max(ten_seconds, LEAST_READ_AHEAD_BYTES), MOST_READ_AHEAD_BYTES)


@dataclass(frozen=True, slots=True)
class LinkHeaders:
    """What a page's player would send with `link`: to its host only, so that a redirect carries nothing elsewhere."""

    link: SourceUri
    headers: dict[str, str] = field(repr=False)

    def headers_for(self, uri: SourceUri) -> dict[str, str]:
        """Those to send to `uri`: none to another host or port, and none in plain text that were meant for TLS."""
        is_same = (uri.host, uri.port) == (self.link.host, self.link.port)
        is_secure, was_secure = uri.is_https, self.link.is_https
        is_upgrade = uri.host == self.link.host and (self.link.port, uri.port) == (80, 443)
        if (is_same and is_secure >= was_secure) or (is_upgrade and is_secure):
            return self.headers
        return {}


def safe_headers(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers of a stranger that may be sent: well-formed, each name once, none that controls HTTP itself."""
    headers: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in given:
        key, value = name.lower(), value.strip(" \t")
        if key in _WITHHELD or key.startswith("proxy-") or key in seen or not _NAME.fullmatch(name):
            continue
        if len(value) > _MAX_VALUE_CHARACTERS or not value.isascii() or not value.isprintable():
            continue
        seen.add(key)
        headers[name] = value
        if len(headers) == _MAX_HEADERS:
            break
    return headers


_ICY: Final = b"ICY "
_HTTP: Final = b"HTTP/1.0 "


class RadioConnector(aiohttp.TCPConnector):
    """A connector that understands SHOUTcast 1, which answers `ICY 200 OK` where HTTP has its version."""

    def __init__(self, *, resolver: AbstractResolver, socket_factory: Callable[[Any], socket.socket]) -> None:
        # No limit: one source must not wait for another.
        super().__init__(resolver=resolver, socket_factory=socket_factory, limit=0)
        handler: Callable[[], ResponseHandler] = functools.partial(_RadioResponseHandler, loop=self._loop)
        self._factory = cast("functools.partial[ResponseHandler]", handler)


class _RadioResponseHandler(ResponseHandler):
    # The first bytes of an answer while they may still become `ICY `; None once that is decided.
    _begun: bytes | None = b""

    def set_response_params(self, **params: Any) -> None:
        """aiohttp calls this before each request: a connection may have served another one before."""
        self._begun = b""
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self._begun is not None and data:
            data = self._begun + data
            self._begun = None
            if data.startswith(_ICY):
                data = _HTTP + data[len(_ICY) :]
            elif _ICY.startswith(data):
                self._begun = data
                return
        super().data_received(data)


Answer: TypeAlias = tuple[aiohttp.ClientResponse, SourceUri]

MAX_REDIRECTS: Final = 5
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
# aiohttp stops reading from the socket at twice this; the node's own, larger window follows it.
_SOCKET_BUFFER_BYTES: Final = 64 * 1024


class HttpClient:
    """Sends GET requests and follows redirects.

    `admit` judges the URI of a redirect. The guard is asked for each address that is dialled.
    """

    def __init__(self, guard: AddressGuard, admit: Callable[[SourceUri], SourceUri], settings: FetchSettings) -> None:
        self._guard = guard
        self._admit = admit
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def get(self, uri: SourceUri, headers: Mapping[str, str], link_headers: LinkHeaders | None = None) -> Answer:
        """The first response that is no redirect, its body not yet read, and the URI that gave it.

        The caller judges the status and closes the response. `headers` go to each hop, `link_headers` only to the host
        that they belong to. Raises `PlayError`, as its subclass `PassingError` where a retry may help.
        """
        url = self._url_to_dial(uri)
        for _ in range(MAX_REDIRECTS + 1):
            own_headers = {} if link_headers is None else link_headers.headers_for(uri)
            response = await self._get_once(url, {**own_headers, **headers})
            location = response.headers.get("Location")
            if response.status not in _REDIRECT_STATUSES or location is None:
                return response, uri
            response.close()
            uri = self._admitted(_joined(url, location))
            url = self._url_to_dial(uri)
        raise PlayError(
            PlayFailure(
                FailureCode.TOO_MANY_REDIRECTS,
                Stage.CONNECT,
                f"The URI leads through more than {MAX_REDIRECTS} redirects.",
                "Give the URI at which the redirects end; if they go in a circle, the server is at fault.",
            )
        )

    async def close(self) -> None:
        """Closes all connections at once, and opens none any more."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _get_once(self, url: yarl.URL, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        host = url.host or ""
        answer_within_s = self._settings.connect_timeout_s + self._settings.headers_timeout_s
        try:
            # The outer limit also ends a header that comes drop by drop.
            async with asyncio.timeout(answer_within_s):
                return await self._open_session().get(url, headers=headers, allow_redirects=False)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise connect_error(error, host) from error

    def _admitted(self, location: str) -> SourceUri:
        """The URI of a redirect."""
        try:
            return self._admit(parse_source_uri(location))
        except RequestError as error:
            raise admission_error(error) from error

    def _url_to_dial(self, uri: SourceUri) -> yarl.URL:
        assert uri.is_admitted, "policy was not asked"
        if uri.host is None or uri.port is None:
            raise refused("The server redirects to something that is not http or https.", "Give a direct URI.")
        try:
            self._guard.check_host(uri.host, uri.port)
            url = yarl.URL(uri.normalised, encoded=True)
        except AddressRefusedError as error:
            raise refused(error.message, error.hint) from error
        except ValueError as error:
            raise refused(f"The URI cannot be dialled: {error}.", "Check how the URI is written.") from error
        # The patterns judged one reading of the URI; no other reading of it must be dialled.
        if (url.raw_host, url.port) != (uri.host, uri.port):
            raise refused("The URI's host can be read in two ways.", "Write the URI plainly.")
        return url

    def _open_session(self) -> aiohttp.ClientSession:
        if self._is_closed:  # a request that was under way when the node stopped
            raise aiohttp.ClientConnectionError("The node is shutting down.")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=RadioConnector(
                    resolver=GuardedResolver(self._guard),
                    socket_factory=self._guard.open_socket,
                ),
                timeout=aiohttp.ClientTimeout(
                    total=None, connect=self._settings.connect_timeout_s, sock_connect=self._settings.connect_timeout_s
                ),
                headers={"User-Agent": self._settings.user_agent, "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                read_bufsize=_SOCKET_BUFFER_BYTES,
            )
        return self._session


async def next_chunk(response: aiohttp.ClientResponse, host: str, stall_timeout_s: float) -> bytes:
    """The bytes of a body that arrive next; `b""` at its end. Raises `PlayError`."""
    try:
        async with asyncio.timeout(stall_timeout_s):
            return await response.content.readany()
    except (aiohttp.ClientError, OSError) as error:
        raise read_error(error, host) from error


def _joined(base: yarl.URL, location: str) -> str:
    """The absolute form of a `Location` header."""
    try:
        return str(base.join(yarl.URL(location)))
    except ValueError as error:
        raise refused("The server redirects to something that is no URI.", "Give a direct URI.") from error
