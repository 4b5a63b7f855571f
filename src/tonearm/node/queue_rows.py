"""Stores a queue as rows of some track ids each, so that a change of a long queue writes only the changed rows.

A row has a number, and a queue is its rows in the order of these. They are far apart, for rows that come in between.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tonearm.core.play_queue import QueuedTrack
from tonearm.core.splices import Splice


@dataclass(frozen=True, slots=True)
class RowForm:
    """How many ids a row has at most, and how far the numbers of rows are apart that are written together."""

    most_ids: int = 100
    apart: int = 1 << 32


ROWS: Final = RowForm()


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A row's number, and how many tracks it names."""

    number: int
    length: int


def rows_after(
    rows: Sequence[QueueRow], splice: Splice[QueuedTrack], queue: Sequence[QueuedTrack], form: RowForm
) -> tuple[list[QueueRow], list[tuple[QueueRow, Sequence[QueuedTrack]]]]:
    """The rows of `queue`, to which `splice` leads from the queue that `rows` hold, and which of them have to be
    written, with their tracks."""
    first_end = len(splice.dropped) + splice.kept_first
    last_begin = first_end + len(splice.removed)
    first: list[QueueRow] = []
    last: list[QueueRow] = []
    at = begin = 0  # where the row begins, and the first row that stays
    for row in rows:
        if len(splice.dropped) <= at and at + row.length <= first_end:
            begin = begin if first else at
            first.append(row)
        elif at >= last_begin:
            last.append(row)
        at += row.length
    # What stands before the rows that stay, and between them, in the new queue.
    front = begin - len(splice.dropped) if first else 0
    between = len(queue) - front - _length(first) - _length(last)
    # Small rows grow, or each new track would have one of its own.
    while first and front and front + first[0].length <= form.most_ids:
        front += first.pop(0).length
    while first and between and between + first[-1].length <= form.most_ids:
        between += first.pop().length
    while last and between and between + last[0].length <= form.most_ids:
        between += last.pop(0).length
    if not first:
        front, between = 0, front + between
    leading = _new_rows(form, front, None, first[0].number if first else None)
    middle = _new_rows(form, between, first[-1].number if first else None, last[0].number if last else None)
    if leading is None or middle is None:  # there is no number left in between
        first, last, leading, middle = [], [], [], _new_rows(form, len(queue), None, None) or []
    after = [*leading, *first, *middle, *last]
    new, at = {*leading, *middle}, 0
    written = []
    for row in after:
        if row in new:
            written.append((row, queue[at : at + row.length]))
        at += row.length
    return after, written


def _length(rows: Sequence[QueueRow]) -> int:
    return sum(row.length for row in rows)


def _new_rows(form: RowForm, length: int, before: int | None, behind: int | None) -> list[QueueRow] | None:
    """Rows for so many tracks, with numbers between those of two rows (None: there is no such row). None: there are too
    few numbers."""
    lengths = [*_lengths(length, form.most_ids)]
    apart = form.apart
    if before is None:
        before = 0 if behind is None else behind - form.apart * (len(lengths) + 1)
    elif behind is not None:
        apart = (behind - before) // (len(lengths) + 1)
    if lengths and not apart:
        return None
    return [QueueRow(before + apart * number, length) for number, length in enumerate(lengths, start=1)]


def _lengths(length: int, most: int) -> Iterator[int]:
    while length > 0:
        yield min(length, most)
        length -= most
