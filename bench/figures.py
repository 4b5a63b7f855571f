"""Measured figures by name, each a list of rounds, and how they are shown."""

from dataclasses import dataclass, field
from statistics import median


@dataclass
class Figures:
    """Rounds of each figure, in the order in which they were measured first, and what was odd about them."""

    rounds: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, value: float) -> None:
        self.rounds.setdefault(name, []).append(value)

    def add_ratio(self, name: str, above: str, below: str) -> None:
        """The ratio of two figures' medians."""
        if above in self.rounds and below in self.rounds:
            self.rounds[name] = [self.median(above) / self.median(below)]

    def note(self, text: str) -> None:
        self.notes.append(text)

    def median(self, name: str) -> float:
        return median(self.rounds[name])

    def as_json(self) -> dict[str, object]:
        figures = {
            name: {"median": median(values), "min": min(values), "max": max(values), "rounds": len(values)}
            for name, values in self.rounds.items()
        }
        return {"figures": figures, "notes": self.notes}

    def as_table(self) -> str:
        width = max(map(len, self.rounds), default=10)
        lines = [f"{'figure':<{width}}  {'median':>9}  {'min':>9}  {'max':>9}  rounds"]
        for name, values in self.rounds.items():
            lines.append(
                f"{name:<{width}}  {median(values):9.2f}  {min(values):9.2f}  {max(values):9.2f}  {len(values)}"
            )
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])
