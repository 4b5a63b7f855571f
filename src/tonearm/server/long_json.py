"""JSON whose objects hold long arrays, read in parts: the parser keeps the interpreter's lock until it is through, so
it gets no more at a time than others can wait for.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tonearm.core.metadata import Json

PART_VALUES: Final = 20_000  # some ms of the parser's time

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{},]', re.DOTALL)
_OPENING_BRACKETS: Final = (b"[", b"{")
_CLOSING: Final = (b"]", b"}")


@dataclass(slots=True)
class _LongArray:
    """An array in the outermost object: where its content is, and where that can be cut."""

    name: bytes
    start: int
    cuts: list[int] = field(default_factory=list)
    end: int = 0


def read_long_json(raw: bytes, parse: Callable[[bytes], Json], max_part_values: int) -> Json | None:
    """The value of `raw`, which `parse` reads in parts; None when a part would hold more than `max_part_values`.

    Arrays in the outermost object are cut, nothing else. Raises what `parse` does.
    """
    arrays, most = _long_arrays(raw)
    if most > max_part_values:
        return None
    outside, at = [], 0
    for array in arrays:
        outside.append(raw[at : array.start])
        at = array.end
    value = parse(b"".join((*outside, raw[at:])))
    if not isinstance(value, dict):
        return value
    for array in arrays:
        items: list[Json] = []
        starts = (array.start, *(cut + 1 for cut in array.cuts))
        for start, end in zip(starts, (*array.cuts, array.end), strict=True):
            part = parse(b"[0," + raw[start:end] + b"]")  # with an item before it: a part is never empty
            assert isinstance(part, list)
            items += part[1:]
        name = parse(array.name)
        assert isinstance(name, str)
        value[name] = items
    return value


def _long_arrays(raw: bytes) -> tuple[list[_LongArray], int]:
    """The arrays that are to be cut, and how many values the largest part holds."""
    found: list[_LongArray] = []
    name, depth, array = b"", 0, None
    values = most = outside = 0  # in this part, in the largest one, outside of arrays that are cut
    for match in _TOKEN.finditer(raw):
        token = match[0]
        if token in _OPENING_BRACKETS:
            depth += 1
            values += 1
            if depth == 2 and token == b"[" and name:
                array = _LongArray(name, match.end())
                outside, values = outside + values, 0
        elif token in _CLOSING:
            if depth == 2 and array is not None:
                if array.cuts:
                    array.end = match.start()
                    found.append(array)
                    most = max(most, values)
                else:
                    outside += values
                array, values = None, 0
            depth -= 1
        elif token == b",":
            values += 1
            if depth == 2 and array is not None and values >= PART_VALUES:
                array.cuts.append(match.start())
                most, values = max(most, values), 0
        elif depth == 1:
            name = token
    return found, max(most, outside + values)
