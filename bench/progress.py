"""Prints the current step and the estimated remaining time to stderr."""

import sys
import time
from collections.abc import Callable


class Progress:
    def __init__(self, expected_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._expected_s = expected_s
        self._done_s = 0.0
        self._clock = clock
        self._begun = clock()

    def begins(self, round_number: int, rounds: int, title: str) -> None:
        print(f"round {round_number}/{rounds}: {title} … {self.rest()}", file=sys.stderr, flush=True)

    def ended(self, expected_s: float) -> None:
        """A step that was expected to take so long is through."""
        self._done_s += expected_s

    def rest(self) -> str:
        """By how long everything took until now, against what was expected of it."""
        pace = (self._clock() - self._begun) / self._done_s if self._done_s else 1.0
        rest_s = (self._expected_s - self._done_s) * pace
        return f"about {rest_s / 60:.0f} min to go" if rest_s >= 60 else "less than a minute to go"


def progress_note(text: str) -> None:
    """Something seen on the way."""
    print(f"    {text}", file=sys.stderr, flush=True)
