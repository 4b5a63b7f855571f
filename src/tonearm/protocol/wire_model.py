"""The base classes and shared field types of all models of the wire, and JSON as text.

The JSON is made by pydantic's encoder. It takes a fifth of the time of the standard library's encoder, so a player's
largest values do not delay the audio clock.
"""

import json
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticSerializationError, to_json

from tonearm.core.metadata import Json


class WireModel(BaseModel):
    """Fields are camelCase on the wire and snake_case in Python; a model can be made with either.

    Unknown fields are ignored, so that a client also works with a newer node.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )
    # Descriptions show the defaults of these fields, by their names on the wire; None: of all fields. In an answer a
    # default only says that the field may be missing, and in many requests only the fields that were sent count.
    read_defaults: ClassVar[frozenset[str] | None] = frozenset()

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler(schema)
        if cls.read_defaults is not None:
            for name, field in handler.resolve_ref_schema(described).get("properties", {}).items():
                if name not in cls.read_defaults:
                    field.pop("default", None)
        return described


class RequestModel(WireModel):
    """A strict model: a string or `true` is not a number, and null does not mean that a field is absent."""

    model_config = ConfigDict(strict=True)
    read_defaults: ClassVar[frozenset[str] | None] = None


def one_of(*names: str) -> JsonDict:
    """The part of a JSON Schema that requires at least one of these fields."""
    return {"anyOf": [{"required": [name]} for name in names]}


class ExactModel(RequestModel):
    """A request, or a part of one, that refuses unknown names. If they were ignored, a client would not notice that
    they have no effect."""

    model_config = ConfigDict(extra="forbid")


# The default of a field that may be missing but is never null. No code reads this default. An empty model in its place
# would be made for each request, and would take a third of the time that it takes to create a player.
ABSENT: Final[Any] = None

AnyJson: TypeAlias = Annotated[Any, Field(description="Any JSON value.")]
Milliseconds: TypeAlias = Annotated[int, Field(ge=0, description="A duration or a position in a track, in ms.")]
PositionRate: TypeAlias = Annotated[
    float, Field(gt=0, description="The seconds of the file that play in one second; 1 without a timescale.")
]
TimeOfDay: TypeAlias = Annotated[int, Field(ge=0, description="A time, in ms since 1970, UTC.")]
Paused: TypeAlias = Annotated[
    bool, Field(description="Whether the player is paused, in any state. A pause survives track changes.")
]
Title: TypeAlias = Annotated[
    str, Field(description="The title from tags, a playlist or a page, or one made from the URI.")
]
Author: TypeAlias = Annotated[str, Field(description="The author from tags, a playlist or a page; empty when unknown.")]
ArtworkUrl: TypeAlias = Annotated[str, Field(description="A link to a picture, from tags, a playlist or a page.")]
Isrc: TypeAlias = Annotated[str, Field(description="The ISRC of the recording, from tags or a page.")]
BandNumber: TypeAlias = Annotated[
    int,
    Field(
        description="The band: 0 to 14 for 25, 40, 63, 100, 160, 250, 400, 630, 1000, 1600, 2500, 4000, 6300, 10000, "
        "16000 Hz."
    ),
]
Listeners: TypeAlias = Annotated[int, Field(ge=0, description="The present number of listeners to the player's audio.")]
NodeRelease: TypeAlias = Annotated[str, Field(description="The node's version, such as `1.2.3`.")]
Count: TypeAlias = Annotated[int, Field(ge=0)]
# The ranges and patterns of requests only appear in descriptions. `core` checks them, with error messages of its own.
PlayerId: TypeAlias = Annotated[
    str,
    Field(
        description="The player's id: 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + -, but not `.` or `..`.",
        json_schema_extra={"pattern": "^[A-Za-z0-9._~:@+-]{1,128}$"},
    ),
]
TrackId: TypeAlias = Annotated[
    str,
    Field(
        description="The id of a track or an overlay. The node makes a UUID. A restored track keeps its id, which may "
        "be any 1 to 128 of the characters of a player's id."
    ),
]
SourceText: TypeAlias = Annotated[
    str,
    Field(
        description="An http, https or file URI, or a path; at most 4096 characters.",
        examples=["https://radio.example/live.mp3", "music/song.flac"],
        json_schema_extra={"minLength": 1, "maxLength": 4096},
    ),
]


# Made once: json.dumps would make it for each call.
_ASCII: Final = json.JSONEncoder(separators=(",", ":"))


def json_text(value: Json) -> bytes:
    """`value` as compact UTF-8. A lone surrogate, such as one from a path or a tag, is written as an escape."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return _ASCII.encode(value).encode("ascii")


def json_bytes(value: Json) -> int:
    return len(json_text(value))
