"""The types of JSON values as Python's parsers give them, any value and an object, and how deep one may be."""

from collections.abc import Iterator
from typing import Final, TypeAlias, Union

# Union, not |: the alias refers to itself by name.
Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
JsonObject: TypeAlias = dict[str, Json]

MAX_NESTING: Final = 64  # of what the node takes in, so that calls that go down level by level have an end
# A track's metadata came in an object; in a player's record it stands in an object of a list of an object.
MAX_RECORD_NESTING: Final = MAX_NESTING + 2


def levels_of(value: Json) -> Iterator[list[Json]]:
    """What stands on each level of `value`: itself, what it holds, what that holds …"""
    level = [value]
    while True:
        yield level
        inner: list[Json] = []
        has_containers = False
        for item in level:
            if isinstance(item, list):
                has_containers = True
                inner += item
            elif isinstance(item, dict):
                has_containers = True
                inner += item.values()
        if not has_containers:
            return
        level = inner


def is_nested_deeper(value: Json, max_nesting: int) -> bool:
    """Whether more than `max_nesting` objects and arrays stand in each other."""
    return any(depth > max_nesting for depth, _ in enumerate(levels_of(value)))
