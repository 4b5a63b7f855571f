"""The bodies that clients send.

The ranges in these models are for readers and descriptions only: `core` decides them, with a sentence that says what
is possible. A model that refused a value itself would say it in pydantic's words.
"""

from typing import Annotated, Final, TypeAlias

from pydantic import Field
from pydantic.config import JsonDict

from tonearm.core.filters import BAND_COUNT, GAIN_MAX_DB, GAIN_MIN_DB, VOLUME_MAX, FilterChange
from tonearm.core.play_queue import LoopMode
from tonearm.protocol.filters import EffectFields
from tonearm.protocol.wire_model import AnyJson, PlayerId, RequestModel, SourceText

MAX_ENCODED_TRACKS: Final = 1000


def _range(minimum: float, maximum: float) -> JsonDict:
    return {"minimum": minimum, "maximum": maximum}


class NewPlayer(RequestModel):
    """POST /v0/players: a player that begins with the track of `uri`."""

    id: PlayerId
    uri: SourceText
    metadata: AnyJson = Field(default_factory=dict)


class NewTrack(RequestModel):
    """POST /v0/players/{id}/queue: a track, or a playlist's tracks, at the end of the queue."""

    uri: SourceText
    metadata: AnyJson = Field(default_factory=dict)


class LoopPatch(RequestModel):
    """PATCH /v0/players/{id}/loop."""

    # Not strict: an enumeration's strict form is its member, which JSON cannot hold.
    mode: Annotated[LoopMode, Field(strict=False)]


class MetadataPatch(RequestModel):
    """PATCH /v0/players/{id}/metadata: `merge` makes `value` a JSON Merge Patch (RFC 7396), else it replaces."""

    value: AnyJson
    merge: bool = True


class BandGain(RequestModel):
    """One band of the equalizer."""

    band: int = Field(json_schema_extra=_range(0, BAND_COUNT - 1))
    gain_db: float = Field(alias="gain_db", description="In dB.", json_schema_extra=_range(GAIN_MIN_DB, GAIN_MAX_DB))


class FiltersPatch(EffectFields, RequestModel):
    """PATCH /v0/players/{id}/filters: what is absent stays as it is; `eq: []` makes the equalizer flat.

    An effect replaces the one before: its fields that are left out take their defaults. null switches it off.
    """

    # The defaults are never read.
    volume: float = Field(1.0, description="Linear: 1 changes nothing.", json_schema_extra=_range(0, VOLUME_MAX))
    eq: list[BandGain] = Field(default_factory=list, description="Listed bands are set, others stay.")
    reset: bool = Field(False, description="Makes everything flat, before what else is here is applied.")

    def as_change(self) -> FilterChange:
        """What to change; its ranges are not checked yet. Raises BadRequest for fields that exclude each other."""
        return FilterChange(
            volume=self.volume if "volume" in self.model_fields_set else None,
            gains=tuple((gain.band, gain.gain_db) for gain in self.eq) if "eq" in self.model_fields_set else None,
            effects=self.given_effects(),
            resets=self.reset,
        )


EncodedTracks: TypeAlias = Annotated[
    list[str], Field(max_length=MAX_ENCODED_TRACKS, description="POST /v0/decodetracks: encoded tracks, in base64.")
]
