"""The effects of a player: values and their ranges.

Names, fields and meanings are Lavalink's where it has the effect, so that presets of its clients carry over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from tonearm.core.errors import BadRequest

_RANGE: Final = "range"
_EffectT = TypeVar("_EffectT", bound="Effect")


def ranged(default: float | None, lowest: float, highest: float) -> Any:
    """A field of an effect: its default, and the least and the greatest value that `checked` allows."""
    return field(default=default, metadata={_RANGE: (lowest, highest)})


def range_of(effect: "type[Effect]", name: str) -> tuple[float, float]:
    """The least and the greatest value of a number of `effect`."""
    found = next(item.metadata[_RANGE] for item in fields(effect) if item.name == name)
    return cast("tuple[float, float]", found)


@dataclass(frozen=True, slots=True)
class Effect:
    """Base of all effects. Its numbers lie within the ranges that `ranged` gave them."""

    def checked(self: _EffectT) -> _EffectT:
        """This effect. Raises BadRequest, which names field and range, when a value is outside its range."""
        for item in fields(self):
            value = getattr(self, item.name)
            if _RANGE not in item.metadata or value is None:
                continue
            lowest, highest = item.metadata[_RANGE]
            if not lowest <= value <= highest:  # NaN is in no range either
                name = wire_name(item.name)
                raise BadRequest(f"{name} {value:g} is out of range; it is {lowest:g} to {highest:g}.")
        return self

    @property
    def changes_nothing(self) -> bool:
        """Whether these values leave the sound as it is. Lavalink leaves out such an effect, too."""
        return False


def wire_name(name: str) -> str:
    """`filter_band` as clients write it: `filterBand`."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


@dataclass(frozen=True, slots=True)
class Karaoke(Effect):
    """Removes what is the same in both channels, such as a voice; a band around `filter_band` (Hz), `filter_width` Hz
    wide, is given back in mono."""

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
    """The loudness goes up and down `frequency` times a second, between 1 - `depth` and 1."""

    frequency: float = ranged(2.0, 0.1, 20.0)
    depth: float = ranged(0.5, 0.0, 1.0)

    @property
    def changes_nothing(self) -> bool:
        return self.depth == 0.0


@dataclass(frozen=True, slots=True)
class Vibrato(Effect):
    """The pitch goes up and down `frequency` times a second."""

    frequency: float = ranged(2.0, 0.1, 14.0)
    depth: float = ranged(0.5, 0.0, 1.0)

    @property
    def changes_nothing(self) -> bool:
        return self.depth == 0.0


@dataclass(frozen=True, slots=True)
class Rotation(Effect):
    """The sound wanders from side to side and back `rotation_hz` times a second; below 0 the other way round."""

    rotation_hz: float = ranged(0.0, -2.0, 2.0)

    @property
    def changes_nothing(self) -> bool:
        return self.rotation_hz == 0.0


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

    @property
    def changes_nothing(self) -> bool:
        return self == Distortion()


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
    by `frequency_hz`, where the level is 3 dB down, 12 dB an octave; None stands for "by smoothing".
    """

    smoothing: float = ranged(20.0, 1.0, 1000.0)
    frequency_hz: float | None = ranged(None, 10.0, 20_000.0)

    @property
    def changes_nothing(self) -> bool:
        return self.frequency_hz is None and self.smoothing == 1.0


@dataclass(frozen=True, slots=True)
class HighPass(Effect):
    """Lets the high frequencies through: 3 dB down at `frequency_hz`, 12 dB an octave."""

    frequency_hz: float = ranged(80.0, 10.0, 20_000.0)


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


NormalizationMode: TypeAlias = Literal["track", "off"]


@dataclass(frozen=True, slots=True)
class Normalization(Effect):
    """Brings each track to the same loudness: by its tags, else as it is measured while it plays."""

    target_lufs: float = ranged(-14.0, -30.0, -5.0)
    mode: NormalizationMode = "track"


LimiterSwitch: TypeAlias = Literal["auto"] | bool


@dataclass(frozen=True, slots=True)
class Limiter(Effect):
    """Lets no true peak above `ceiling_db`. `auto` is on only while something else may raise the level by itself."""

    ceiling_db: float = ranged(-1.0, -6.0, 0.0)
    enabled: LimiterSwitch = "auto"


@dataclass(frozen=True, slots=True)
class Effects:
    """All effects of a player, in the order in which the sound goes through them; None is off."""

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
    limiter: Limiter | None = Limiter()

    @property
    def target_lufs(self) -> float | None:
        """The loudness that normalization brings all tracks to. None when it is off."""
        normalization = self.normalization
        return None if normalization is None or normalization.mode == "off" else normalization.target_lufs

    @property
    def normalizes(self) -> bool:
        return self.target_lufs is not None

    def limits(self, *, with_overlays: bool, crossfades: bool) -> bool:
        """Whether the limiter is on while overlays sound or tracks fade into each other."""
        limiter = self.limiter
        if limiter is None or limiter.enabled != "auto":
            return limiter is not None and bool(limiter.enabled)
        return with_overlays or crossfades or self.compressor is not None or self.normalizes

    @property
    def position_rate(self) -> float:
        """Seconds of the file that pass in a second heard."""
        return 1.0 if self.timescale is None else self.timescale.position_rate


NO_EFFECTS: Final = Effects()

# The kind of each field of `Effects`, which is named as clients name it, but for the case.
EFFECT_KINDS: Final[Mapping[str, type[Effect]]] = MappingProxyType(
    {
        "timescale": Timescale,
        "karaoke": Karaoke,
        "low_pass": LowPass,
        "high_pass": HighPass,
        "channel_mix": ChannelMix,
        "tremolo": Tremolo,
        "vibrato": Vibrato,
        "rotation": Rotation,
        "distortion": Distortion,
        "echo": Echo,
        "compressor": Compressor,
        "normalization": Normalization,
        "limiter": Limiter,
    }
)
