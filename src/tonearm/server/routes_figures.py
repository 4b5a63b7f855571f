"""What the node is and how well it does: for clients, for Prometheus, and for programs that supervise processes."""

from collections.abc import Sequence

from aiohttp import web

from tonearm.node.node import Node
from tonearm.protocol.metrics import METRICS_TYPE, metrics_text, stats_out
from tonearm.server.errors import NotReady
from tonearm.server.replies import json_reply, prefers_json
from tonearm.server.routing import Call, Route
from tonearm.version import BUILD_TIME_MS, VERSION


class FigureRoutes:
    """As every path they need the password, unless `server.open_paths` names them."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/info", self._info),
            Route("GET", "/version", self._version),
            Route("GET", "/v0/stats", self._stats),
            Route("GET", "/metrics", self._metrics),
            Route("GET", "/healthz", self._healthz),
            Route("GET", "/readyz", self._readyz),
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
        text = metrics_text(await self._node.figures())
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
