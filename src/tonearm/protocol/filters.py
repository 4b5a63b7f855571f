"""The effects of a player as clients write and read them: the same objects in requests, replies and events.

Ranges and defaults are those of `core.effects`, which checks them; in these models they are for readers and
descriptions.
"""

from dataclasses import fields
from typing import Any, Literal

from pydantic import Field

from tonearm.core import effects
from tonearm.core.effects import EFFECT_KINDS, Effect, range_of
from tonearm.core.errors import BadRequest
from tonearm.protocol.wire_model import ExactModel, WireModel


def _number(effect: type[Effect], name: str, description: str | None = None) -> Any:
    """A number of `effect`, with its default and its range."""
    default = next(item.default for item in fields(effect) if item.name == name)
    minimum, maximum = range_of(effect, name)
    return Field(default, description=description, json_schema_extra={"minimum": minimum, "maximum": maximum})


class Karaoke(ExactModel):
    """Removes what is the same in both channels; a band of it is given back in mono."""

    level: float = _number(effects.Karaoke, "level")
    mono_level: float = _number(effects.Karaoke, "mono_level")
    filter_band: float = _number(effects.Karaoke, "filter_band", "In Hz.")
    filter_width: float = _number(effects.Karaoke, "filter_width", "In Hz.")


class Timescale(ExactModel):
    """How fast and how high a track sounds. Speed times rate is 0.25 to 4, too."""

    speed: float = _number(effects.Timescale, "speed", "Changes the tempo, not the pitch.")
    pitch: float = _number(effects.Timescale, "pitch", "Changes the pitch, not the tempo.")
    rate: float = _number(effects.Timescale, "rate", "Changes both, as a faster turntable does.")


class Tremolo(ExactModel):
    """The loudness goes up and down."""

    frequency: float = _number(effects.Tremolo, "frequency", "In Hz.")
    depth: float = _number(effects.Tremolo, "depth")


class Vibrato(ExactModel):
    """The pitch goes up and down."""

    frequency: float = _number(effects.Vibrato, "frequency", "In Hz.")
    depth: float = _number(effects.Vibrato, "depth")


class Rotation(ExactModel):
    """The sound wanders from side to side and back."""

    rotation_hz: float = _number(effects.Rotation, "rotation_hz", "Below 0 the other way round.")


class Distortion(ExactModel):
    """offset + scale · (sinOffset + sin(sinScale · x)) · (cosOffset + cos(…)) · (tanOffset + tan(…)), within ±1."""

    sin_offset: float = _number(effects.Distortion, "sin_offset")
    sin_scale: float = _number(effects.Distortion, "sin_scale")
    cos_offset: float = _number(effects.Distortion, "cos_offset")
    cos_scale: float = _number(effects.Distortion, "cos_scale")
    tan_offset: float = _number(effects.Distortion, "tan_offset")
    tan_scale: float = _number(effects.Distortion, "tan_scale")
    offset: float = _number(effects.Distortion, "offset")
    scale: float = _number(effects.Distortion, "scale")


class ChannelMix(ExactModel):
    """How much of each channel goes to each channel."""

    left_to_left: float = _number(effects.ChannelMix, "left_to_left")
    left_to_right: float = _number(effects.ChannelMix, "left_to_right")
    right_to_left: float = _number(effects.ChannelMix, "right_to_left")
    right_to_right: float = _number(effects.ChannelMix, "right_to_right")


class LowPass(ExactModel):
    """Lets the low frequencies through: by `smoothing` as Lavalink does, or by `frequencyHz`."""

    smoothing: float = _number(effects.LowPass, "smoothing", "1 changes nothing.")
    # Not null: a filter that is given by neither has its default smoothing.
    frequency_hz: float = _number(effects.LowPass, "frequency_hz", "3 dB down there, 12 dB an octave.")


class HighPass(ExactModel):
    """Lets the high frequencies through."""

    frequency_hz: float = _number(effects.HighPass, "frequency_hz", "3 dB down there, 12 dB an octave.")


class Echo(ExactModel):
    """y = x + mix · e, where e[n] = x[n - d] + decay · e[n - d]."""

    delay_ms: float = _number(effects.Echo, "delay_ms")
    decay: float = _number(effects.Echo, "decay")
    mix: float = _number(effects.Echo, "mix")


class Compressor(ExactModel):
    """Lowers what is louder than a threshold: peak, hard knee, both channels together."""

    threshold_db: float = _number(effects.Compressor, "threshold_db")
    ratio: float = _number(effects.Compressor, "ratio", "So many dB above the threshold become one.")
    attack_ms: float = _number(effects.Compressor, "attack_ms")
    release_ms: float = _number(effects.Compressor, "release_ms")
    makeup_db: float = _number(effects.Compressor, "makeup_db")


class Normalization(ExactModel):
    """Brings each track to the same loudness: by ReplayGain or R128 tags, else as it is measured while it plays."""

    target_lufs: float = _number(effects.Normalization, "target_lufs")
    mode: Literal["track", "off"] = "track"


class Limiter(ExactModel):
    """Lets no true peak above the ceiling, and delays nothing."""

    ceiling_db: float = _number(effects.Limiter, "ceiling_db", "In dB below full scale.")
    enabled: Literal["auto"] | bool = Field(
        "auto",
        description="`auto`: only while a compressor, normalization, overlay or crossfade is active.",
    )


class EffectFields(WireModel):
    """All effects; null is off."""

    timescale: Timescale | None = None
    karaoke: Karaoke | None = None
    low_pass: LowPass | None = None
    high_pass: HighPass | None = None
    channel_mix: ChannelMix | None = None
    tremolo: Tremolo | None = None
    vibrato: Vibrato | None = None
    rotation: Rotation | None = None
    distortion: Distortion | None = None
    echo: Echo | None = None
    compressor: Compressor | None = None
    normalization: Normalization | None = None
    limiter: Limiter | None = None

    def given_effects(self) -> dict[str, Effect | None]:
        """Those that are there, as values whose ranges are not checked yet. Raises BadRequest."""
        given: dict[str, Effect | None] = {}
        for name in self.model_fields_set & EFFECT_KINDS.keys():
            model = getattr(self, name)
            if isinstance(model, LowPass) and {"smoothing", "frequency_hz"} <= model.model_fields_set:
                raise BadRequest("lowPass takes smoothing or frequencyHz, not both. Leave one of them out.")
            given[name] = None if model is None else EFFECT_KINDS[name](**model.model_dump())
        return given
