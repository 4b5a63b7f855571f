"""The values that describe an operation, which is one method at one path: parameters, body, answers and errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from tonearm.core.errors import ErrorCode
from tonearm.core.metadata import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value in the query, in a header or in the path. `schema` is JSON Schema; `example` is a value that works."""

    name: str
    text: str
    schema: JsonObject
    example: Json
    place: Literal["query", "header", "path"] = "query"
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The JSON body of a request. pydantic makes its schema from `model`. `examples` are by title."""

    model: Any
    examples: Mapping[str, Json]
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status below 400. `models` has, for each media type, a model for JSON or None for text and
    bytes."""

    status: int
    text: str
    models: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class Subject(Enum):
    """What a request is about. This decides what must exist, and what the node saves before it answers."""

    PLAYER = "the player that the path names, which must be there"
    NEW_PLAYER = "a player that need not be there before"
    ALL_PLAYERS = "all players"
    NODE = "the node"


# The sections of the description, in their order. A path without a tag is not a part of the interface.
TAGS: Final = ("Players", "Control", "Queue", "Settings", "Overlays", "Voice", "Audio", "Events", "Tracks", "Node")


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one path, such as `/v0/players/{player_id}/play`. `tag` is one of `TAGS`, or empty.

    `codes` are the error codes of this operation only. `openapi.codes_of` adds the codes of every path, those of a
    cluster where the path is about a player, `player_not_found` where a player must exist, and the codes of a body and
    of parameters. With `takes_bytes` the body is bytes instead of JSON.
    """

    method: str
    path: str
    summary: str
    replies: tuple[Reply, ...]
    text: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: RequestBody | None = None
    takes_bytes: bool = False
    codes: tuple[ErrorCode, ...] = ()
    tag: str = ""
    subject: Subject = Subject.PLAYER


DONE: Final = (Reply(204, "Done."),)


def json_of(model: Any, text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> tuple[Reply, ...]:
    """An answer with a JSON body."""
    return (Reply(status, text, {"application/json": model}, headers or {}),)


def whole_number(name: str, text: str, lowest: int, highest: int, example: int) -> Parameter:
    return Parameter(name, text, {"type": "integer", "minimum": lowest, "maximum": highest}, example)


def flag(name: str, text: str) -> Parameter:
    return Parameter(name, text, {"type": "boolean", "default": False}, True)


def switch(name: str, text: str) -> Parameter:
    return Parameter(name, text, {"type": "string", "enum": ["0", "1"], "default": "0"}, "1")


def words(name: str, text: str, example: str, *, is_required: bool = False) -> Parameter:
    return Parameter(name, text, {"type": "string"}, example, is_required=is_required)
