"""A player's metadata: replaced, or merged by JSON Merge Patch (RFC 7396). No function changes its arguments."""

from tonearm.core.json_value import Json, JsonObject


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
    """True when both have the same JSON text, but for the order of fields: `true` is not 1, and 1 is not 1.0."""
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
