"""Answers requests in a cluster: at this node, at the node that has the player, or at all nodes together. It also has
the routes that only a cluster has.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import web

from tonearm.cluster.engine import EngineLost
from tonearm.cluster.forwarding import HOP, NODE
from tonearm.cluster.moving import Moving
from tonearm.cluster.nodes import Joined
from tonearm.cluster.relays import Relays, give_frames
from tonearm.cluster.taking import Taking
from tonearm.cluster.together import AllPlayers
from tonearm.core.cluster import placed
from tonearm.core.errors import BadRequest, EngineGone, NodeUnreachable, PlayerNotFound
from tonearm.core.figures import ClusterFigures
from tonearm.description.audio import FOLLOW_PLAYER, FOLLOW_PLAYERS, LISTEN
from tonearm.description.cluster import DRAIN_NODE, LIST_NODES, MOVE_PLAYER, SHOW_NODE, STOP_DRAINING, TAKE_PLAYER
from tonearm.description.node import GET_RECORDS, LOG_OUT
from tonearm.description.operation import Operation, Subject
from tonearm.description.players import CREATE_PLAYER, LIST_PLAYERS
from tonearm.node.node import Node
from tonearm.protocol.requests import MoveTo
from tonearm.server.audio_settings import AudioSettings
from tonearm.server.audio_streams import AudioStreamRoutes
from tonearm.server.bodies import read_body, read_raw
from tonearm.server.http_server import EdgeRequest
from tonearm.server.replies import NotFound, json_reply, no_content
from tonearm.server.routes_state import LEAST_MAX_BYTES
from tonearm.server.routing import Call, Route
from tonearm.server.sockets import AudioSocketRoute
from tonearm.server.streams import OpenStreams

_MOST_BODY_BYTES: Final = LEAST_MAX_BYTES
_EPOCH_DIGITS: Final = 18
_FOUND_AFTER_S: Final = 0.05  # while a player moves, its node is looked up again after so long
_FOUND_LATER_S: Final = 4.0  # than its lease another node has taken the players of a lost node


class Answers:
    """As `server.app.ClusterRoutes`, for the node that `joined` the cluster `name`."""

    _streams: OpenStreams
    _audio: AudioSettings

    def __init__(self, joined: Joined, name: str, node: Node, moving: Moving, taking: Taking) -> None:
        self.own: Final = joined.own
        self.name: Final = name
        self._nodes, self._membership = joined, joined.membership
        self._ownership, self._forwarding = joined.ownership, joined.forwarding
        self.node, self.moving, self.taking = node, moving, taking
        self._all = AllPlayers(joined, node, moving.on_their_way)
        self._relays = Relays(node, joined.forwarding, lambda player_id: partial(self._place_of, player_id))
        self._found_tries = round((joined.membership.lease.length_s + _FOUND_LATER_S) / _FOUND_AFTER_S)

    def serves(self, streams: OpenStreams, audio: AudioSettings) -> None:
        self._streams, self._audio = streams, audio
        find = self._relays.find
        routes = (*AudioSocketRoute(find, streams, audio).routes(), *AudioStreamRoutes(find, streams, audio).routes())
        self._listening = {route.operation.path: route.handler for route in routes}

    def close(self) -> None:
        self._relays.close()

    def is_from_node(self, request: EdgeRequest) -> bool:
        return HOP in request.headers

    async def answer(self, call: Call, operation: Operation) -> web.StreamResponse | None:
        if self.is_from_node(call.request):
            if operation is LIST_PLAYERS:
                return await self._all.states(call.request, of_all=False)
            if operation is GET_RECORDS:
                return await self._all.records(call.request, of_all=False)
            if operation is LISTEN and self._here(call.player_id):
                return await give_frames(call, self.node, self._streams, self._audio)
            passed = None
        else:
            passed = await self._elsewhere(call, operation)
        if passed is None and operation.subject in (Subject.PLAYER, Subject.NEW_PLAYER):
            call.request.add_reply_header(NODE, self.own)
        return passed

    async def _elsewhere(self, call: Call, operation: Operation) -> web.StreamResponse | None:
        request = call.request
        if operation is TAKE_PLAYER:  # only nodes may ask for this
            return None
        if operation is CREATE_PLAYER:
            return await self._created(request)
        if operation is LIST_PLAYERS:
            return await self._all.states(request, of_all=True)
        if operation is GET_RECORDS:
            return await self._all.records(request, of_all=True)
        if operation is FOLLOW_PLAYERS:
            return await self._forwarding.follow_all(request, self._streams, self._nodes.living)
        if operation is LOG_OUT:  # at all nodes, because each node accepts the cookies of the others
            await self._all.ask_others("POST", "/dashboard/logout")
            return None
        if operation.subject not in (Subject.PLAYER, Subject.NEW_PLAYER) or self._here(call.player_id):
            return None
        return await self._passed(call, operation)

    def _here(self, player_id: str) -> bool:
        return self.node.find(player_id) is not None

    async def _passed(self, call: Call, operation: Operation) -> web.StreamResponse | None:
        """The answer of the node that has the player; None when no node has it."""
        request, player_id = call.request, call.player_id
        if await self._place_of(player_id) is None:
            return None
        if operation is FOLLOW_PLAYER:
            return await self._forwarding.pass_events(request, self._streams, partial(self._place_of, player_id))
        if operation.path in self._listening and request.method != "HEAD":
            return await self._listening[operation.path](call)
        body = bytes(await read_raw(request, _MOST_BODY_BYTES)) or None
        unreachable: NodeUnreachable | None = None
        for _ in range(self._found_tries):
            place, unreachable = await self._place_of(player_id), None
            if place is None:
                break
            if place[1] == self.own:
                if self._here(player_id):
                    return None
            else:
                try:
                    answer = await self._forwarding.pass_on(request, body, *place)
                except NodeUnreachable as error:
                    # A node that does not listen yet got no request. Another node may have carried it out.
                    if place[0] and request.method not in ("GET", "HEAD"):
                        raise
                    answer, unreachable = None, error
                if answer is not None:
                    return answer
            await asyncio.sleep(_FOUND_AFTER_S)  # the player is moving
        raise unreachable or PlayerNotFound.of(player_id)

    async def _place_of(self, player_id: str) -> tuple[str, str] | None:
        """The address and name of the node that has a player; None when no node has it."""
        try:
            owner = await self._ownership.owner_of(player_id)
        except EngineLost as error:
            raise EngineGone.of(error) from error
        if owner is None:
            return None
        record = self._membership.members.records().get(owner)
        return record.address if record else "", owner  # a node that has left has no address

    async def _created(self, request: EdgeRequest) -> web.StreamResponse | None:
        """The node on which to create the player; None for this node."""
        body = bytes(await read_raw(request, 1024 * 1024))
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            return None  # this node answers with the error
        wanted = fields.get("node") if isinstance(fields, dict) else None
        living = self._nodes.living()
        if isinstance(wanted, str) and wanted:
            if wanted not in living:
                raise BadRequest(f"There is no living node {wanted!r}. There are {', '.join(living)}.")
            name: str | None = wanted
        else:
            name = placed(living, random.sample)
        if name is None or name == self.own:
            return None
        return await self._forwarding.pass_on(request, body, living[name].address, name)

    def routes(self) -> Sequence[Route]:
        return (
            Route(LIST_NODES, self._list),
            Route(SHOW_NODE, self._show),
            Route(DRAIN_NODE, partial(self._drain_asked, drains=True)),
            Route(STOP_DRAINING, partial(self._drain_asked, drains=False)),
            Route(MOVE_PLAYER, self._move_asked),
            Route(TAKE_PLAYER, self._taken_from),
        )

    async def _list(self, call: Call) -> web.Response:
        return json_reply({"nodes": [self._nodes.shown(name) for name in self._nodes.names()]})

    async def _show(self, call: Call) -> web.Response:
        name = call.arguments["{node}"]
        if name == "self" and self.is_from_node(call.request):  # the other node asks whether it may play on
            await self._membership.look()
        return json_reply(self._nodes.shown(self.own if name == "self" else self._nodes.known(name)))

    def figures(self) -> ClusterFigures:
        return self._nodes.figures()

    async def _drain_asked(self, call: Call, *, drains: bool) -> web.StreamResponse:
        name = self._nodes.known(self.own if call.arguments["{node}"] == "self" else call.arguments["{node}"])
        if name != self.own:
            address = self._membership.members.records()[name].address
            answer = await self._forwarding.pass_on(call.request, None, address, name)
            return answer or web.Response(status=HTTPStatus.BAD_GATEWAY)
        if drains and placed(self._nodes.living(), random.sample, avoided=[self.own]) is None:
            raise BadRequest("There is no other living node that takes players.")
        self.moving.is_draining = drains
        if drains:
            self.moving.all()
        return no_content()

    async def _move_asked(self, call: Call) -> web.StreamResponse:
        body = await read_body(call.request, MoveTo)
        await self.moving.one(call.player_id, body.node)
        return no_content()

    async def _taken_from(self, call: Call) -> web.StreamResponse:
        """Takes a player that another node hands over."""
        if not self.is_from_node(call.request):
            raise NotFound("Players are moved with POST, by whoever wants them moved.")
        record = bytes(await read_raw(call.request, _MOST_BODY_BYTES))
        owner, epoch = call.target.required_parameter("from"), call.target.required_parameter("epoch")
        if not (epoch.isascii() and epoch.isdigit() and len(epoch) <= _EPOCH_DIGITS):
            raise BadRequest("epoch must be a number.")
        await self.taking.handed_over(call.player_id, record, owner, int(epoch))
        return no_content()
