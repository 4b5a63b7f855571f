"""The rules of a cluster with more nodes and players than a machine can start: no network, no engine.

`python -m bench.cluster_rules [NODES PLAYERS LOST]` (500, 250000 and 50: a minute) places the players one by one, loses
some nodes at once, and gives their players to the others. It prints how even both are,
and what one decision costs.
"""

import random
import sys
import time
from collections import Counter
from dataclasses import replace

from tonearm.core.cluster import Heirs, Members, NodeRecord, placed

LEASE_S = 6.0


def place(nodes: int, players: int) -> tuple[dict[str, NodeRecord], dict[str, str]]:
    """The nodes, and the node of each player."""
    dice = random.Random(1)
    records = {f"node-{number}": NodeRecord("http://x") for number in range(nodes)}
    owners = {}
    for number in range(players):
        name = placed(records, dice.sample)
        assert name is not None
        owners[f"player-{number}"] = name
        records[name] = replace(records[name], players=records[name].players + 1)
    return records, owners


def spread(counts: Counter[str]) -> str:
    mean = counts.total() / len(counts)
    return f"{min(counts.values())} to {max(counts.values())}, mean {mean:.0f}"


def main() -> None:
    nodes, players, lost = (int(text) for text in sys.argv[1:4]) if len(sys.argv) > 3 else (500, 250_000, 50)
    begun_s = time.perf_counter()
    records, owners = place(nodes, players)
    print(f"placed: {spread(Counter(owners.values()))}; {1e6 * (time.perf_counter() - begun_s) / players:.0f} µs each")
    gone, left = list(records)[:lost], list(records)[lost:]
    orphans = [player for player, owner in owners.items() if owner in set(gone)]
    before = Counter(owner for owner in owners.values() if owner in set(left))
    begun_s = time.perf_counter()
    ring = Heirs(left)
    ring_ms = 1e3 * (time.perf_counter() - begun_s)
    begun_s = time.perf_counter()
    heirs = dict(ring.of(orphans, before))
    cost_us = 1e6 * (time.perf_counter() - begun_s) / len(orphans)
    assert heirs.keys() == set(orphans)
    after = before + Counter(heirs.values())
    print(
        f"{lost} nodes lost: {len(orphans)} players taken, then {spread(after)}; {cost_us:.1f} µs each to find its heir"
        f" (and {ring_ms:.0f} ms when who is left changes)"
    )
    view = Members(left[0], LEASE_S, reached_since_s=0.0)
    for name in records:
        view.saw(name, records[name], 1, 0.0)
    for name in left:
        view.saw(name, records[name], 2, LEASE_S)
    begun_s = time.perf_counter()
    able = view.heirs(LEASE_S)
    print(f"who may take them is found in {1e3 * (time.perf_counter() - begun_s):.1f} ms, once a turn")
    assert set(able) == set(left)


if __name__ == "__main__":
    main()
