"""The server of `tonearm dashboard`: its access control, the page's files, and the routes to the nodes.

Only the browser that came with the key may use it. The key is in the address that the command prints, and works once.
The browser gets a cookie for it that scripts cannot read and that other sites cannot make it send. Browsers do not
separate cookies by port, so the cookie's name contains the port that the browser knows. Foreign names for this address
(DNS rebinding) are refused. Behind a proxy the page is reached by the names that the command was given, or, where it
has a password of its own, by any name: an attacker who points a name at this address does not have the password.
"""

import asyncio
import hmac
import math
import re
import secrets
import time
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDictProxy

from tonearm.core.request_rates import RequestRates, origin_of
from tonearm.core.source_uri import address_of, in_url, is_loopback
from tonearm.dashboard.page_files import INDEX, PageFile
from tonearm.dashboard.passing_on import PassingOn

_KEY_BYTES: Final = 16
_OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
_DEFAULT_PORT: Final = "80"
_OF_PROXIES: Final = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Via")
# Passwords from an address: so many, and then one each so many seconds.
_TRIES_AT_ONCE: Final = 10
_TRY_INTERVAL_S: Final = 6.0
# `Sec-Fetch-Site` of requests by the page itself or by the user.
_OWN_SITES: Final = frozenset({"same-origin", "none"})


class Visitors:
    """Checks keys, cookies and passwords. `password` is that of the page itself; empty: it has none. `names` are those
    of a proxy in front of it, with a port where the browser has to name it. `now_s` is a monotonic clock."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        password: str = "",
        now_s: Callable[[], float] = time.monotonic,
        names: Collection[str] = (),
    ) -> None:
        self.cookie: Final = secrets.token_hex(_KEY_BYTES)
        self.stream_key: Final = secrets.token_hex(_KEY_BYTES)
        self.first_key: Final = secrets.token_hex(_KEY_BYTES)
        self._is_key_taken = False
        self._password = password
        self._tries = RequestRates(1 / _TRY_INTERVAL_S, at_once=_TRIES_AT_ONCE)
        self._now_s = now_s
        self._names = {*_OWN_NAMES, *(() if is_loopback(host) else (in_url(host).lower(),))}
        self._hosts_of_proxy = frozenset(name.lower() for name in names)

    @property
    def has_password(self) -> bool:
        return bool(self._password)

    def takes_key(self, key: str) -> bool:
        """Whether `key` is the printed one and was not used yet. It is used up by this."""
        if self._is_key_taken or not _is_same(key, self.first_key):
            return False
        self._is_key_taken = True
        return True

    def wait_s(self, address: str) -> float:
        """0 when a password may be tried from `address` now, which is counted then; else in how many seconds it may."""
        return self._tries.wait_s(origin_of(address), self._now_s())

    def takes_password(self, authorization: str) -> bool:
        """Whether the header `Authorization` has the page's own password; any user name is accepted (RFC 7617)."""
        scheme, _, encoded = authorization.partition(" ")
        if not self._password or scheme.lower() != "basic":
            return False
        try:
            sent = b64decode(encoded).decode("utf-8").partition(":")[2]
        except (NoBase64, ValueError):
            return False
        return _is_same(sent, self._password)

    def cookie_name(self, host: str) -> str:
        """The name of the cookie for a request with this `Host` header."""
        found = _HOST.fullmatch(host)
        return f"tonearm-{(found and found[2]) or _DEFAULT_PORT}"

    def knows(self, cookie: str | None) -> bool:
        return cookie is not None and _is_same(cookie, self.cookie)

    def takes_stream_key(self, key: str) -> bool:
        return _is_same(key, self.stream_key)

    def is_own_name(self, headers: CIMultiDictProxy[str]) -> bool:
        """Whether a request's `Host` is one name by which this page may be reached."""
        hosts = headers.getall("Host", [])
        found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if found is None:
            return False
        name = found[1].lower()
        is_name_of_proxy = hosts[0].lower() in self._hosts_of_proxy or self._heeds_proxy(headers)
        return name in self._names or is_name_of_proxy or (self.has_password and address_of(name) is not None)

    def is_own_page(self, headers: CIMultiDictProxy[str], *, needs_origin: bool) -> bool:
        """Whether a request was sent by the page itself, or by no page. Without `needs_origin` its `Origin` does not
        count."""
        origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
        if site is not None and site not in _OWN_SITES:
            return False
        return not needs_origin or origin is None or origin.lower() in self._origins(headers)

    def _origins(self, headers: CIMultiDictProxy[str]) -> set[str]:
        """The origins that the page may have for the browser that sent these headers: by https behind a proxy."""
        host, hosts_of_proxy = headers["Host"].lower(), set(self._hosts_of_proxy)
        if self._heeds_proxy(headers):
            hosts_of_proxy |= {host, headers.get("X-Forwarded-Host", host).strip().lower()}
        return {f"http://{host}", *(f"{scheme}://{one}" for one in hosts_of_proxy for scheme in ("http", "https"))}

    def _heeds_proxy(self, headers: CIMultiDictProxy[str]) -> bool:
        """Whether it counts what a proxy says of the request that it passed on: only with a password."""
        return self.has_password and any(name in headers for name in _OF_PROXIES)


