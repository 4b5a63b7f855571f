"""What this node is."""

from collections.abc import Sequence

from aiohttp import web

from tonearm.protocol.rendering import node_info_out, version_out
from tonearm.server.replies import json_reply, prefers_json
from tonearm.server.routing import Call, Route
from tonearm.version import BUILD_TIME_MS, VERSION


class InfoRoutes:
    """The endpoints of versions."""

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/info", self._info), Route("GET", "/version", self._version))

    async def _info(self, call: Call) -> web.Response:
        return json_reply(node_info_out(VERSION, BUILD_TIME_MS))

    async def _version(self, call: Call) -> web.Response:
        if prefers_json(call.request.headers.getall("Accept", [])):
            return json_reply(version_out(VERSION))
        return web.Response(text=VERSION)
