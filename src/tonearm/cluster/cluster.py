"""One node's part in a cluster: it keeps its lease, takes over players of lost nodes, moves players to other nodes, and
answers requests for all nodes."""

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tonearm import VERSION
from tonearm.cluster.engine import Engine, EngineLost, EngineRefused, EngineSettings
from tonearm.cluster.engine_saving import EngineSaving, read_record
from tonearm.cluster.forwarding import HOP, NODE, Forwarding
from tonearm.cluster.membership import Membership, NameTaken
from tonearm.cluster.moving import Moving
from tonearm.cluster.ownership import Owned, Ownership
from tonearm.cluster.relays import Relays, give_frames
from tonearm.cluster.together import AllPlayers, Nodes
from tonearm.core.cluster import RENEW_EVERY_S, Heirs, NodeRecord, placed
from tonearm.core.errors import (
    BadRequest,
    EngineGone,
    NodeUnreachable,
    PlayerExists,
    PlayerNotFound,
    RequestError,
)
from tonearm.core.events import PlayerMoved
from tonearm.core.figures import ClusterFigures
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.description.audio import FOLLOW_PLAYER, FOLLOW_PLAYERS, LISTEN
from tonearm.description.cluster import DRAIN_NODE, LIST_NODES, MOVE_PLAYER, SHOW_NODE, STOP_DRAINING, TAKE_PLAYER
from tonearm.description.node import GET_RECORDS, LOG_OUT
from tonearm.description.operation import Operation, Subject
from tonearm.description.players import CREATE_PLAYER, LIST_PLAYERS
from tonearm.node.node import Node
from tonearm.player.player import Player
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

_TAKES_AT_ONCE: Final = 8
_MOST_BODY_BYTES: Final = LEAST_MAX_BYTES
_EPOCH_DIGITS: Final = 18
_FOUND_AFTER_S: Final = 0.05  # while a player moves, its node is looked up again after so long
_FOUND_TRIES: Final = 200  # 10 s: until another node has taken the players of a lost node
_TRY_AGAIN_S: Final = 5.0  # until this node tries again to take a player that it could not take
_SLICE_S: Final = 0.002  # of the loop's time at once

log = logging.getLogger(__name__)


async def join(
    url: str,
    name: str,
    own: str,
    lease_s: float,
    password: str,
    wall_ms: Callable[[], int],
    *,
    user: str = "",
    **files: Path,
) -> "Cluster | str":
    """Joins the node `own` to its cluster, or returns why it cannot join. `files` are those of `EngineSettings`."""
    cluster = Cluster(EngineSettings(url, user, **files), name, own, lease_s, password, wall_ms)
    try:
        await cluster.join()
    except EngineRefused as error:
        return f"{error}; mend cluster.user, cluster.password_file or cluster.credentials_file"
    except EngineLost as error:
        return f"its engine is not there ({error}); start a NATS server with JetStream, or mend cluster.url"
    except NameTaken:
        return f"a living node is called {own} already; set cluster.node to another name"
    return cluster


