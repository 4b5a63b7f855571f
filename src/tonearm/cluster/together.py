"""What nodes that are one answer together: which nodes there are, and the players of all."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from tonearm.cluster.forwarding import Forwarding
from tonearm.cluster.membership import Membership
from tonearm.cluster.ownership import Ownership
from tonearm.core.cluster import NodeRecord
from tonearm.core.errors import NodeNotFound
from tonearm.core.figures import ClusterFigures, ClusterNodeFigures
from tonearm.core.metadata import Json, JsonObject
from tonearm.core.snapshot import STATE_VERSION
from tonearm.node.node import Node
from tonearm.protocol.rendering import player_out
from tonearm.protocol.saved_state import state_out
from tonearm.server.http_server import EdgeRequest
from tonearm.server.replies import json_list_reply, json_reply

_LISTED_TRIES: Final = 5
_LISTED_AFTER_S: Final = 0.05

log = logging.getLogger(__name__)


class Nodes:
    """The nodes as `own` sees them. `own_record` is what it says of itself, `latency_s` how long the engine takes."""

    def __init__(
        self, own: str, membership: Membership, own_record: Callable[[], NodeRecord], latency_s: Callable[[], float]
    ) -> None:
        self._own = own
        self._membership = membership
        self._own_record = own_record
        self._latency_s = latency_s

    def names(self) -> list[str]:
        """Of all nodes that are known, the own one first."""
        return [*{self._own: None, **dict.fromkeys(self._membership.members.records())}]

    def known(self, name: str) -> str:
        """The name. Raises `NodeNotFound`."""
        if name not in self.names():
            raise NodeNotFound(f"There is no node {name!r}. There are {', '.join(self.names())}.")
        return name

    def record(self, name: str) -> NodeRecord:
        return self._own_record() if name == self._own else self._membership.members.records()[name]

    def living(self) -> list[tuple[str, str]]:
        """Name and address of each node that lives and has an address, and of the own one."""
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


class AllPlayers:
    """The players of all nodes, asked for at `own`."""

    def __init__(
        self,
        own: str,
        node: Node,
        nodes: Nodes,
        forwarding: Forwarding,
        ownership: Ownership,
        wall_ms: Callable[[], int],
    ) -> None:
        self._own = own
        self._node = node
        self._nodes = nodes
        self._forwarding = forwarding
        self._ownership = ownership
        self._wall_ms = wall_ms

    async def states(self, request: EdgeRequest) -> web.StreamResponse:
        """As `GET /v0/players`."""

        async def listed() -> list[JsonObject]:
            lists = await self.ask_others("GET", "/v0/players")
            own = [{**player_out(player.status()), "node": self._own} for player in self._node.players()]
            return [
                *own,
                *(one for found in lists if isinstance(found, list) for one in found if isinstance(one, dict)),
            ]

        return await json_list_reply(request, await self._whole(listed))

    async def records(self) -> web.StreamResponse:
        """As `GET /v0/state`."""

        async def listed() -> list[JsonObject]:
            found = await self.ask_others("GET", "/v0/state")
            others = [
                player
                for record in found
                if isinstance(record, dict) and isinstance(players := record.get("players"), list)
                for player in players
                if isinstance(player, dict)
            ]
            now_ms = self._wall_ms()
            return [*(state_out(player.record(), now_ms) for player in self._node.players()), *others]

        return json_reply({"version": STATE_VERSION, "players": [*await self._whole(listed)]})

    async def ask_others(self, method: str, path: str) -> list[Json]:
        """What the other living nodes answer; those that answer nothing are left out."""
        asked = [
            self._forwarding.ask(address, method, path) for name, address in self._nodes.living() if name != self._own
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found: list[Json] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                log.warning("a node of the cluster does not answer %s %s: %s", method, path, answer)
            else:
                found.append(answer)
        return found

    async def _whole(self, listed: Callable[[], Awaitable[list[JsonObject]]]) -> list[JsonObject]:
        """What `listed` gives, each player once. One that is on its way from node to node is in no answer or in two, so
        it is asked again while one is missing that has an owner."""
        found: dict[str, JsonObject] = {}
        for _ in range(_LISTED_TRIES):
            found |= {str(player.get("id")): player for player in reversed(await listed())}
            living = {name for name, _ in self._nodes.living()}
            if all(player_id in found for player_id, owned in self._ownership.owners() if owned.owner in living):
                break
            await asyncio.sleep(_LISTED_AFTER_S)
        return [*reversed(found.values())]
