"""Finds the difference between two tuples by comparing slices. Comparing ten thousand items one by one takes longer
than most changes of a queue."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_MOST_DROPPED: Final = 50  # the longest skip that is recognised; after a longer skip all items count as changed


@dataclass(frozen=True, slots=True)
class Splice(Generic[T]):
    """The old tuple loses its first items, `dropped`. Of the others, the first `kept_first` stay, and `added` replaces
    `removed` behind them. The rest stays. An item that moved is in `added`, and in `removed` or `dropped`."""

    dropped: tuple[T, ...]
    kept_first: int
    removed: tuple[T, ...]
    added: tuple[T, ...]

    @property
    def is_change(self) -> bool:
        return bool(self.dropped or self.removed or self.added)


def splice_of(old: tuple[T, ...], new: tuple[T, ...]) -> Splice[T]:
    """The splice from `old` to `new`. No two items of a tuple are equal."""
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
    return Splice(old[:dropped], first, old[dropped + first : len(old) - last], new[first : len(new) - last])


def _most_equal(most: int, is_equal: Callable[[int, int], bool]) -> int:
    """How many of the first `most` items are equal in a row. `is_equal` compares those from one index to another."""
    low, high, tried = 0, most, most  # the first `low` are equal, not more than the first `high`
    while low < high:
        if is_equal(low, tried):
            low = tried
        else:
            high = tried - 1
        tried = (low + high + 1) // 2
    return low