class Cluster:
    """From `join` to `leave`. `attach` gives it the node."""

    _streams: OpenStreams
    _audio: AudioSettings

    def __init__(
        self,
        engine: EngineSettings,
        name: str,
        own: str,
        lease_s: float,
        password: str,
        wall_ms: Callable[[], int],
    ) -> None:
        self.own: Final = own
        self.name: Final = name
        self._engine = Engine(engine)
        self._lease_s = lease_s
        self._wall_ms = wall_ms
        self._forwarding = Forwarding(password, self._is_alive)
        self._dice = random.SystemRandom()
        self._address = ""
        self._count = 0
        self._moving: Moving | None = None  # with a node
        self._connections = 1
        self._bucket_made = ""
        self._node: Node | None = None
        self._players: Mapping[str, Player] = {}
        self._allow: Callable[[float], None] = lambda until_s: None
        self._saving: EngineSaving | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._taking: set[str] = set()
        self._refused_until_s: dict[str, float] = {}  # players of lost nodes that this node could not take
        self._heirs = Heirs([own])
        self._takes = asyncio.Semaphore(_TAKES_AT_ONCE)
        self._turning: asyncio.Task[None] | None = None
        self.ended: Final = asyncio.Event()  # set when another node has this node's name

    # From beginning to end

    async def join(self) -> None:
        """Raises `EngineLost` and `NameTaken`."""
        await self._engine.connect()
        try:
            self._nodes_bucket = await self._engine.bucket(f"ta_{self.name}_nodes")
            self._players_bucket = await self._engine.bucket(f"ta_{self.name}_players")
            self._bucket_made = await self._players_bucket.created()
            self.membership = Membership(
                self._nodes_bucket,
                self.own,
                self._lease_s,
                self._own_record,
                self._forwarding.reaches_engine,
                lambda until_s: self._allow(until_s),
                self._fall_silent,
                self._wall_ms,
            )
            self.nodes = Nodes(self.own, self.membership, self._own_record, lambda: self._engine.latency_s)
            self.ownership = Ownership(self._players_bucket, self.own, self._engine.largest_bytes, self._lost_player)
            await self.membership.join()
        except BaseException:
            await self._engine.close()
            raise
        self._turning = asyncio.create_task(self._run())

    def saving(self, players: dict[str, Player]) -> EngineSaving:
        """The saving of the node's players."""
        self._players = players
        last_alive_ms = self.membership.last_alive_ms
        self._saving = EngineSaving(self.ownership, self.own, players, self._wall_ms, lambda: last_alive_ms)
        return self._saving

    def attach(self, node: Node, allow: Callable[[float], None]) -> None:
        """`allow` takes until when the node may play."""
        self._node, self._allow = node, allow
        self._moving = Moving(
            self.own,
            node,
            self._players,
            self.membership,
            self.ownership,
            self._forwarding,
            self._wall_ms,
        )
        self._relays = Relays(node, self._forwarding, lambda player_id: partial(self._place_of, player_id))
        going = self._moving.on_their_way
        self._all = AllPlayers(self.own, node, self.nodes, self._forwarding, self.ownership, going, self._wall_ms)
        allow(self.membership.lease.plays_until_s)

    def serves(self, streams: OpenStreams, audio: AudioSettings) -> None:
        """As `server.app.ClusterRoutes`."""
        self._streams, self._audio = streams, audio
        find = self._relays.find
        routes = (*AudioSocketRoute(find, streams, audio).routes(), *AudioStreamRoutes(find, streams, audio).routes())
        self._listening = {route.operation.path: route.handler for route in routes}

    def listens_at(self, address: str) -> None:
        """Sets the address at which the node answers. Other nodes learn it with the next turn."""
        self._address = address

    async def drain(self, within_s: float) -> None:
        """Moves all players to other nodes, as far as that goes in this time."""
        if self._moving is not None:
            await self._moving.leave(within_s)

    async def leave(self) -> None:
        """To be called when the node has stopped."""
        for task in (self._turning, *self._work):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in (self._turning, *self._work) if task), return_exceptions=True)
        if self._node is not None:
            self._relays.close()
        await self.membership.leave()
        await self._forwarding.close()
        await self._engine.close()

    # Its lease, and who takes whom

    async def _run(self) -> None:
        while True:
            begun_s = time.monotonic()
            try:
                self._count += 1
                await self.membership.turn()
                await self._look_around()
                if self._moving is not None and self._is_draining and self._players:  # some may have come since
                    self._begin(self._moving.all())
            except NameTaken:
                log.critical("another node of the cluster is called %s; this one stops", self.own)
                self._fall_silent()
                self.ended.set()
                return
            except EngineLost as error:
                log.debug("the cluster's engine: %s", error)
            except Exception:
                log.exception("a turn of the cluster failed")
            await asyncio.sleep(max(0.05, RENEW_EVERY_S - (time.monotonic() - begun_s)))

    async def _look_around(self) -> None:
        """Checks the engine, and looks for players that no node has."""
        if not self.membership.reaches:
            if self._engine.is_connected:  # it has lost its buckets
                await self._nodes_bucket.made_again()
                await self._players_bucket.made_again()
            return
        if self._engine.connections != self._connections:
            made = await self._players_bucket.created()
            if made != self._bucket_made:
                log.warning("the cluster's engine has lost its data; this node writes all its players again")
                for player_id in self._players:
                    self._changed(player_id)
            self._connections, self._bucket_made = self._engine.connections, made
        if self._node is None or not self.ownership.is_watching or not self._address or self._is_draining:
            return
        long_ago_s = time.monotonic() - _TRY_AGAIN_S  # forgets players that another node has taken, or that are gone
        self._refused_until_s = {one: at_s for one, at_s in self._refused_until_s.items() if at_s > long_ago_s}
        for player_id, owned in self.ownership.players_of(self.own).items():
            if not self.ownership.is_mine(player_id) and player_id not in self._players:
                self._begin_taking(player_id, owned)
        await self._take_lost()

    async def _take_lost(self) -> None:
        """Takes this node's share of the players of lost nodes. Thousands of players are assigned in slices, so that
        frames are sent in between."""
        now_s, members = time.monotonic(), self.membership.members
        lost = [name for name in self.ownership.nodes() if not members.is_alive(name, now_s)]
        if not lost:
            return
        if self._heirs.names != (names := tuple(members.heirs(now_s))):
            self._heirs = Heirs(names)
        players = {player_id: owned for name in lost for player_id, owned in self.ownership.players_of(name).items()}
        counts = {name: self.ownership.count_of(name) for name in names}
        ends_s = now_s + _SLICE_S
        for player_id, heir in self._heirs.of(players, counts):
            if heir == self.own:
                self._begin_taking(player_id, players[player_id])
            if time.monotonic() > ends_s:
                await asyncio.sleep(0)
                ends_s = time.monotonic() + _SLICE_S

    def _begin_taking(self, player_id: str, owned: Owned) -> None:
        now_s = time.monotonic()
        is_moving = self._moving is not None and player_id in self._moving.on_their_way
        if not is_moving and player_id not in self._taking and now_s >= self._refused_until_s.get(player_id, now_s):
            self._taking.add(player_id)
            passed_ms = None if owned.changed_s is None else round((now_s - owned.changed_s) * 1000)
            self._begin(self._take(player_id, owned.owner, owned.epoch, passed_ms))

    async def _take(self, player_id: str, owner: str, epoch: int, passed_ms: int | None) -> None:
        try:
            async with self._takes:
                if self._node is None or not self.membership.may_play or self._node.find(player_id) is not None:
                    return
                read = partial(read_record, passed_ms=passed_ms)
                snapshot = await self.ownership.take(player_id, owner, read, epoch)
                if snapshot is None:
                    return
                try:
                    await self._go_on_here(snapshot, owner)
                    self._refused_until_s.pop(player_id, None)
                except RequestError as error:
                    if player_id not in self._refused_until_s:
                        log.error("player %s of the node %s cannot go on here: %s", player_id, owner, error.message)
                    self._refused_until_s[player_id] = time.monotonic() + _TRY_AGAIN_S
        except EngineLost as error:
            log.debug("player %s could not be taken over: %s", player_id, error)
        finally:
            self._taking.discard(player_id)

    async def _go_on_here(self, snapshot: PlayerSnapshot, owner: str) -> None:
        """Plays a player that was taken from `owner`. If this node refuses the player, `owner` gets it back. Raises
        what `take_over` raises, and `EngineLost`."""
        assert self._node is not None
        try:
            if self._moving is None or self._moving.is_leaving:
                raise NodeUnreachable("This node stops.")
            await self._node.take_over(snapshot, moved=PlayerMoved(owner, self.own))
        except RequestError:
            await self.ownership.hand_back(snapshot.player_id, owner)
            raise

    def _fall_silent(self) -> None:
        """Stops sending when the lease has ended: other nodes may take the players now."""
        if not self._players:
            return
        log.error("this node's lease has ended; its %d players go on elsewhere, or here later", len(self._players))
        for player_id in tuple(self._players):
            self.ownership.let_go(player_id)
            self._begin(self._give_up(player_id, "The node lost touch with its cluster; come back."))

    def _lost_player(self, player_id: str, owner: str) -> None:
        if player_id in self._players:
            log.warning("player %s now belongs to: %s", player_id, owner or "another owner")
            self._begin(self._give_up(player_id, "The player goes on at another node; come back."))

    async def _give_up(self, player_id: str, reason: str) -> None:
        if self._node is not None and self._node.find(player_id) is not None:
            await self._node.give_up(player_id, reason, "the cluster")

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _changed(self, player_id: str) -> None:
        if self._saving is not None:
            self._saving.changed(player_id)

    @property
    def _is_draining(self) -> bool:
        return self._moving is not None and self._moving.is_draining

    def _own_record(self) -> NodeRecord:
        load = 0.0 if self._node is None else self._node.load
        return NodeRecord(self._address, VERSION, len(self._players), load, self._is_draining, self._count)

    # As `node.parts.Claims`

    async def claim(self, player_id: str) -> None:
        try:
            await self.ownership.claim(player_id)
        except EngineLost as error:
            raise EngineGone.of(error) from error

    async def unclaim(self, player_id: str) -> None:
        try:
            await self.ownership.remove(player_id)
        except EngineLost as error:
            log.warning(
                "the id %s stays reserved, because the cluster's engine cannot be reached: %s", player_id, error
            )

    # As `server.routing.ClusterSide`

    def is_from_node(self, request: EdgeRequest) -> bool:
        return HOP in request.headers

    async def answer(self, call: Call, operation: Operation) -> web.StreamResponse | None:
        if self.is_from_node(call.request):
            if operation is LIST_PLAYERS:
                return await self._all.states(call.request, of_all=False)
            if operation is GET_RECORDS:
                return await self._all.records(call.request, of_all=False)
            if operation is LISTEN and self._node is not None and self._here(call.player_id):
                return await give_frames(call, self._node, self._streams, self._audio)
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
            return await self._forwarding.follow_all(request, self._streams, self.nodes.living)
        if operation is LOG_OUT:  # at all nodes, because each node accepts the cookies of the others
            await self._all.ask_others("POST", "/dashboard/logout")
            return None
        if operation.subject not in (Subject.PLAYER, Subject.NEW_PLAYER) or self._here(call.player_id):
            return None
        return await self._passed(call, operation)

    def _here(self, player_id: str) -> bool:
        return self._node is not None and self._node.find(player_id) is not None

    async def _passed(self, call: Call, operation: Operation) -> web.StreamResponse | None:
        """The answer of the node that has the player; None when no node has it."""
        request, player_id = call.request, call.player_id
        if await self._place_of(player_id) is None:
            return None
        if operation is FOLLOW_PLAYER:
            return await self._forwarding.pass_events(request, self._streams, partial(self._place_of, player_id))
        if operation.path in self._listening and request.method != "HEAD":
            return await self._listening[operation.path](call)
        body = bytes(await read_raw(request, _MOST_BODY_BYTES)) if request.can_read_body else None
        unreachable: NodeUnreachable | None = None
        for _ in range(_FOUND_TRIES):
            place, unreachable = await self._place_of(player_id), None
            if place is None:
                break
            if place[1] == self.own:
                request.known_body = body
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
            owner = await self.ownership.owner_of(player_id)
        except EngineLost as error:
            raise EngineGone.of(error) from error
        if owner is None:
            return None
        record = self.membership.members.records().get(owner)
        return (
            record.address if record else "",
            owner,
        )  # a node that has left has no address

    async def _created(self, request: EdgeRequest) -> web.StreamResponse | None:
        """The node on which to create the player; None for this node."""
        body = bytes(await read_raw(request, 1024 * 1024))
        request.known_body = body
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            return None  # this node answers with the error
        wanted = fields.get("node") if isinstance(fields, dict) else None
        living = {**self.membership.members.living(time.monotonic()), self.own: self._own_record()}
        with_address = {name: record for name, record in living.items() if record.address or name == self.own}
        if isinstance(wanted, str) and wanted:
            if wanted not in with_address:
                raise BadRequest(f"There is no living node {wanted!r}. There are {', '.join(with_address)}.")
            name: str | None = wanted
        else:
            name = placed(with_address, self._dice)
        if name is None or name == self.own:
            return None
        answer = await self._forwarding.pass_on(request, body, with_address[name].address, name)
        return answer or web.Response(status=HTTPStatus.BAD_GATEWAY)

    def _is_alive(self, name: str) -> bool:
        return self.membership.members.is_alive(name, time.monotonic())

    # Routes of its own

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
        return json_reply({"nodes": [self.nodes.shown(name) for name in self.nodes.names()]})

    async def _show(self, call: Call) -> web.Response:
        name = call.arguments["{node}"]
        if name == "self" and self.is_from_node(call.request):  # the other node asks whether it may play on
            await self.membership.look()
        return json_reply(self.nodes.shown(self.own if name == "self" else self.nodes.known(name)))

    def figures(self) -> ClusterFigures:
        return self.nodes.figures()

    async def _drain_asked(self, call: Call, *, drains: bool) -> web.StreamResponse:
        name = self.nodes.known(self.own if call.arguments["{node}"] == "self" else call.arguments["{node}"])
        if name != self.own:
            address = self.membership.members.records()[name].address
            answer = await self._forwarding.pass_on(call.request, None, address, name)
            return answer or web.Response(status=HTTPStatus.BAD_GATEWAY)
        if drains and not any(name != self.own for name, _ in self.nodes.living()):
            raise BadRequest("There is no other living node that could take the players.")
        assert self._moving is not None
        self._moving.is_draining = drains
        if drains:
            self._begin(self._moving.all())
        return no_content()

    async def _move_asked(self, call: Call) -> web.StreamResponse:
        body = await read_body(call.request, MoveTo)
        assert self._moving is not None
        await self._moving.one(call.player_id, body.node)
        return no_content()

    async def _taken_from(self, call: Call) -> web.StreamResponse:
        """Takes a player that another node hands over."""
        if not self.is_from_node(call.request) or self._node is None:
            raise NotFound("Players are moved with POST, by whoever wants them moved.")
        record = bytes(await read_raw(call.request, _MOST_BODY_BYTES))
        owner, epoch = call.target.required_parameter("from"), call.target.required_parameter("epoch")
        if not (epoch.isascii() and epoch.isdigit() and len(epoch) <= _EPOCH_DIGITS):
            raise BadRequest("epoch must be a number.")
        snapshot = await asyncio.to_thread(read_record, call.player_id, record)
        if snapshot is None:
            raise BadRequest("The record of the player cannot be read.")
        try:
            taken = await self.ownership.take(call.player_id, owner, lambda *_: snapshot, int(epoch))
            if taken is None:
                raise PlayerExists(f"The player {call.player_id!r} is not the node {owner}'s.")
            await self._go_on_here(snapshot, owner)
        except EngineLost as error:
            raise EngineGone.of(error) from error
        return no_content()
