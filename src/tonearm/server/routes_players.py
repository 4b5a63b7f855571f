"""The endpoints of players (their life, their queue, their settings) and of the node itself."""

from collections.abc import Callable, Sequence
from http import HTTPStatus

from aiohttp import web

from tonearm.audio.player import Player
from tonearm.node import Node
from tonearm.protocol.rendering import (
    filters_out,
    node_info_out,
    player_created_out,
    player_out,
    queued_track_out,
    track_queued_out,
    version_out,
)
from tonearm.protocol.requests import FiltersPatch, LoopPatch, MetadataPatch, NewPlayer, NewTrack
from tonearm.server.bodies import read_body
from tonearm.server.replies import json_list_reply, json_reply, no_content, prefers_json
from tonearm.server.routing import Call, Handler, Route
from tonearm.version import BUILD_TIME_MS, VERSION


class PlayerRoutes:
    """A handler that has waited, for a body or for anything else, asks the node for the player only then."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        player = "/v0/players/{player_id}"
        return (
            Route("POST", "/v0/players", self._create),
            Route("GET", "/v0/players", self._list),
            Route("GET", player, self._state),
            Route("DELETE", player, self._delete),
            Route("POST", f"{player}/play", self._order(lambda player: player.play())),
            Route("POST", f"{player}/pause", self._order(lambda player: player.pause())),
            Route("POST", f"{player}/skip", self._order(lambda player: player.skip())),
            Route("POST", f"{player}/queue", self._enqueue),
            Route("GET", f"{player}/queue", self._queue),
            Route("PATCH", f"{player}/loop", self._set_loop),
            Route("GET", f"{player}/filters", self._filters),
            Route("PATCH", f"{player}/filters", self._change_filters),
            Route("PATCH", f"{player}/metadata", self._change_metadata),
        )

    async def _create(self, call: Call) -> web.Response:
        body = await read_body(call.request, NewPlayer)
        await self._node.create_player(body.id, body.uri, body.metadata, came_through_proxy=call.came_through_proxy)
        return json_reply(player_created_out(body.id), HTTPStatus.CREATED)

    async def _list(self, call: Call) -> web.Response:
        return await json_list_reply(player_out(player.status()) for player in self._node.players())

    async def _state(self, call: Call) -> web.Response:
        return json_reply(player_out(self._node.player(call.player_id).status()))

    async def _delete(self, call: Call) -> web.Response:
        await self._node.delete_player(call.player_id)
        return no_content()

    def _order(self, order: Callable[[Player], None]) -> Handler:
        """A handler without a body that only makes the player do something."""

        async def handler(call: Call) -> web.Response:
            order(self._node.player(call.player_id))
            return no_content()

        return handler

    async def _enqueue(self, call: Call) -> web.Response:
        body = await read_body(call.request, NewTrack)
        track_ids = await self._node.enqueue(
            call.player_id, body.uri, body.metadata, came_through_proxy=call.came_through_proxy
        )
        return json_reply(track_queued_out(track_ids), HTTPStatus.CREATED)

    async def _queue(self, call: Call) -> web.Response:
        return await json_list_reply(map(queued_track_out, self._node.player(call.player_id).queue))

    async def _set_loop(self, call: Call) -> web.Response:
        body = await read_body(call.request, LoopPatch)
        self._node.player(call.player_id).set_loop(body.mode)
        return no_content()

    async def _filters(self, call: Call) -> web.Response:
        return json_reply(filters_out(self._node.player(call.player_id).filters))

    async def _change_filters(self, call: Call) -> web.Response:
        body = await read_body(call.request, FiltersPatch)
        self._node.player(call.player_id).change_filters(body.as_change())
        return no_content()

    async def _change_metadata(self, call: Call) -> web.Response:
        body = await read_body(call.request, MetadataPatch)
        self._node.player(call.player_id).change_metadata(body.merge, body.value)
        return no_content()


class InfoRoutes:
    """What this node is."""

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/info", self._info), Route("GET", "/version", self._version))

    async def _info(self, call: Call) -> web.Response:
        return json_reply(node_info_out(VERSION, BUILD_TIME_MS))

    async def _version(self, call: Call) -> web.Response:
        if prefers_json(call.request.headers.getall("Accept", [])):
            return json_reply(version_out(VERSION))
        return web.Response(text=VERSION)
