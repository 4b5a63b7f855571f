"""The HTTP client for all sources and pages. The node's policy and guard check each hop, also one through a proxy."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from urllib.parse import quote

import aiohttp
import yarl

from tonearm.core.errors import RequestError
from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.source_uri import SourceUri, joined_uri, parse_source_uri
from tonearm.sources.guard import AddressGuard, AddressRefusedError, GuardedResolver
from tonearm.sources.http.cookies import CookieJar
from tonearm.sources.http.errors import (
    PROXY_WANTS_LOGIN,
    admission_error,
    connect_error,
    proxy_error,
    proxy_refuses,
    refused,
)
from tonearm.sources.http.heads import TolerantConnector
from tonearm.sources.http.settings import FetchSettings, PageLink, Renew

_ASCII: Final = bytes(range(128))

Answer: TypeAlias = tuple[aiohttp.ClientResponse, SourceUri]

MAX_REDIRECTS: Final = 20  # as browsers follow
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
# aiohttp stops reading from the socket at twice this; the node's own, larger window follows it.
_SOCKET_BUFFER_BYTES: Final = 64 * 1024


class HttpClient:
    """The connections of a node. `admit` judges the URI of a redirect. The guard is asked for each address that is
    dialled."""

    def __init__(self, guard: AddressGuard, admit: Callable[[SourceUri], SourceUri], settings: FetchSettings) -> None:
        self._guard = guard
        self._admit = admit
        self._settings = settings
        self.stall_timeout_s: Final = settings.stall_timeout_s
        self.renew_at_least_s: Final = settings.renew_at_least_s
        self._resolver = GuardedResolver(guard)
        self._direct: aiohttp.ClientSession | None = None
        self._proxied: aiohttp.ClientSession | None = None
        self._is_closed = False

    def for_source(self, link: PageLink | None = None, renew: Renew | None = None) -> "SourceClient":
        return SourceClient(self, link, renew)

    async def close(self) -> None:
        """Closes all connections at once, and opens none any more."""
        self._is_closed = True
        for session in (self._direct, self._proxied):
            if session is not None:
                await session.close()
        self._direct = self._proxied = None

    async def send(
        self,
        uri: SourceUri,
        headers: Mapping[str, str],
        *,
        method: str = "GET",
        body: bytes | None = None,
        proxy: str | None = None,
    ) -> aiohttp.ClientResponse:
        """The answer to one request, with its body unread; redirects are not followed. The request goes through `proxy`
        if given. Raises `PlayError`, or its subclass `ProxyError` when the proxy is at fault."""
        url = self._url_to_dial(uri)
        host = url.host or ""
        answer_within_s = self._settings.connect_timeout_s + self._settings.headers_timeout_s
        try:
            # The outer limit also ends a header that comes drop by drop.
            async with asyncio.timeout(answer_within_s):
                if proxy is not None:
                    await self._resolver.resolve(host, url.port or 0)  # what the proxy dials is judged here
                response = await self._session(proxy).request(
                    method, url, headers=headers, data=body, allow_redirects=False, proxy=proxy
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = None if proxy is None else proxy_error(error, proxy)
            raise failure or connect_error(error, host) from error
        if proxy is not None and response.status == PROXY_WANTS_LOGIN:
            response.close()
            raise proxy_refuses(proxy, response.status)
        return response

    def admitted(self, location: str) -> SourceUri:
        """The URI of a redirect, or of a page's request. Raises `PlayError` for a URI that the node must not open."""
        try:
            return self._admit(parse_source_uri(location))
        except RequestError as error:
            raise admission_error(error) from error

    def _url_to_dial(self, uri: SourceUri) -> yarl.URL:
        assert uri.is_admitted, "policy was not asked"
        if uri.host is None or uri.port is None:
            raise refused("The address is not http or https.", "Give a direct URI.")
        try:
            self._guard.check_host(uri.host, uri.port)
            url = yarl.URL(uri.opened, encoded=True)
        except AddressRefusedError as error:
            raise refused(error.message, error.hint) from error
        except ValueError as error:
            raise refused(f"The URI cannot be opened: {error}.", "Check how the URI is written.") from error
        # The patterns judged one reading of the URI; no other reading of it must be dialled.
        if (url.raw_host, url.port) != (uri.host, uri.port):
            raise refused("The URI's host can be read in two ways.", "Write the URI plainly.")
        return url

    def _session(self, proxy: str | None) -> aiohttp.ClientSession:
        if self._is_closed:  # a request that was under way when the node stopped
            raise aiohttp.ClientConnectionError("The node is shutting down.")
        if proxy is None:
            if self._direct is None:
                connector = TolerantConnector(resolver=self._resolver, socket_factory=self._guard.open_socket)
                self._direct = self._new_session(connector)
            return self._direct
        if self._proxied is None:
            self._proxied = self._new_session(TolerantConnector())  # the operator's proxy may be anywhere
        return self._proxied

    def _new_session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(
                total=None, connect=self._settings.connect_timeout_s, sock_connect=self._settings.connect_timeout_s
            ),
            headers={"User-Agent": self._settings.user_agent, "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=_SOCKET_BUFFER_BYTES,
        )


