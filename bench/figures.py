"""Measured figures by name, each with its values of every round, and remarks on unusual ones.

Names are paths with the unit in the last part: `cost/mp3/flat/us_a_frame`.
"""

from dataclasses import dataclass, field
from statistics import median

from bench.quiet import NOISY_MS


@dataclass(frozen=True)
class Summary:
    median: float
    least: float
    most: float
    count: int


def summary(values: list[float]) -> Summary | None:
    return Summary(median(values), min(values), max(values), len(values)) if values else None


@dataclass
class Figures:
    """`round` is the one whose values are added now."""

    round: int = 1
    values: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    noisy: dict[str, list[float]] = field(default_factory=dict)  # the bare ticker's p99 of noisy measurements, in ms
    unserved: set[str] = field(default_factory=set)  # measured while some listener did not get its frames
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, ticker_p99_ms: float | None = None) -> None:
        """`ticker_p99_ms` is that of the bare ticker beside this measurement."""
        self.values.setdefault(name, {}).setdefault(self.round, []).append(value)
        if ticker_p99_ms is not None and ticker_p99_ms > NOISY_MS:
            self.noisy.setdefault(name, []).append(ticker_p99_ms)

    def problem(self, text: str) -> None:
        self.problems.append(f"round {self.round}: {text}")

    def all(self, name: str) -> list[float]:
        return [value for values in self.values.get(name, {}).values() for value in values]

    def summary(self, name: str) -> Summary | None:
        return summary(self.all(name))

    def ratios(self, above: str, below: str) -> list[float]:
        """Of each round that has both: what lies close together in time is compared."""
        tops, bottoms = self.values.get(above, {}), self.values.get(below, {})
        return [
            median(values) / median(bottoms[number])
            for number, values in tops.items()
            if number in bottoms and median(bottoms[number])
        ]

    def last(self, name: str) -> float | None:
        return next(iter(reversed(self.all(name))), None)

    def as_json(self) -> dict[str, object]:
        return {
            name: {
                "median": median(self.all(name)),
                "min": min(self.all(name)),
                "max": max(self.all(name)),
                "count": len(self.all(name)),
                "rounds": rounds,
                "noisy_ticker_p99_ms": self.noisy.get(name, []),
                "unserved": name in self.unserved,
            }
            for name, rounds in self.values.items()
        }
