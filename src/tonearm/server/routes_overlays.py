"""The endpoints of overlays: sounds over whatever a player plays."""

from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web

from tonearm.description.players import ADD_OVERLAYS, LIST_OVERLAYS, REMOVE_OVERLAY, SHOW_OVERLAY
from tonearm.node.node import Node
from tonearm.protocol.rendering import overlay_out
from tonearm.protocol.requests import NewOverlay, NewOverlays
from tonearm.server.bodies import as_model, read_json
from tonearm.server.replies import json_list_reply, json_reply, no_content
from tonearm.server.routes_players import wanted_track
from tonearm.server.routing import Call, Route


class OverlayRoutes:
    def __init__(self, node: Node) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        return (
            Route(ADD_OVERLAYS, self._add),
            Route(LIST_OVERLAYS, self._list),
            Route(SHOW_OVERLAY, self._show),
            Route(REMOVE_OVERLAY, self._remove),
        )

    async def _add(self, call: Call) -> web.Response:
        value = await read_json(call.request)
        if isinstance(value, dict) and "overlays" in value and "uri" not in value:
            return await self._add_all(call, as_model(call.request, value, NewOverlays))
        body = as_model(call.request, value, NewOverlay)
        overlay_id = self._node.add_overlay(call.player_id, wanted_track(call, body), body.as_settings())
        return json_reply({"overlayId": overlay_id}, HTTPStatus.CREATED)

    async def _add_all(self, call: Call, body: NewOverlays) -> web.Response:
        wanted = [
            (wanted_track(call, overlay, f"overlays.{index}."), overlay.as_settings(f"overlays.{index}."))
            for index, overlay in enumerate(body.overlays)
        ]
        overlay_ids = await self._node.add_overlays(call.player_id, wanted)
        return json_reply({"overlayIds": [*overlay_ids]}, HTTPStatus.CREATED)

    async def _list(self, call: Call) -> web.StreamResponse:
        overlays = self._node.player(call.player_id).status().overlays
        return await json_list_reply(call.request, map(overlay_out, overlays))

    async def _show(self, call: Call) -> web.Response:
        return json_reply(overlay_out(self._node.player(call.player_id).overlay(call.overlay_id)))

    async def _remove(self, call: Call) -> web.Response:
        self._node.player(call.player_id).remove_overlay(call.overlay_id)
        return no_content()
