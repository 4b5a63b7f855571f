"""The rules of a cluster: which node may play, and which node takes over players. They use no clock and no network.

All times are seconds of the asking node's own monotonic clock. No time of day and no other machine's clock decides
anything.
"""

import hashlib
import math
import re
import struct
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

SILENT_BEFORE_S: Final = 0.75  # how much earlier a lease ends for its owner than for the nodes that take over
RENEW_EVERY_S: Final = 1.0
FORGOTTEN_AFTER_S: Final = 3600.0  # without a sign of life a node that has no players is forgotten
FULL_LOAD: Final = 1.0
_NODE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HASH: Final = struct.Struct(">8Q")
_HASHES_A_NODE: Final = 4


def is_node_name(text: str) -> bool:
    return _NODE_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Lease:
    """A node's right to play. `renewed_s`: when the last renewal that the engine acknowledged was sent. `unopposed_s`:
    when the node last asked all other nodes and none of them reached the engine, so that no node could take its
    players."""

    length_s: float
    renewed_s: float = -math.inf
    unopposed_s: float = -math.inf

    @property
    def plays_until_s(self) -> float:
        return max(self.renewed_s, self.unopposed_s) + self.length_s - SILENT_BEFORE_S

    def renewed(self, sent_s: float) -> "Lease":
        return replace(self, renewed_s=max(self.renewed_s, sent_s))

    def unopposed(self, asked_s: float) -> "Lease":
        """Prolongs a lease that has not ended. Only the engine can begin a lease again that has ended."""
        return self if asked_s >= self.plays_until_s else replace(self, unopposed_s=max(self.unopposed_s, asked_s))


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """The facts that a node publishes. `load` is the used share of its capacity."""

    address: str
    version: str = ""
    players: int = 0
    load: float = 0.0
    is_draining: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    record: NodeRecord
    revision: int
    changed_s: float


@dataclass(slots=True)
class Members:
    """The nodes as one of them, `own`, sees them. A node is alive while its record changes. This counts only while the
    engine is reached without a break, since `reached_since_s`; None while it is not reached.

    `known_to_s`: all records that other nodes wrote up to this time have arrived. The engine delivers changes in order,
    so this is the time at which the newest own record that came back was sent. A record that is missing after this time
    proves nothing yet: the engine may accept writes and still be late in delivering those of other nodes.
    """

    own: str
    lease_s: float
    reached_since_s: float | None = None
    known_to_s: float = math.inf
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def saw(self, name: str, record: NodeRecord, revision: int, now_s: float) -> None:
        """Notes a node's record, as the engine has it."""
        before = self._seen.get(name)
        if before is None or revision > before.revision:
            self._seen[name] = _Seen(record, revision, now_s)

    def gone(self, name: str) -> None:
        """Removes a node that has left properly: its record was deleted."""
        self._seen.pop(name, None)

    def forget_revisions(self) -> None:
        """To be called when the engine has restarted, so that its revision numbers began again."""
        self._seen = {name: replace(seen, revision=0) for name, seen in self._seen.items()}

    def records(self) -> Mapping[str, NodeRecord]:
        return {name: seen.record for name, seen in sorted(self._seen.items())}

    def lease_age_s(self, name: str, now_s: float) -> float:
        seen = self._seen.get(name)
        return math.inf if seen is None else now_s - seen.changed_s

    def is_alive(self, name: str, now_s: float) -> bool:
        """Whether a node may still play. A node without a known record counts as alive until the engine was reached for
        a whole lease."""
        known_to_s = min(now_s, self.known_to_s)
        if name == self.own:
            return True
        if self.reached_since_s is None or known_to_s - self.reached_since_s < self.lease_s:
            return True
        return self.lease_age_s(name, known_to_s) < self.lease_s

    def long_lost(self, now_s: float) -> dict[str, int]:
        """The nodes that gave no sign of life for so long that they may be forgotten, with the revisions of their
        records; 0 for a record that the engine has lost."""
        long = (name for name in self._seen if self.lease_age_s(name, now_s) >= FORGOTTEN_AFTER_S)
        return {name: self._seen[name].revision for name in long if not self.is_alive(name, now_s)}

    def living(self, now_s: float) -> dict[str, NodeRecord]:
        """The known nodes that are alive, this node first."""
        alive = {name: record for name, record in self.records().items() if self.is_alive(name, now_s)}
        return dict(sorted(alive.items(), key=lambda item: item[0] != self.own))

    def heirs(self, now_s: float) -> list[str]:
        """The nodes that may take the players of a lost node. A draining node is none of them; a full node is only if
        there is no other."""
        able = {name: record.load for name, record in self.living(now_s).items() if not record.is_draining}
        return [name for name, load in able.items() if load < FULL_LOAD] or [*able] or [self.own]


class Heirs:
    """The nodes `names`, at least one, that take the players of lost nodes. Every node computes the same heirs.

    Each heir has places on a ring, and a player goes to the next place after its hash. If that heir already has its
    share, the player's next hash is used (consistent hashing with bounded loads: Mirrokni, Thorup and Zadimoghaddam,
    2018). Hashes alone would distribute ten players for each heir as unevenly as dice.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names: Final = tuple(names)
        places = sorted(
            (place, name) for name in self.names for n in range(_HASHES_A_NODE) for place in _hashes(f"{name}\0{n}")
        )
        self._places = [place for place, _ in places]
        self._at = [name for _, name in places]

    def of(self, players: Iterable[str], counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """Yields each of the lost `players` with its heir. `counts`: how many players each heir has already.

        A player that an heir has taken does not change the heir of another player, because the heir's count grows as
        the number of lost players falls. So a node that computes later finds the same heirs.
        """
        waiting = sorted(players)
        all_players = len(waiting) + sum(counts.get(name, 0) for name in self.names)
        each, more = divmod(all_players, len(self.names))
        room = {name: each + (n < more) - counts.get(name, 0) for n, name in enumerate(sorted(self.names))}
        places, names, end = self._places, self._at, len(self._places)
        for player_id in waiting:
            at = 0
            for found in _hashes(player_id):
                at = bisect(places, found) % end
                if room[names[at]] > 0:
                    break
            else:
                while room[names[at]] <= 0:
                    at = (at + 1) % end
            room[names[at]] -= 1
            yield player_id, names[at]


def _hashes(text: str) -> tuple[int, ...]:
    return _HASH.unpack(hashlib.blake2b(text.encode()).digest())


def placed(
    nodes: Mapping[str, NodeRecord], sample: Callable[[list[str], int], list[str]], avoided: Collection[str] = ()
) -> str | None:
    """The node for a new player: the less loaded of two random nodes (Mitzenmacher, 2001). None if no node is left that
    neither drains nor is `avoided`. An overloaded node is chosen only if there is no other. `sample` is as
    `random.sample`."""
    able = [name for name, record in nodes.items() if not record.is_draining and name not in avoided]
    free = [name for name in able if nodes[name].load < FULL_LOAD] or able
    if not free:
        return None
    two = sample(free, min(2, len(free)))
    return min(two, key=lambda name: (nodes[name].load, nodes[name].players))
