"""How many listen: told at once, then once a second at most, and never twice the same."""

import itertools
from collections.abc import Callable

import pytest

from tests.support.player_bench import PlayerBench
from tests.support.sinks import MemoryListener


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([(1, 1.5), (2, 0.0)], [(0, 1), (1.5, 2)]),
        ([(1, 0.1), (2, 0.1), (3, 0.1), (4, 0.1), (5, 5.1)], [(0, 1), (1.0, 5)]),
        ([(1, 0.0), (2, 0.0), (1, 5.0)], [(0, 1)]),
        ([*((count % 10, 0.1) for count in range(1, 41)), (7, 1.0)], None),
    ],
)
async def test_changes(steps: list[tuple[int, float]], told: list[tuple[float, int]] | None) -> None:
    bench = PlayerBench("a")
    began_s = bench.time.now_s()
    leave: list[Callable[[], None]] = []
    for listeners, then_s in steps:
        while len(leave) < listeners:
            leave.append(bench.player.attach(MemoryListener()))
        while len(leave) > listeners:
            leave.pop()()
        bench.time.forward(then_s)
    changes = bench.events.named("ListenersChange")
    found = [(round(event["time"] / 1000 - began_s, 3), event["listeners"]) for event in changes]
    assert told in (None, found)
    assert found[-1][1] == steps[-1][0]
    assert all(later_s - earlier_s >= 1 for (earlier_s, _), (later_s, _) in itertools.pairwise(found))
    bench.player.attach(MemoryListener())
    bench.player.attach(MemoryListener())
    before = bench.events.ops.count("ListenersChange")
    await bench.player.delete()
    bench.time.forward(5.0)
    assert bench.events.ops.count("ListenersChange") == before
