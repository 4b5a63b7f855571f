"""What a node of a cluster has before it has players: its membership, its ownership, and the nodes as it sees them."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tonearm.cluster.forwarding import Forwarding
from tonearm.cluster.membership import Membership
from tonearm.cluster.ownership import Ownership
from tonearm.core.cluster import NodeRecord
from tonearm.core.errors import NodeNotFound
from tonearm.core.figures import ClusterFigures, ClusterNodeFigures
from tonearm.core.metadata import JsonObject


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


@dataclass(frozen=True, slots=True)
class Joined:
    """A node of a cluster, called `own`, from its joining on. `wall_ms` gives the time of day in ms since 1970."""

    own: str
    membership: Membership
    ownership: Ownership
    forwarding: Forwarding
    nodes: Nodes
    wall_ms: Callable[[], int]
