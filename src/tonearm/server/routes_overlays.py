"""The endpoints of overlays: sounds over whatever a player plays."""

from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web

from tonearm.node import Node
from tonearm.protocol.rendering import overlay_created_out, overlay_out
from tonearm.protocol.requests import NewOverlay
from tonearm.server.bodies import read_body
from tonearm.server.replies import json_list_reply, json_reply, no_content
from tonearm.server.routes_players import wanted_track
from tonearm.server.routing import OVERLAY_ARGUMENT, Call, Route


class OverlayRoutes:
    def __init__(self, node: Node) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        overlays = "/v0/players/{player_id}/overlays"
        return (
            Route("POST", overlays, self._add),
            Route("GET", overlays, self._list),
            Route("GET", f"{overlays}/{OVERLAY_ARGUMENT}", self._show),
            Route("DELETE", f"{overlays}/{OVERLAY_ARGUMENT}", self._remove),
        )

    async def _add(self, call: Call) -> web.Response:
        body = await read_body(call.request, NewOverlay)
        overlay_id = self._node.add_overlay(
            call.player_id, wanted_track(body), body.as_settings(), came_through_proxy=call.came_through_proxy
        )
        return json_reply(overlay_created_out(overlay_id), HTTPStatus.CREATED)

    async def _list(self, call: Call) -> web.StreamResponse:
        overlays = self._node.player(call.player_id).status().overlays
        return await json_list_reply(call.request, map(overlay_out, overlays))

    async def _show(self, call: Call) -> web.Response:
        return json_reply(overlay_out(self._node.player(call.player_id).overlay(call.overlay_id)))

    async def _remove(self, call: Call) -> web.Response:
        self._node.player(call.player_id).remove_overlay(call.overlay_id)
        return no_content()
