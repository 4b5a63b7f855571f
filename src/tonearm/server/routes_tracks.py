"""What can be asked about sources without a player."""

from collections.abc import Sequence

from aiohttp import web

from tonearm.server.negotiation import prefers_json
from tonearm.server.node_api import NodeApi
from tonearm.server.replies import json_reply
from tonearm.server.routing import Call, Route


class TrackRoutes:
    def __init__(self, node: NodeApi) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/v0/resolve", self._resolve),)

    async def _resolve(self, call: Call) -> web.Response:
        url = await self._node.resolve(call.target.required_parameter("url"))
        if prefers_json(call.request.headers.getall("Accept", [])):
            return json_reply({"url": url})
        return web.Response(text=url)
