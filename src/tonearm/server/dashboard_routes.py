"""`/dashboard`: a page to see and steer the node, for who sits before its machine.

Only a node that anybody on its machine may steer serves it. What a proxy passed on comes from elsewhere, and finds
nothing here.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from tonearm.dashboard.page_files import INDEX, PageFile
from tonearm.server.errors import NotFound
from tonearm.server.routing import Call, Route

_FOLDER: Final = "/dashboard/"


class DashboardRoutes:
    """The endpoints of the page. `files`: the page's files, by path below its folder."""

    def __init__(self, files: Mapping[str, PageFile]) -> None:
        self._files = files

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/dashboard", self._enter),
            Route("GET", "/dashboard/", self._show),
            Route("GET", "/dashboard/{file}", self._show),
            Route("GET", "/dashboard/{folder}/{file}", self._show),
        )

    async def _enter(self, call: Call) -> web.Response:
        _require_own_machine(call)
        return web.Response(status=HTTPStatus.PERMANENT_REDIRECT, headers={"Location": _FOLDER})

    async def _show(self, call: Call) -> web.Response:
        _require_own_machine(call)
        file = self._files.get(call.target.path.removeprefix(_FOLDER) or INDEX)
        if file is None:
            raise NotFound("There is no such file of the dashboard.")
        if file.etag in call.request.headers.get("If-None-Match", ""):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=file.headers())
        return web.Response(body=file.body, headers=file.headers())


def _require_own_machine(call: Call) -> None:
    if call.came_through_proxy:
        raise NotFound("The dashboard is for the machine of the node. For others there is the command `dashboard`.")
