"""The shape of each request body, and the sentence for a body that does not fit."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tonearm.core.errors import BadRequest
from tonearm.core.filters import FilterChange
from tonearm.core.json_value import Json
from tonearm.core.track_queue import LoopMode


class Body(BaseModel):
    """Strict: a string is no number, `true` is no number, null is not absence. Unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class NewPlayer(Body):
    id: str
    uri: str
    metadata: Any = Field(default_factory=dict)


class NewTrack(Body):
    uri: str
    metadata: Any = Field(default_factory=dict)


class LoopPatch(Body):
    # Not strict: an enumeration's strict form is its member, which JSON cannot hold.
    mode: Annotated[LoopMode, Field(strict=False)]


class MetadataPatch(Body):
    value: Any
    merge: bool = True


class BandGain(Body):
    band: int
    gain_db: float


class FiltersPatch(Body):
    # The defaults are never read: what is absent stays as it is.
    volume: float = 1.0
    eq: list[BandGain] = Field(default_factory=list)

    def as_change(self) -> FilterChange:
        """What to change; ranges are the core's matter."""
        return FilterChange(
            volume=self.volume if "volume" in self.model_fields_set else None,
            gains=tuple((gain.band, gain.gain_db) for gain in self.eq) if "eq" in self.model_fields_set else None,
        )


BodyT = TypeVar("BodyT", bound=Body)

_EXPECTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "missing": "is missing",
        "string_type": "must be a string",
        "float_type": "must be a number",
        "int_type": "must be a whole number",
        "bool_type": "must be true or false",
        "list_type": "must be an array",
        "model_type": "must be an object",
    }
)


def parse(kind: type[BodyT], value: Json) -> BodyT:
    """`value` as `kind`. Raises `BadRequest` that names the first field that is wrong."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise BadRequest(_sentence(error)) from error


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    subject = f"The field `{field}`" if field else "The body"
    if first["type"] == "enum":
        return f"{subject} must be one of {first['ctx']['expected']}."
    return f"{subject} {_EXPECTED.get(first['type']) or 'is wrong: ' + first['msg']}."
