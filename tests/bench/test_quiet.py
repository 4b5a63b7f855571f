from typing import Any

import pytest
from bench.quiet import Ticker


class ScriptedTicker:
    """Says one p99 after the other."""

    def __init__(self, p99s_ms: list[float]) -> None:
        self._p99s_ms = p99s_ms

    async def order(self, **order: Any) -> dict[str, Any]:
        return {} if order["do"] == "begin" else {"p99_ms": self._p99s_ms.pop(0)}


@pytest.mark.parametrize(
    ("p99s_ms", "kept", "taken"),
    [
        ([1.0, 9.0], 1, 1),  # quiet at once
        ([9.0, 8.0, 4.0, 1.0], 3, 3),  # until it was quiet
        ([9.0, 6.0, 7.0, 8.0, 9.0, 1.0], 2, 5),  # never in five: the quietest
    ],
)
async def test_noisy_measurements_are_repeated(p99s_ms: list[float], kept: int, taken: int) -> None:
    measured = 0

    async def measure() -> int:
        nonlocal measured
        measured += 1
        return measured

    p99_ms = p99s_ms[kept - 1]
    assert await Ticker(ScriptedTicker(p99s_ms)).quiet(measure) == (kept, p99_ms)
    assert measured == taken