def is_host_header(text: str) -> bool:
    """Whether this is a name or an address, with or without a port."""
    return _HOST.fullmatch(text) is not None


def _is_same(sent: str, known: str) -> bool:
    return hmac.compare_digest(sent.encode("utf-8", "replace"), known.encode())


_FOLDER: Final = "/dashboard/"
_READING: Final = ("GET", "HEAD")
_PLAIN: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_CHALLENGE: Final = {**_PLAIN, "WWW-Authenticate": 'Basic realm="tonearm dashboard", charset="UTF-8"'}
_WHERE: Final = (
    "This dashboard is for the browser that was opened with the address that the command printed. It works once: to "
    "open the page in another browser, end the command and start it again."
)
_REACHED_AS: Final = (
    "This page is reached as localhost or 127.0.0.1, with its port. Behind a proxy, start the command with --name and "
    "the name that stands in the browser's address line."
)
_FROM_ELSEWHERE: Final = "A link of another page leads here. Paste the address into the browser's address line instead."
_NO_HTTP: Final = "This is not a valid HTTP request, or its head is too large. Send HTTP/1.1."
_TOO_OFTEN: Final = "From this address too many passwords were tried. Wait some seconds, and try again."


class PageServer:
    """Serves `files`, by their path below the page's folder, and passes requests on to nodes."""

    def __init__(self, visitors: Visitors, files: Mapping[str, PageFile], passing_on: PassingOn) -> None:
        self._visitors = visitors
        self._files = files
        self._passing_on = passing_on

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._guard()])
        app.on_response_prepare.append(_hide_version)
        app.router.add_get("/", self._enter)
        app.router.add_get("/dashboard", self._lead_to_page)
        app.router.add_get(_FOLDER + "{file:.*}", self._show)
        app.router.add_route("*", "/nodes/{node:[0-9]{1,3}}/v0/{rest:.*}", self._pass_on)
        app.router.add_get(
            "/listen/{key}/{node:[0-9]{1,3}}/v0/players/{id}/{stream:stream[.](?:mp3|ogg|wav)}", self._stream
        )
        return app

    def _guard(self) -> Middleware:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not self._visitors.is_own_name(request.headers):
                return _refusal(_REACHED_AS)
            if request.path == "/" or request.path.startswith("/listen/"):  # these two check keys instead of the cookie
                return await handler(request)
            if not self._visitors.knows(request.cookies.get(self._visitors.cookie_name(request.headers["Host"]))):
                if self._visitors.has_password and request.path.startswith("/dashboard"):
                    return _led_to("/")
                return _refusal(_WHERE)
            is_change = request.method not in _READING or "Upgrade" in request.headers
            if not self._visitors.is_own_page(request.headers, needs_origin=is_change):
                return _refusal("Requests of pages from elsewhere are refused.")
            return await handler(request)

        return guard

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        """Trades the key, or the page's own password, for the cookie."""
        visitors = self._visitors
        cookie_name = visitors.cookie_name(request.headers["Host"])
        if visitors.knows(request.cookies.get(cookie_name)):
            return _led_to(_FOLDER)
        if not visitors.is_own_page(request.headers, needs_origin=False):  # a foreign page must not use the key up
            return _refusal(_FROM_ELSEWHERE)
        if request.method == "HEAD" or not visitors.takes_key(request.query.get("k", "")):
            if not visitors.has_password:
                return _refusal(_WHERE)
            sent = request.headers.get("Authorization", "")
            wait_s = visitors.wait_s(request.remote or "") if sent else 0.0
            if wait_s:
                headers = {**_PLAIN, "Retry-After": str(math.ceil(wait_s))}
                return web.Response(status=HTTPStatus.TOO_MANY_REQUESTS, text=_TOO_OFTEN, headers=headers)
            if not visitors.takes_password(sent):
                return web.Response(status=HTTPStatus.UNAUTHORIZED, text=_WHERE, headers=_CHALLENGE)
        response = _led_to(_FOLDER)
        is_https = request.headers.get("X-Forwarded-Proto", "").strip().lower() == "https"
        response.set_cookie(
            cookie_name, visitors.cookie, httponly=True, samesite="Strict", path="/", secure=is_https or None
        )
        return response

    async def _lead_to_page(self, request: web.Request) -> web.StreamResponse:
        return _led_to(_FOLDER)

    async def _show(self, request: web.Request) -> web.StreamResponse:
        file = self._files.get(request.match_info["file"] or INDEX)
        if file is None:
            return web.Response(status=HTTPStatus.NOT_FOUND, headers=_PLAIN)
        if file.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=file.headers())
        return web.Response(body=file.body, headers=file.headers())

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        return await self._passing_on.answer(request, int(request.match_info["node"]), _below(request.raw_path, 2))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """A stream for other programs than the browser, which have no cookie but a key in the path."""
        if not self._visitors.takes_stream_key(request.match_info["key"]):
            return _refusal("This link is of a dashboard that runs no more.")
        return await self._passing_on.answer(request, int(request.match_info["node"]), _below(request.raw_path, 3))


