"""JSON as text, and its length in bytes.

pydantic's encoder takes a fifth of the time of the standard library's, so that a player's largest values do not delay
the audio clock.
"""

import json
from typing import Final

from pydantic_core import PydanticSerializationError, to_json

from tonearm.core.json_value import Json

# Made once: json.dumps would make it for each call.
_ASCII: Final = json.JSONEncoder(separators=(",", ":"))


def json_text(value: Json) -> bytes:
    """`value` as compact UTF-8. A lone surrogate, which came in with a path or a tag, is written as its escape."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return _ASCII.encode(value).encode("ascii")


def json_bytes(value: Json) -> int:
    return len(json_text(value))
