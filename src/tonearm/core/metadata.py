"""Checks the id and the metadata that clients give a player. Metadata are any JSON. A change replaces them, or merges
by JSON Merge Patch (RFC 7396)."""

import json
import re
from collections.abc import Iterator
from typing import Final, TypeAlias, Union

from tonearm.core.errors import BadRequest

# Union, not |: the alias refers to itself by name.
Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
JsonObject: TypeAlias = dict[str, Json]

MAX_NESTING: Final = 64  # of JSON that the node accepts; it limits recursive calls
# The metadata of a track came in an object; in a player's record they are two levels deeper.
MAX_RECORD_NESTING: Final = MAX_NESTING + 2


def levels_of(value: Json) -> Iterator[list[Json]]:
    """The values on each level of nesting: `value` itself, then its members, then their members, and so on."""
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


def value_of_json(text: bytes) -> Json:
    """The value of `text`, which the node has written."""
    value: Json = json.loads(text)
    return value


def is_nested_deeper(value: Json, max_nesting: int) -> bool:
    """Whether objects and arrays are nested more than `max_nesting` levels deep."""
    return any(depth > max_nesting for depth, _ in enumerate(levels_of(value)))


MAX_PLAYER_ID_CHARACTERS: Final = 128
_PLAYER_ID: Final = re.compile(rf"[A-Za-z0-9._~:@+\-]{{1,{MAX_PLAYER_ID_CHARACTERS}}}")


def is_player_id(text: str) -> bool:
    return _PLAYER_ID.fullmatch(text) is not None and text not in (".", "..")


def require_player_id(text: str) -> None:
    """Raises `BadRequest`."""
    if not is_player_id(text):
        raise BadRequest(
            "A player's id has 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + - and is not '.' or '..'."
        )


MAX_METADATA_BYTES: Final = 64 * 1024


def require_metadata_bytes(size_bytes: int, max_bytes: int) -> None:
    """Raises BadRequest when metadata of `size_bytes` bytes as JSON is longer than `max_bytes`."""
    if size_bytes > max_bytes:
        raise BadRequest(
            f"The metadata has {size_bytes} bytes as JSON; player.max_metadata_bytes allows {max_bytes}. Keep longer "
            "data elsewhere, and its key here."
        )


def apply_metadata(existing: Json, merge: bool, value: Json) -> Json:
    """The metadata after a change: `value` itself, or `existing` merged with it when `merge`. Neither is nested deeper
    than `MAX_NESTING`."""
    if not merge or not isinstance(value, dict):
        return value
    merged: JsonObject = dict(existing) if isinstance(existing, dict) else {}
    for name, change in value.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_metadata(merged.get(name), True, change)
    return merged


def is_same_json(left: Json, right: Json) -> bool:
    """Whether both have the same JSON text, but for the order of fields: `true` is not 1, and 1 is not 1.0."""
    # The first two comparisons nearly always decide, and are much faster than the third.
    return left == right and (
        repr(left) == repr(right) or json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    )
