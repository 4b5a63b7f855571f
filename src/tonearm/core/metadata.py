"""A player's metadata: replaced, or merged by JSON Merge Patch (RFC 7396). No function changes its arguments."""

import json
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
    # The first two comparisons decide nearly always, and take a tenth of the time of the last one.
    return left == right and (
        repr(left) == repr(right) or json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    )
