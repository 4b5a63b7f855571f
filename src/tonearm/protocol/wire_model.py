"""What all models of the wire have in common, and JSON as text.

pydantic's encoder takes a fifth of the time of the standard library's, so that a player's largest values do not delay
the audio clock.
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

    Unknown fields are ignored, so that a client goes on working with a newer node.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )
    # The fields, by their names on the wire, whose defaults descriptions show; None: all of them. In an answer a
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
    """Strict: a string is no number, `true` is no number, null is not absence."""

    model_config = ConfigDict(strict=True)
    read_defaults: ClassVar[frozenset[str] | None] = None


def one_of(*names: str) -> JsonDict:
    """The part of a JSON Schema that says: one of these fields is required."""
    return {"anyOf": [{"required": [name]} for name in names]}


class ExactModel(RequestModel):
    """A request, or a part of one, in which an unknown name is refused, since a client would not notice its effect
    missing."""

    model_config = ConfigDict(extra="forbid")


# The default of a field that may be missing, and is never null: nobody reads it. An empty model instead, made for each
# request, would take a third of the time in which a player is created.
ABSENT: Final[Any] = None

AnyJson: TypeAlias = Annotated[Any, Field(description="Any JSON value.")]
Milliseconds: TypeAlias = Annotated[int, Field(ge=0, description="A duration or a position in a track, in ms.")]
PositionRate: TypeAlias = Annotated[
    float, Field(gt=0, description="How much of the file passes in a second heard: 1 without a timescale.")
]
TimeOfDay: TypeAlias = Annotated[int, Field(ge=0, description="Milliseconds since 1970, UTC.")]
Paused: TypeAlias = Annotated[
    bool, Field(description="A pause stands beside the state, and survives changes of track.")
]
Title: TypeAlias = Annotated[str, Field(description="From tags, a playlist or a page; else made of the URI.")]
Author: TypeAlias = Annotated[str, Field(description="From tags, a playlist or a page; empty when it is not known.")]
ArtworkUrl: TypeAlias = Annotated[str, Field(description="A link to a picture, from tags or a page.")]
Isrc: TypeAlias = Annotated[str, Field(description="The recording's number (ISRC), from tags.")]
BandNumber: TypeAlias = Annotated[
    int,
    Field(description="0 to 14: 25, 40, 63, 100, 160, 250, 400, 630, 1000, 1600, 2500, 4000, 6300, 10000, 16000 Hz."),
]
Listeners: TypeAlias = Annotated[int, Field(ge=0, description="How many listen to the player's audio now.")]
NodeRelease: TypeAlias = Annotated[str, Field(description="The node's, as `1.2.3`.")]
Count: TypeAlias = Annotated[int, Field(ge=0)]
# Ranges and patterns of what clients send are for readers and descriptions: `core` checks them, with its own sentences.
PlayerId: TypeAlias = Annotated[
    str,
    Field(
        description="1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + -, and not `.` or `..`.",
        json_schema_extra={"pattern": "^[A-Za-z0-9._~:@+-]{1,128}$"},
    ),
]
TrackId: TypeAlias = Annotated[str, Field(description="A UUID that the node gave the track.")]
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
    """`value` as compact UTF-8. A lone surrogate, which came in with a path or a tag, is written as its escape."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return _ASCII.encode(value).encode("ascii")


def json_bytes(value: Json) -> int:
    return len(json_text(value))
