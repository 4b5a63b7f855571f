"""The server of `tonearm dashboard`: checks of requests, the page's files, and the routes to the nodes."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tonearm.dashboard.page_files import INDEX, PageFile
from tonearm.dashboard.passing_on import PassingOn
from tonearm.dashboard.visitors import Visitors, is_own_page

_FOLDER: Final = "/dashboard/"
_READING: Final = ("GET", "HEAD")
_PLAIN: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_CHALLENGE: Final = {**_PLAIN, "WWW-Authenticate": 'Basic realm="tonearm dashboard", charset="UTF-8"'}
_WHERE: Final = (
    "This dashboard is for the browser that was opened with the address that the command printed. It works once: to "
    "open the page in another browser, end the command and start it again."
)


class PageServer:
    """Serves `files`, by their path below the page's folder, and passes requests on to nodes."""

    def __init__(self, visitors: Visitors, files: Mapping[str, PageFile], passing_on: PassingOn) -> None:
        self._visitors = visitors
        self._files = files
        self._passing_on = passing_on

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._guard()])
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
            if not self._visitors.is_own_name(request.headers.getall("Host", [])):
                return _refusal("This page is reached as localhost or 127.0.0.1, with its port.")
            if request.path == "/" or request.path.startswith("/listen/"):  # these two check keys instead of the cookie
                return await handler(request)
            if not self._visitors.knows(request.cookies.get(self._visitors.cookie_name)):
                if self._visitors.has_password and request.path.startswith("/dashboard"):
                    return _led_to("/")
                return _refusal(_WHERE)
            is_change = request.method not in _READING or "Upgrade" in request.headers
            origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
            if not is_own_page(request.host, origin if is_change else None, site):
                return _refusal("Requests of pages from elsewhere are refused.")
            return await handler(request)

        return guard

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        """Trades the key, or the page's own password, for the cookie."""
        visitors = self._visitors
        if visitors.knows(request.cookies.get(visitors.cookie_name)):
            return _led_to(_FOLDER)
        if not (
            visitors.takes_key(request.query.get("k", ""))
            or visitors.takes_password(request.headers.get("Authorization", ""))
        ):
            if visitors.has_password:
                return web.Response(status=HTTPStatus.UNAUTHORIZED, text=_WHERE, headers=_CHALLENGE)
            return _refusal(_WHERE)
        response = _led_to(_FOLDER)
        response.set_cookie(visitors.cookie_name, visitors.cookie, httponly=True, samesite="Strict", path="/")
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
        number = request.match_info["node"]
        target = request.raw_path.removeprefix(f"/nodes/{number}")
        return await self._passing_on.answer(request, int(number), target)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """A stream for other programs than the browser, which have no cookie but a key in the path."""
        key, number = request.match_info["key"], request.match_info["node"]
        if not self._visitors.takes_stream_key(key):
            return _refusal("This link is of a dashboard that runs no more.")
        target = request.raw_path.removeprefix(f"/listen/{key}/{number}")
        return await self._passing_on.answer(request, int(number), target)


def _led_to(path: str) -> web.Response:
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={**_PLAIN, "Location": path})


def _refusal(text: str) -> web.Response:
    return web.Response(status=HTTPStatus.FORBIDDEN, text=text, headers=_PLAIN)
