"""Players: their life, their queue and their settings.

What this node is.
"""

from collections.abc import Callable, Sequence
from http import HTTPStatus

from aiohttp import web

from tonearm.core.json_value import JsonObject
from tonearm.server.bodies import FiltersPatch, LoopPatch, MetadataPatch, NewPlayer, NewTrack, read_body
from tonearm.server.node_api import NodeApi
from tonearm.server.replies import json_list_reply, json_reply, no_content, prefers_json
from tonearm.server.routing import Call, Handler, Route
from tonearm.version import BUILD_TIME_MS, VERSION


class InfoRoutes:
    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/info", self._info), Route("GET", "/version", self._version))

    async def _info(self, call: Call) -> web.Response:
        return json_reply({"version": VERSION, "buildTime": BUILD_TIME_MS})

    async def _version(self, call: Call) -> web.Response:
        if prefers_json(call.request.headers.getall("Accept", [])):
            return json_reply({"version": VERSION})
        return web.Response(text=VERSION)


class PlayerRoutes:
    def __init__(self, node: NodeApi) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        player = "/v0/players/{player_id}"
        return (
            Route("POST", "/v0/players", self._create),
            Route("GET", "/v0/players", self._list),
            Route("GET", player, self._state),
            Route("DELETE", player, self._delete),
            Route("POST", f"{player}/play", _control(self._node.play)),
            Route("POST", f"{player}/pause", _control(self._node.pause)),
            Route("POST", f"{player}/skip", _control(self._node.skip)),
            Route("POST", f"{player}/queue", self._enqueue),
            Route("GET", f"{player}/queue", self._waiting),
            Route("PATCH", f"{player}/loop", self._set_loop),
            Route("GET", f"{player}/filters", self._filters),
            Route("PATCH", f"{player}/filters", self._change_filters),
            Route("PATCH", f"{player}/metadata", self._change_metadata),
        )

    async def _create(self, call: Call) -> web.Response:
        body = await read_body(call.request, NewPlayer)
        await self._node.create_player(body.id, body.uri, body.metadata, came_through_proxy=call.came_through_proxy)
        return json_reply({"id": body.id}, HTTPStatus.CREATED)

    async def _list(self, call: Call) -> web.Response:
        return await json_list_reply(self._node.list_players())

    async def _state(self, call: Call) -> web.Response:
        return json_reply(self._node.player_state(call.player_id))

    async def _delete(self, call: Call) -> web.Response:
        await self._node.delete_player(call.player_id)
        return no_content()

    async def _enqueue(self, call: Call) -> web.Response:
        body = await read_body(call.request, NewTrack)
        track_ids = await self._node.enqueue(
            call.player_id, body.uri, body.metadata, came_through_proxy=call.came_through_proxy
        )
        reply: JsonObject = {"trackId": track_ids[0]}
        if len(track_ids) > 1:
            reply["trackIds"] = list(track_ids)
        return json_reply(reply, HTTPStatus.CREATED)

    async def _waiting(self, call: Call) -> web.Response:
        return await json_list_reply(self._node.waiting(call.player_id))

    async def _set_loop(self, call: Call) -> web.Response:
        body = await read_body(call.request, LoopPatch)
        self._node.set_loop(call.player_id, body.mode)
        return no_content()

    async def _filters(self, call: Call) -> web.Response:
        return json_reply(self._node.filters(call.player_id))

    async def _change_filters(self, call: Call) -> web.Response:
        body = await read_body(call.request, FiltersPatch)
        self._node.change_filters(call.player_id, body.as_change())
        return no_content()

    async def _change_metadata(self, call: Call) -> web.Response:
        body = await read_body(call.request, MetadataPatch)
        self._node.change_metadata(call.player_id, body.merge, body.value)
        return no_content()


def _control(change: Callable[[str], None]) -> Handler:
    """A route that has no body and only does something to the player."""

    async def handler(call: Call) -> web.Response:
        change(call.player_id)
        return no_content()

    return handler
