"""What a node of a cluster has before it has players: its membership, its ownership, and the nodes as it sees them."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tonearm.cluster.engine import Engine
from tonearm.cluster.forwarding import Forwarding
from tonearm.cluster.membership import Membership
from tonearm.cluster.ownership import Ownership
from tonearm.core.cluster import NodeRecord
from tonearm.core.errors import NodeNotFound
from tonearm.core.figures import ClusterFigures, ClusterNodeFigures
from tonearm.core.metadata import JsonObject


@dataclass(frozen=True, slots=True)
class Joined:
    """A node of a cluster, called `own`, and the nodes as it sees them. `wall_ms` gives the time of day in ms
    since 1970."""

    own: str
    engine: Engine
    membership: Membership
    ownership: Ownership
    forwarding: Forwarding
    wall_ms: Callable[[], int]

    def names(self) -> list[str]:
        """The names of all known nodes, this node first."""
        return [*{self.own: None, **dict.fromkeys(self.membership.members.records())}]

    def known(self, name: str) -> str:
        """The name. Raises `NodeNotFound`."""
        if name not in self.names():
            raise NodeNotFound(f"There is no node {name!r}. There are {', '.join(self.names())}.")
        return name

    def record(self, name: str) -> NodeRecord:
        return self.membership.own_record() if name == self.own else self.membership.members.records()[name]

    def living(self) -> dict[str, NodeRecord]:
        """Each live node that listens already, and this node."""
        living = {**self.membership.members.living(time.monotonic()), self.own: self.membership.own_record()}
        return {name: record for name, record in living.items() if record.address or name == self.own}

    def has_kept(self, player_id: str, lapses: int) -> bool:
        """Whether a player is still this node's, which has taken it since its lease had ended `lapses` times."""
        return self.membership.lapses == lapses and self.ownership.epoch_of(player_id) is not None

    def figures(self) -> ClusterFigures:
        nodes = {name: self._figures_of(name) for name in self.names()}
        return ClusterFigures(nodes, self.membership.reaches, self.engine.latency_s)

    def _figures_of(self, name: str) -> ClusterNodeFigures:
        now_s, membership, record = time.monotonic(), self.membership, self.record(name)
        is_own = name == self.own
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
        if name == self.own:
            shown |= {
                "reachesEngine": self.membership.reaches,
                "engineLatencyMs": round(self.engine.latency_s * 1000, 2),
            }
        return shown
