"""Answers that need the whole cluster: the list of nodes, and the players of all nodes."""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec
from aiohttp import web
from msgspec.json import Decoder

from tonearm.cluster.forwarding import Forwarding
from tonearm.cluster.membership import Membership
from tonearm.cluster.moving import OnItsWay
from tonearm.cluster.ownership import Ownership
from tonearm.core.cluster import NodeRecord
from tonearm.core.errors import NodeNotFound
from tonearm.core.figures import ClusterFigures, ClusterNodeFigures
from tonearm.core.metadata import JsonObject
from tonearm.core.player_status import PlayerStatus
from tonearm.core.snapshot import STATE_VERSION, PlayerSnapshot
from tonearm.node.node import Node
from tonearm.protocol.rendering import player_out
from tonearm.protocol.wire_model import json_text
from tonearm.server.http_server import EdgeRequest
from tonearm.server.records import record_slices
from tonearm.server.replies import SLICE_S, array_slices, object_slices, sliced_reply

_LISTED_TRIES: Final = 5
_LISTED_AFTER_S: Final = 0.05

log = logging.getLogger(__name__)


class Nodes:
    """The nodes as `own` sees them. `own_record` is this node's record, `latency_s` the latency of the engine."""

    def __init__(
        self, own: str, membership: Membership, own_record: Callable[[], NodeRecord], latency_s: Callable[[], float]
    ) -> None:
        self._own = own
        self._membership = membership
        self._own_record = own_record
        self._latency_s = latency_s

    def names(self) -> list[str]:
        """The names of all known nodes, this node first."""
        return [*{self._own: None, **dict.fromkeys(self._membership.members.records())}]

    def known(self, name: str) -> str:
        """The name. Raises `NodeNotFound`."""
        if name not in self.names():
            raise NodeNotFound(f"There is no node {name!r}. There are {', '.join(self.names())}.")
        return name

    def record(self, name: str) -> NodeRecord:
        return self._own_record() if name == self._own else self._membership.members.records()[name]

    def living(self) -> list[tuple[str, str]]:
        """Name and address of each live node with an address, and of this node."""
        living = self._membership.members.living(time.monotonic())
        addresses = {name: record.address for name, record in living.items() if record.address}
        return [*{**addresses, self._own: self._own_record().address}.items()]

    def figures(self) -> ClusterFigures:
        nodes = {name: self._figures_of(name) for name in self.names()}
        return ClusterFigures(nodes, self._membership.reaches, self._latency_s())

    def _figures_of(self, name: str) -> ClusterNodeFigures:
        now_s, membership, record = time.monotonic(), self._membership, self.record(name)
        is_own = name == self._own
        own_age_s = max(0.0, now_s - membership.lease.renewed_s)
        age_s = own_age_s if is_own else membership.members.lease_age_s(name, now_s)
        is_alive = membership.may_play if is_own else membership.members.is_alive(name, now_s)
        return ClusterNodeFigures(record.players, record.load, age_s, is_alive, record.is_draining)

    def shown(self, name: str) -> JsonObject:
        """A node as `GET /v0/nodes` answers it."""
        record, figures = self.record(name), self._figures_of(name)
        shown: JsonObject = {
            "name": name,
            "address": record.address,
            "version": record.version,
            "players": figures.players,
            "load": round(figures.load, 4),
            "draining": figures.is_draining,
            "alive": figures.is_alive,
            "leaseAgeMs": round(figures.lease_age_s * 1000),
        }
        if name == self._own:
            shown |= {
                "reachesEngine": self._membership.reaches,
                "engineLatencyMs": round(self._latency_s() * 1000, 2),
            }
        return shown


class _Named(msgspec.Struct):
    id: str


class _Records(msgspec.Struct):
    players: list[msgspec.Raw]


