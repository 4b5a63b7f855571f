"""Finds how one tuple follows from another by comparing slices. To compare ten thousand items one by one takes longer
than most changes of a queue."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_MOST_DROPPED: Final = 50  # as many tracks as are skipped at once; when more are, all count as changed


@dataclass(frozen=True, slots=True)
class Splice(Generic[T]):
    """The old tuple loses its first items, `dropped`. Of what is left `kept_first` items stay the first ones and
    `kept_last` the last ones; `removed` stood between them, where `added` stands now. An item that moved is among the
    ones that left and among `added`."""

    dropped: tuple[T, ...]
    kept_first: int
    removed: tuple[T, ...]
    added: tuple[T, ...]
    kept_last: int

    @property
    def is_change(self) -> bool:
        return bool(self.dropped or self.removed or self.added)


def splice_of(old: tuple[T, ...], new: tuple[T, ...]) -> Splice[T]:
    """The way from `old` to `new`, of whose items no two are equal."""
    dropped = 0
    if old and new and old[0] is not new[0]:
        leading = old[:_MOST_DROPPED]
        dropped = leading.index(new[0]) if new[0] in leading else 0
    left = len(old) - dropped
    most = min(left, len(new))
    first = _most_equal(most, lambda low, high: old[dropped + low : dropped + high] == new[low:high])
    last = _most_equal(
        most - first, lambda low, high: old[len(old) - high : len(old) - low] == new[len(new) - high : len(new) - low]
    )
    return Splice(old[:dropped], first, old[dropped + first : len(old) - last], new[first : len(new) - last], last)


def _most_equal(most: int, is_equal: Callable[[int, int], bool]) -> int:
    """How many items are equal one after the other, of `most`; `is_equal` compares those from one number to another."""
    low, high, tried = 0, most, most  # the first `low` are equal, not more than the first `high`
    while low < high:
        if is_equal(low, tried):
            low = tried
        else:
            high = tried - 1
        tried = (low + high + 1) // 2
    return low
