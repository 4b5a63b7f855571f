"""The effects of a player as clients write and read them: the same objects in requests, replies and events.

Ranges and defaults come from `core.effects`, which checks them. These models only show them in descriptions.
"""

from dataclasses import fields
from typing import Any

from pydantic import Field

from tonearm.core import effects
from tonearm.core.effects import EFFECT_KINDS, Effect, range_of
from tonearm.core.errors import BadRequest
from tonearm.protocol.wire_model import ExactModel, WireModel


def _number(effect: type[Effect], name: str, description: str | None = None) -> Any:
    """The field of a number of `effect`, with its default and its range."""
    default = next(item.default for item in fields(effect) if item.name == name)
    minimum, maximum = range_of(effect, name)
    return Field(default, description=description, json_schema_extra={"minimum": minimum, "maximum": maximum})


class Karaoke(ExactModel):
    """Removes what is the same in both channels; a band of it is given back in mono."""

    level: float = _number(effects.Karaoke, "level", "How much of it is removed: 0 is nothing, 1 all.")
    mono_level: float = _number(effects.Karaoke, "mono_level", "How much of the band is given back: 1 is all.")
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
    depth: float = _number(effects.Tremolo, "depth", "How far: 0 is not at all; with 1 it goes down to silence.")


class Vibrato(ExactModel):
    """The pitch goes up and down."""

    frequency: float = _number(effects.Vibrato, "frequency", "In Hz.")
    depth: float = _number(effects.Vibrato, "depth", "How far: 0 is not at all.")


class Rotation(ExactModel):
    """The sound wanders from side to side and back."""

    rotation_hz: float = _number(effects.Rotation, "rotation_hz", "Below 0 the other way round.")


class Distortion(ExactModel):
    """offset + scale · (sinOffset + sin(sinScale · x)) · (cosOffset + cos(…)) · (tanOffset + tan(…)), within ±1."""

    sin_offset: float = _number(effects.Distortion, "sin_offset", "Added to the sine.")
    sin_scale: float = _number(
        effects.Distortion, "sin_scale", "By what a sample is multiplied before its sine is taken."
    )
    cos_offset: float = _number(effects.Distortion, "cos_offset", "Added to the cosine.")
    cos_scale: float = _number(
        effects.Distortion, "cos_scale", "By what a sample is multiplied before its cosine is taken."
    )
    tan_offset: float = _number(effects.Distortion, "tan_offset", "Added to the tangent.")
    tan_scale: float = _number(
        effects.Distortion, "tan_scale", "By what a sample is multiplied before its tangent is taken."
    )
    offset: float = _number(effects.Distortion, "offset", "Added to the product.")
    scale: float = _number(effects.Distortion, "scale", "By what the product is multiplied.")


class ChannelMix(ExactModel):
    """How much of each channel goes to each channel."""

    left_to_left: float = _number(effects.ChannelMix, "left_to_left", "Of the left channel to the left one, linear.")
    left_to_right: float = _number(effects.ChannelMix, "left_to_right", "Of the left channel to the right one, linear.")
    right_to_left: float = _number(effects.ChannelMix, "right_to_left", "Of the right channel to the left one, linear.")
    right_to_right: float = _number(
        effects.ChannelMix, "right_to_right", "Of the right channel to the right one, linear."
    )


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

    delay_ms: float = _number(effects.Echo, "delay_ms", "d: how much later the echo comes, in ms.")
    decay: float = _number(effects.Echo, "decay", "How loud each echo is beside the one before it, linear.")
    mix: float = _number(effects.Echo, "mix", "How loud the echoes are beside the sound, linear.")


class Compressor(ExactModel):
    """Lowers what is louder than a threshold: peak, hard knee, both channels together."""

    threshold_db: float = _number(effects.Compressor, "threshold_db", "In dB below full scale.")
    ratio: float = _number(effects.Compressor, "ratio", "So many dB above the threshold become one.")
    attack_ms: float = _number(effects.Compressor, "attack_ms", "In which time it begins to lower, in ms.")
    release_ms: float = _number(effects.Compressor, "release_ms", "In which time it stops lowering, in ms.")
    makeup_db: float = _number(effects.Compressor, "makeup_db", "By how much all is raised afterwards, in dB.")


class Normalization(ExactModel):
    """Brings each track to the same loudness: by ReplayGain or R128 tags, else as it is measured while it plays."""

    target_lufs: float = _number(effects.Normalization, "target_lufs", "The loudness, in LUFS.")
    mode: effects.NormalizationMode = Field("track", description="`off` is as if the effect were null.")


class Limiter(ExactModel):
    """Lets no true peak above the ceiling, and delays nothing."""

    ceiling_db: float = _number(effects.Limiter, "ceiling_db", "In dB below full scale.")
    enabled: effects.LimiterSwitch = Field(
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
        """The effects that the body names, by the names of `core.effects.Effects`; None switches one off.

        Their ranges are not checked yet. Raises BadRequest for fields that exclude each other."""
        given: dict[str, Effect | None] = {}
        for name in self.model_fields_set & EFFECT_KINDS.keys():
            model = getattr(self, name)
            if isinstance(model, LowPass) and {"smoothing", "frequency_hz"} <= model.model_fields_set:
                raise BadRequest("lowPass takes smoothing or frequencyHz, not both. Leave one of them out.")
            given[name] = None if model is None else EFFECT_KINDS[name](**model.model_dump())
        return given