class SourceClient:
    """Sends the GET requests of one opened source and follows their redirects. The requests share cookies and the
    fields of `link`. `renew` asks the page for another link when the server refuses the present link."""

    def __init__(self, client: HttpClient, link: PageLink | None = None, renew: Renew | None = None) -> None:
        self._client = client
        self._link = link
        self._renew = renew
        self._renewed_at_s = -math.inf
        self._renewing = asyncio.Lock()
        self._cookies = CookieJar()
        self.hops: list[SourceUri] = []  # of the last request: its URI, and those of its redirects

    async def renewed(self, refused: SourceUri) -> SourceUri | None:
        """The link that replaces `refused`, for which the server no longer sends the file. None when there is no page
        to ask, or when the page was asked just now. Raises `PlayError` when the page fails."""
        if self._renew is None or self._link is None:
            return None
        async with self._renewing:  # several transfers may be refused at once
            if self._link.uri.opened != refused.opened:
                return self._link.uri
            now_s = time.monotonic()
            if now_s - self._renewed_at_s < self._client.renew_at_least_s:
                return None
            before_s, self._renewed_at_s = self._renewed_at_s, now_s
            try:
                self._link = await self._renew()
                self._cookies = CookieJar()  # older ones would take the place of those that come with the new link
            except asyncio.CancelledError:
                self._renewed_at_s = before_s  # a transfer that goes on must be able to ask
                raise
            return self._link.uri

    async def get(self, uri: SourceUri, headers: Mapping[str, str]) -> Answer:
        """The first response that is no redirect, with its body unread, and its URI.

        The caller checks the status and closes the response. `headers` are sent to each hop. Raises `PlayError`, or its
        subclass `PassingError` when a retry may help.
        """
        asked: set[tuple[str, str]] = set()
        hops = self.hops = [uri]
        for _ in range(MAX_REDIRECTS + 1):
            own_headers = self._own_headers(uri)
            proxy = None if self._link is None else self._link.proxy
            response = await self._client.send(uri, {**own_headers, **headers}, proxy=proxy)
            for set_cookie in response.headers.getall("Set-Cookie", ()):
                self._cookies.take(uri, set_cookie)
            location = response.headers.get("Location")
            if response.status not in _REDIRECT_STATUSES or location is None:
                return response, uri
            response.close()
            # A server may send back to where it set a cookie, once it has seen that the cookie is kept.
            asked.add((uri.opened, own_headers.get("Cookie", "")))
            uri = self._client.admitted(_joined(uri, location))
            hops.append(uri)
            if (uri.opened, self._own_headers(uri).get("Cookie", "")) in asked:
                raise _too_many_redirects("The redirects go in a circle.")
        raise _too_many_redirects(f"The URI leads through more than {MAX_REDIRECTS} redirects.")

    def _own_headers(self, uri: SourceUri) -> Mapping[str, str]:
        headers = {} if self._link is None else self._link.headers_for(uri)
        given = next((name for name in headers if name.lower() == "cookie"), "Cookie")
        cookies = self._cookies.header_for(uri, headers.get(given, ""))
        return {**headers, given: cookies} if cookies else headers


def _too_many_redirects(message: str) -> PlayError:
    hint = "The server redirects wrongly; give the URI of the file itself."
    return PlayError.of(FailureCode.TOO_MANY_REDIRECTS, Stage.CONNECT, message, hint)


def _joined(base: SourceUri, location: str) -> str:
    """The absolute form of a `Location` header, whose bytes are kept whatever their charset is."""
    raw = location.strip().encode("utf-8", "surrogateescape")
    return joined_uri(base, quote(raw, safe=_ASCII))
