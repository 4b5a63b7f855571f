"""The endpoints about the node: its version, figures, health, the description of its interface, and its dashboard.

A node without a password serves the dashboard to its own machine only; a request through a proxy comes from elsewhere
and gets 404. A node with a password serves it to logged-in browsers, if configured.
"""

import asyncio
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from tonearm import BUILD_TIME_MS, VERSION
from tonearm.core.errors import RequestError
from tonearm.core.figures import ClusterFigures
from tonearm.core.metadata import JsonObject
from tonearm.dashboard.page_files import INDEX, PageFile
from tonearm.description import node as operations
from tonearm.description.asyncapi import asyncapi_document
from tonearm.description.openapi import openapi_document
from tonearm.description.operation import Operation
from tonearm.description.page import CONTENT_SECURITY_POLICY, docs_page
from tonearm.node.node import Node
from tonearm.protocol.metrics import METRICS_TYPE, metrics_text, stats_out
from tonearm.server.replies import NotFound, NotReady, accepts_html, json_reply, prefers_json
from tonearm.server.routing import Call, Route


class FigureRoutes:
    """The endpoints of figures need the password, unless `server.open_paths` names them. `cluster_figures` gives the
    figures of the node's cluster."""

    def __init__(self, node: Node, cluster_figures: Callable[[], ClusterFigures] | None = None) -> None:
        self._node = node
        self._cluster_figures = cluster_figures

    def routes(self) -> Sequence[Route]:
        return (
            Route(operations.SHOW_BUILD, self._info),
            Route(operations.SHOW_VERSION, self._version),
            Route(operations.SHOW_STATS, self._stats),
            Route(operations.SHOW_METRICS, self._metrics),
            Route(operations.SHOW_HEALTH, self._healthz),
            Route(operations.SHOW_READINESS, self._readyz),
        )

    async def _info(self, call: Call) -> web.Response:
        return json_reply({"version": VERSION, "buildTime": BUILD_TIME_MS})

    async def _version(self, call: Call) -> web.Response:
        if prefers_json(call.request.headers.getall("Accept", [])):
            return json_reply({"version": VERSION})
        return web.Response(text=VERSION)

    async def _stats(self, call: Call) -> web.Response:
        return json_reply(stats_out(await self._node.figures()))

    async def _metrics(self, call: Call) -> web.Response:
        cluster = None if self._cluster_figures is None else self._cluster_figures()
        text = metrics_text(await self._node.figures(), cluster)
        return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})

    async def _healthz(self, call: Call) -> web.Response:
        return json_reply({"status": "ok"})

    async def _readyz(self, call: Call) -> web.Response:
        reason = self._node.unreadiness()
        if reason:
            raise NotReady(reason)
        degradation = self._node.degradation
        if degradation:
            return json_reply({"status": "degraded", "reason": degradation})
        return json_reply({"status": "ready"})


# They are in the node's repository, and on the site that `make docs` builds.
DOCUMENTS: Final = (
    "README.md",
    "docs/tour.md",
    "docs/interface.md",
    "docs/configuration.md",
    "docs/dashboard.md",
    "docs/proxies.md",
    "docs/security.md",
)

_FIRST_STEPS: Final = """curl -d '{"id": "tour", "uri": "https://radio.example/live.mp3"}' NODE/v0/players
mpv NODE/v0/players/tour/stream.mp3
curl NODE/v0/players"""


def _page(host: str, paths: Sequence[tuple[str, str]]) -> str:
    rows = "\n".join(f"<tr><td>{method}<td><code>{html.escape(path)}</code>" for path, method in paths)
    steps = html.escape(_FIRST_STEPS.replace("NODE", f"http://{host}"))
    documents = ", ".join(f"<code>{document}</code>" for document in DOCUMENTS)
    has_dashboard = any(path == "/dashboard" for path, _ in paths)
    dashboard = '<p>See and steer it: <a href="/dashboard">/dashboard</a>.' if has_dashboard else ""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>tonearm {VERSION}</title>
