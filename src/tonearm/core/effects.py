"""The effects of a player: values and their ranges.

Names, fields and meanings are Lavalink's where it has the effect, so that presets of its clients carry over.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from tonearm.core.errors import BadRequest

_RANGE: Final = "range"
_EffectT = TypeVar("_EffectT", bound="Effect")


def ranged(default: float, lowest: float, highest: float) -> Any:
    """A field of an effect: its default and the range, both ends included, that `checked` holds it to."""
    return field(default=default, metadata={_RANGE: (lowest, highest)})


@dataclass(frozen=True, slots=True)
class Effect:
    """Base of all effects. Every field is a number within the range that `ranged` gave it."""

    def checked(self: _EffectT) -> _EffectT:
        """This effect. Raises BadRequest, which names field and range, when a value is outside its range."""
        for item in fields(self):
            lowest, highest = item.metadata[_RANGE]
            value = getattr(self, item.name)
            if not lowest <= value <= highest:  # NaN is in no range either
                name = wire_name(item.name)
                raise BadRequest(f"{name} {value:g} is out of range; it is {lowest:g} to {highest:g}.")
        return self


def wire_name(name: str) -> str:
    """`filter_band` as clients write it: `filterBand`."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


@dataclass(frozen=True, slots=True)
class Karaoke(Effect):
    """Removes what is the same in both channels; a band around `filter_band` (Hz) is given back in mono."""

    level: float = ranged(1.0, 0.0, 1.0)
    mono_level: float = ranged(1.0, 0.0, 1.0)
    filter_band: float = ranged(220.0, 1.0, 20_000.0)
    filter_width: float = ranged(100.0, 1.0, 20_000.0)


@dataclass(frozen=True, slots=True)
class Timescale(Effect):
    """How fast and how high a track sounds: `rate` changes both as a faster turntable does."""

    speed: float = ranged(1.0, 0.25, 4.0)
    pitch: float = ranged(1.0, 0.25, 4.0)
    rate: float = ranged(1.0, 0.25, 4.0)

    def checked(self) -> "Timescale":
        Effect.checked(self)
        if not 0.25 <= self.position_rate <= 4.0:
            raise BadRequest(f"speed times rate is {self.position_rate:g}, which is out of range; it is 0.25 to 4.")
        return self

    @property
    def position_rate(self) -> float:
        """Seconds of the file that pass in a second heard."""
        return self.speed * self.rate

    @property
    def changes_nothing(self) -> bool:
        return self.speed == self.pitch == self.rate == 1.0


@dataclass(frozen=True, slots=True)
class Tremolo(Effect):
    """The loudness goes up and down `frequency` times a second; at `depth` 1 down to silence."""

    frequency: float = ranged(2.0, 0.1, 20.0)
    depth: float = ranged(0.5, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Vibrato(Effect):
    """The pitch goes up and down `frequency` times a second."""

    frequency: float = ranged(2.0, 0.1, 14.0)
    depth: float = ranged(0.5, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Rotation(Effect):
    """The sound wanders from side to side and back `rotation_hz` times a second; below 0 the other way round."""

    rotation_hz: float = ranged(0.0, -2.0, 2.0)


@dataclass(frozen=True, slots=True)
class Distortion(Effect):
    """y = offset + scale · (sin_offset + sin(sin_scale · x)) · (cos_offset + cos(…)) · (tan_offset + tan(…))."""

    sin_offset: float = ranged(0.0, -100.0, 100.0)
    sin_scale: float = ranged(1.0, -100.0, 100.0)
    cos_offset: float = ranged(0.0, -100.0, 100.0)
    cos_scale: float = ranged(1.0, -100.0, 100.0)
    tan_offset: float = ranged(0.0, -100.0, 100.0)
    tan_scale: float = ranged(1.0, -100.0, 100.0)
    offset: float = ranged(0.0, -100.0, 100.0)
    scale: float = ranged(1.0, -100.0, 100.0)


@dataclass(frozen=True, slots=True)
class ChannelMix(Effect):
    """How much of each channel goes to each channel."""

    left_to_left: float = ranged(1.0, 0.0, 1.0)
    left_to_right: float = ranged(0.0, 0.0, 1.0)
    right_to_left: float = ranged(0.0, 0.0, 1.0)
    right_to_right: float = ranged(1.0, 0.0, 1.0)

    @property
    def changes_nothing(self) -> bool:
        return self == ChannelMix()


@dataclass(frozen=True, slots=True)
class LowPass(Effect):
    """Lets the low frequencies through.

    By `smoothing` as Lavalink does: y += (x - y) / smoothing for each sample, 6 dB an octave; 1 changes nothing. Or
    by `frequency_hz`, where the level is 3 dB down, 12 dB an octave; 0 stands for "by smoothing".
    """

    smoothing: float = ranged(20.0, 1.0, 1000.0)
    frequency_hz: float = field(default=0.0, metadata={_RANGE: (0.0, 20_000.0)})

    def checked(self) -> "LowPass":
        Effect.checked(self)
        if 0.0 < self.frequency_hz < LOWEST_CORNER_HZ:
            raise BadRequest(f"frequencyHz {self.frequency_hz:g} is out of range; it is {LOWEST_CORNER_HZ:g} to 20000.")
        return self

    @property
    def changes_nothing(self) -> bool:
        return self.frequency_hz == 0.0 and self.smoothing == 1.0


LOWEST_CORNER_HZ: Final = 10.0


@dataclass(frozen=True, slots=True)
class HighPass(Effect):
    """Lets the high frequencies through: 3 dB down at `frequency_hz`, 12 dB an octave."""

    frequency_hz: float = ranged(80.0, LOWEST_CORNER_HZ, 20_000.0)


@dataclass(frozen=True, slots=True)
class Echo(Effect):
    """y = x + mix · e, where e[n] = x[n - d] + decay · e[n - d] and d is `delay_ms`."""

    delay_ms: float = ranged(300.0, 1.0, 2000.0)
    decay: float = ranged(0.4, 0.0, 0.9)
    mix: float = ranged(0.4, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Compressor(Effect):
    """Lowers what is louder than `threshold_db`: `ratio` dB above it become one dB. Peak, hard knee, both channels."""

    threshold_db: float = ranged(-20.0, -60.0, 0.0)
    ratio: float = ranged(4.0, 1.0, 20.0)
    attack_ms: float = ranged(5.0, 0.1, 500.0)
    release_ms: float = ranged(100.0, 5.0, 5000.0)
    makeup_db: float = ranged(0.0, 0.0, 24.0)

    @property
    def makeup_gain(self) -> float:
        """`makeup_db` as a linear factor."""
        return math.pow(10.0, self.makeup_db / 20.0)


@dataclass(frozen=True, slots=True)
class Effects:
    """All effects of a player; None is off. In the order in which the sound goes through them."""

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


NO_EFFECTS: Final = Effects()