class AllPlayers:
    """The players of all nodes, asked for at `own`. Those of this node include players on their way to another one, so
    that no list lacks them, however long the other node takes.

    Lists are made of the JSON of each player, which is not read: all records of a cluster may have many megabytes."""

    def __init__(
        self,
        own: str,
        node: Node,
        nodes: Nodes,
        forwarding: Forwarding,
        ownership: Ownership,
        on_their_way: Mapping[str, OnItsWay],
        wall_ms: Callable[[], int],
    ) -> None:
        self._own = own
        self._node = node
        self._nodes = nodes
        self._forwarding = forwarding
        self._ownership = ownership
        self._on_their_way = on_their_way
        self._wall_ms = wall_ms

    async def states(self, request: EdgeRequest, *, of_all: bool) -> web.StreamResponse:
        """As `GET /v0/players`, of all nodes or of this one."""

        async def listed() -> dict[str, bytes]:
            own = ((player_id, iter([self._shown(status)])) for player_id, status in self._statuses())
            answers = await self.ask_others("GET", "/v0/players") if of_all else []
            return await _made(own, _players_in(answers, Decoder(list[msgspec.Raw]).decode))

        found = await self._whole(listed) if of_all else await listed()
        return await sliced_reply(request, array_slices(b"[", found.values(), b"]"))

    async def records(self, request: EdgeRequest, *, of_all: bool) -> web.StreamResponse:
        """As `GET /v0/state`, of all nodes or of this one."""

        async def listed() -> dict[str, bytes]:
            now_ms = self._wall_ms()
            own = ((record.player_id, record_slices(record, now_ms)) for record in self._own_records())
            answers = await self.ask_others("GET", "/v0/state") if of_all else []
            decode = Decoder(_Records).decode
            return await _made(own, _players_in(answers, lambda answer: decode(answer).players))

        found = await self._whole(listed) if of_all else await listed()
        return await sliced_reply(request, object_slices({"version": STATE_VERSION}, "players", found.values()))

    def _statuses(self) -> Iterator[tuple[str, PlayerStatus]]:
        yield from ((player.player_id, player.status()) for player in self._node.players())
        yield from [(player_id, player.status) for player_id, player in self._on_their_way.items()]

    def _shown(self, status: PlayerStatus) -> bytes:
        return json_text({**player_out(status), "node": self._own})

    def _own_records(self) -> Iterator[PlayerSnapshot]:
        yield from (player.record() for player in self._node.players())
        yield from [player.record for player in self._on_their_way.values()]

    async def ask_others(self, method: str, path: str) -> list[bytes]:
        """What the other living nodes answer; those that answer nothing are left out."""
        asked = [
            self._forwarding.ask(address, method, path) for name, address in self._nodes.living() if name != self._own
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found: list[bytes] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                log.warning("a node of the cluster does not answer %s %s: %s", method, path, answer)
            else:
                found.append(answer)
        return found

    async def _whole(self, listed: Callable[[], Awaitable[dict[str, bytes]]]) -> dict[str, bytes]:
        """What `listed` gives. A player that comes to a node after that has answered, and leaves another one before, is
        in no answer, so all are asked again while a player that has an owner is missing."""
        found: dict[str, bytes] = {}
        for _ in range(_LISTED_TRIES):
            found |= await listed()
            living = {name for name, _ in self._nodes.living()}
            if all(player_id in found for player_id, owned in self._ownership.owners() if owned.owner in living):
                break
            await asyncio.sleep(_LISTED_AFTER_S)
        return found


_Players: TypeAlias = Iterable[tuple[str, Iterator[bytes]]]  # the id of each, and its JSON in slices


async def _made(*players: _Players) -> dict[str, bytes]:
    """The JSON of each player, by its id. Of a player that is there twice the last counts."""
    found: dict[str, bytes] = {}
    ends_s = time.monotonic() + SLICE_S
    for player_id, slices in itertools.chain(*players):
        made: list[bytes] = []
        for part in slices:
            made.append(part)
            if time.monotonic() > ends_s:
                await asyncio.sleep(0)
                ends_s = time.monotonic() + SLICE_S
        found[player_id] = b"".join(made)
    return found


def _players_in(answers: Iterable[bytes], read: Callable[[bytes], Iterable[msgspec.Raw]]) -> _Players:
    """The players in the answers of other nodes."""
    read_name = Decoder(_Named).decode
    for answer in answers:
        try:
            for player in read(answer):
                yield read_name(player).id, iter([bytes(player)])
        except msgspec.DecodeError as error:
            log.warning("a node of the cluster answers with something else than its players: %s", error)