<h1>tonearm {VERSION}</h1>
{dashboard}
<p>This is an audio node: programs create players here, and listen to them. To try it:
<pre>{steps}</pre>
<p>What each path takes and answers: <a href="/docs">/docs</a>, and the documents in its repository: {documents}.
<table>
{rows}
</table>
"""


class DescriptionRoutes:
    """The description of all routes: `others` and its own. Both documents are made when the first of them is asked for,
    in a thread, since that takes long."""

    def __init__(self, others: Iterable[Route]) -> None:
        self._making: asyncio.Future[tuple[JsonObject, JsonObject]] | None = None
        self._own = (
            Route(operations.SHOW_INDEX, self._index),
            Route(operations.DESCRIBE_PATHS, self._openapi),
            Route(operations.DESCRIBE_SOCKETS, self._asyncapi),
            Route(operations.SHOW_DOCS, self._docs),
        )
        self._operations = tuple(route.operation for route in (*others, *self._own))
        named = (one for one in self._operations if one is not operations.SHOW_INDEX)
        self._paths = sorted({(operation.path, operation.method) for operation in named})

    def routes(self) -> Sequence[Route]:
        return self._own

    async def _index(self, call: Call) -> web.Response:
        if accepts_html(call.request.headers.getall("Accept", [])):
            return web.Response(
                text=_page(call.request.headers.get("Host", ""), self._paths),
                content_type="text/html",
                headers={"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff"},
            )
        return json_reply(
            {
                "version": VERSION,
                "documents": list(DOCUMENTS),
                "paths": [f"{method} {path}" for path, method in self._paths],
            }
        )

    async def _openapi(self, call: Call) -> web.Response:
        return json_reply((await self._documents())[0])

    async def _asyncapi(self, call: Call) -> web.Response:
        return json_reply((await self._documents())[1])

    async def _docs(self, call: Call) -> web.Response:
        page = await asyncio.to_thread(docs_page, *await self._documents())
        return web.Response(
            text=page,
            content_type="text/html",
            headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY, "X-Content-Type-Options": "nosniff"},
        )

    async def _documents(self) -> tuple[JsonObject, JsonObject]:
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(_make, self._operations))
        return await asyncio.shield(self._making)


def _make(operations: Iterable[Operation]) -> tuple[JsonObject, JsonObject]:
    return openapi_document(VERSION, operations, status_of_code()), asyncapi_document(VERSION)


def status_of_code() -> dict[str, int]:
    """The HTTP status of each error code, except while the node stops."""
    return {"internal": 500, **{error.code: error.status for error in RequestError.__subclasses__()}}


_FOLDER: Final = "/dashboard/"


class DashboardRoutes:
    """The endpoints of the page. `files`: the page's files, by path below its folder."""

    def __init__(self, files: Mapping[str, PageFile], *, is_for_own_machine: bool) -> None:
        self._files = files
        self._is_for_own_machine = is_for_own_machine

    def routes(self) -> Sequence[Route]:
        return (
            Route(operations.SHOW_DASHBOARD, self._enter),
            *(Route(files, self._show) for files in operations.DASHBOARD_FILES),
        )

    async def _enter(self, call: Call) -> web.Response:
        self._require_own_machine(call)
        return web.Response(status=HTTPStatus.PERMANENT_REDIRECT, headers={"Location": _FOLDER})

    async def _show(self, call: Call) -> web.Response:
        self._require_own_machine(call)
        file = self._files.get(call.target.path.removeprefix(_FOLDER) or INDEX)
        if file is None:
            raise NotFound("The dashboard has no such file.")
        if file.etag in call.request.headers.get("If-None-Match", ""):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=file.headers())
        return web.Response(body=file.body, headers=file.headers())

    def _require_own_machine(self, call: Call) -> None:
        if self._is_for_own_machine and call.came_through_proxy:
            raise NotFound("The dashboard is served to this machine only. On other machines run `tonearm dashboard`.")