class PageRunner(web.AppRunner):
    """Runs the application of a `PageServer`. What is no HTTP is answered, too, without a word in the log: anybody who
    reaches the page can send it."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _HttpServer(made.request_handler, request_factory=made.request_factory)


class _HttpServer(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=asyncio.get_running_loop(), access_log=None)  # type: ignore[arg-type]  # documented to switch the access log off


class _Connection(web.RequestHandler):
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answers without details: aiohttp would repeat the sent bytes, which may be a key, and tell its version."""
        answer: web.StreamResponse
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            answer = web.Response(status=status, text=_NO_HTTP, headers=_PLAIN)
            answer.force_close()
        else:
            answer = super().handle_error(request, status, exc, message)
        answer.headers["Server"] = "tonearm"
        return answer


def _below(target: str, depth: int) -> str:
    """What of a request's target, as it was sent, is below `depth` folders. It may be in absolute form."""
    if not target.startswith("/"):
        target = "/" + target.partition("://")[2].partition("/")[2]
    return "/" + target.split("/", depth + 1)[-1]


async def _hide_version(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "tonearm"


def _led_to(path: str) -> web.Response:
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={**_PLAIN, "Location": path})


def _refusal(text: str) -> web.Response:
    return web.Response(status=HTTPStatus.FORBIDDEN, text=text, headers=_PLAIN)
