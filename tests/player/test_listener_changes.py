"""How many listen: told at once, then once a second at most, and never twice the same."""

import itertools
from collections.abc import Callable

import pytest

from tests.support.player_bench import PlayerBench
from tests.support.sinks import MemoryListener


class Crowd:
    """The listeners of a player, who come and go until there are so many."""

    def __init__(self) -> None:
        self.bench = PlayerBench("a")
        self._began_s = self.bench.time.now_s()
        self._leave: list[Callable[[], None]] = []

    def becomes(self, listeners: int) -> None:
        while len(self._leave) < listeners:
            self._leave.append(self.bench.player.attach(MemoryListener()))
        while len(self._leave) > listeners:
            self._leave.pop()()

    @property
    def told(self) -> list[tuple[float, int]]:
        """When events said so, and how many."""
        changes = [event for event in self.bench.events.events if event["op"] == "ListenersChange"]
        return [(round(event["time"] / 1000 - self._began_s, 3), event["listeners"]) for event in changes]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([(1, 1.5), (2, 0.0)], [(0, 1), (1.5, 2)]),
        ([(1, 0.1), (2, 0.1), (3, 0.1), (4, 0.1), (5, 5.1)], [(0, 1), (1.0, 5)]),
        ([(1, 0.0), (2, 0.0), (1, 5.0)], [(0, 1)]),
    ],
    ids=["after a quiet second at once", "of many in a second the last when it is over", "who comes and goes in one"],
)
async def test_changes(steps: list[tuple[int, float]], told: list[tuple[float, int]]) -> None:
    crowd = Crowd()
    for listeners, then_s in steps:
        crowd.becomes(listeners)
        crowd.bench.time.forward(then_s)
    assert crowd.told == told


async def test_two_changes_are_told_a_second_apart() -> None:
    crowd = Crowd()
    for count in range(1, 41):
        crowd.becomes(count % 10)
        crowd.bench.time.forward(0.1)
    times_s = [time_s for time_s, _ in crowd.told]
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(times_s))
    crowd.becomes(7)
    crowd.bench.time.forward(1.0)
    assert crowd.told[-1][1] == 7


async def test_a_deleted_player_tells_nothing() -> None:
    crowd = Crowd()
    crowd.becomes(1)
    crowd.becomes(2)
    await crowd.bench.player.delete()
    crowd.bench.time.forward(5.0)
    crowd.becomes(0)
    assert crowd.told == [(0, 1)]
