"""A player's metadata: replaced, or merged by JSON Merge Patch (RFC 7396). No function changes its arguments."""

import contextlib
from typing import Final

from tonearm.core.errors import BadRequest
from tonearm.core.json_value import Json, JsonObject

MAX_METADATA_BYTES: Final = 64 * 1024


def require_metadata_bytes(size_bytes: int, max_bytes: int) -> None:
    """Raises BadRequest when metadata of `size_bytes` bytes as JSON is longer than `max_bytes`."""
    if size_bytes > max_bytes:
        raise BadRequest(
            f"The metadata has {size_bytes} bytes as JSON; player.max_metadata_bytes allows {max_bytes}. Keep what is "
            "longer elsewhere, and its key here."
        )


def apply_metadata(existing: Json, merge: bool, value: Json) -> Json:
    """The metadata after a change: `value` itself, or `existing` merged with it when `merge`."""
    if not merge or not isinstance(value, dict):
        return value
    merged: JsonObject = dict(existing) if isinstance(existing, dict) else {}
    # A stack instead of recursion: the depth of what clients send must not reach Python's limit.
    pending = [(merged, value)]
    while pending:
        target, patch = pending.pop()
        for name, change in patch.items():
            if change is None:
                target.pop(name, None)
            elif isinstance(change, dict):
                old = target.get(name)
                child: JsonObject = dict(old) if isinstance(old, dict) else {}
                target[name] = child
                pending.append((child, change))
            else:
                target[name] = change
    return merged


def is_same_json(left: Json, right: Json) -> bool:
    """Whether both have the same JSON text, but for the order of fields: `true` is not 1, and 1 is not 1.0."""
    # These two comparisons decide nearly always. The loop below takes ten times as long: too long for 64 KiB.
    with contextlib.suppress(RecursionError):
        if left != right:
            return False
        if repr(left) == repr(right):
            return True
    pending: list[tuple[Json, Json]] = [(left, right)]
    while pending:
        one, other = pending.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            pending.extend((one[name], other[name]) for name in one)
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pending.extend(zip(one, other, strict=True))
        elif type(one) is not type(other) or one != other:
            return False
    return True
