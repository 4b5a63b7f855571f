"""What all models of the wire have in common."""

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """Fields are camelCase on the wire and snake_case in Python; a model can be made with either.

    Unknown fields are ignored, so that a client goes on working with a newer node.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class RequestModel(WireModel):
    """Strict: a string is no number, `true` is no number, null is not absence."""

    model_config = ConfigDict(strict=True)


class ExactModel(RequestModel):
    """A request, or a part of one, in which an unknown name is refused: ignored, it would change nothing unnoticed."""

    model_config = ConfigDict(extra="forbid")


AnyJson: TypeAlias = Annotated[Any, Field(description="Any JSON value.")]
Milliseconds: TypeAlias = Annotated[int, Field(ge=0, description="A duration or a position in a track, in ms.")]
PositionRate: TypeAlias = Annotated[
    float, Field(gt=0, description="How much of the file passes in a second heard: 1 without a timescale.")
]
TimeOfDay: TypeAlias = Annotated[int, Field(ge=0, description="Milliseconds since 1970, UTC.")]
Count: TypeAlias = Annotated[int, Field(ge=0)]
PlayerId: TypeAlias = Annotated[
    str, Field(description="1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + -, and not `.` or `..`.")
]
TrackId: TypeAlias = Annotated[str, Field(description="A UUID that the node gave the track.")]
SourceText: TypeAlias = Annotated[
    str,
    Field(
        description="An http, https or file URI, or a path; at most 4096 characters.",
        examples=["https://radio.example/live.mp3", "music/song.flac"],
    ),
]
