"""What is drawn for a strange file."""

import random
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")

_MOST_ODDITIES = 3


class Dice(random.Random):
    """Draws the same things for the same seed. `oddities` are what was drawn to be strange, for a message."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.oddities: frozenset[str] = frozenset()

    def draw_oddities(self, possible: Sequence[str]) -> None:
        """Up to three, seldom none: with more of them at once hardly anything would sound."""
        self.oddities = frozenset(self.sample(possible, self.choice((0, 1, 1, 1, 2, 2, _MOST_ODDITIES))))

    def has(self, oddity: str) -> bool:
        return oddity in self.oddities

    def one_in(self, number: int) -> bool:
        return self.randrange(number) == 0

    def odd(self, oddity: str, strange: Sequence[_T], ordinary: _T) -> _T:
        """One of `strange` in a file with this oddity, else `ordinary`."""
        return self.choice(strange) if self.has(oddity) else ordinary
