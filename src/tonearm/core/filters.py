"""The sound settings of a player: volume, the 15 equalizer bands, and the effects."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from tonearm.core.errors import BadRequest

MEANING: Final = "meaning"
RANGE: Final = "range"
_EffectT = TypeVar("_EffectT", bound="Effect")


def ranged(default: float | None, lowest: float, highest: float, meaning: str) -> Any:
    """A number of an effect, with its default, the range that `checked` allows, and a description."""
    return field(default=default, metadata={MEANING: meaning, RANGE: (lowest, highest)})


@dataclass(frozen=True, slots=True)
class Effect:
    """Base of all effects. Its numbers lie within the ranges that `ranged` gave them."""

    def checked(self: _EffectT) -> _EffectT:
        """This effect. Raises BadRequest, which names field and range, when a value is outside its range."""
        for item in fields(self):
            value = getattr(self, item.name)
            if RANGE not in item.metadata or value is None:
                continue
            lowest, highest = item.metadata[RANGE]
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
    """Removes the sound that is the same in both channels, and adds a band of it again in mono."""

    level: float = ranged(1.0, 0.0, 1.0, "The share of the common sound that is removed: 0 is none, 1 is all.")
    mono_level: float = ranged(1.0, 0.0, 1.0, "The share of the band that is given back: 0 is none, 1 is all.")
    filter_band: float = ranged(220.0, 1.0, 20_000.0, "The band's centre in Hz.")
    filter_width: float = ranged(100.0, 1.0, 20_000.0, "The band's width in Hz.")


@dataclass(frozen=True, slots=True)
class Timescale(Effect):
    """Speed and pitch of a track. Speed times rate also lies within 0.25 to 4."""

    speed: float = ranged(1.0, 0.25, 4.0, "Changes the tempo, not the pitch.")
    pitch: float = ranged(1.0, 0.25, 4.0, "Changes the pitch, not the tempo.")
    rate: float = ranged(1.0, 0.25, 4.0, "Changes tempo and pitch together, like the speed of a turntable.")

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
    """Raises and lowers the volume periodically."""

    frequency: float = ranged(2.0, 0.1, 20.0, "The periods per second, in Hz.")
    depth: float = ranged(0.5, 0.0, 1.0, "The strength: 0 has no effect, 1 goes down to silence.")

    @property
    def changes_nothing(self) -> bool:
        return self.depth == 0.0


@dataclass(frozen=True, slots=True)
class Vibrato(Effect):
    """Raises and lowers the pitch periodically."""

    frequency: float = ranged(2.0, 0.1, 14.0, "The periods per second, in Hz.")
    depth: float = ranged(0.5, 0.0, 1.0, "The strength: 0 has no effect.")

    @property
    def changes_nothing(self) -> bool:
        return self.depth == 0.0


@dataclass(frozen=True, slots=True)
class Rotation(Effect):
    """Moves the sound from side to side and back."""

    rotation_hz: float = ranged(
        0.0, -2.0, 2.0, "The periods per second, in Hz; a negative value begins at the other side."
    )

    @property
    def changes_nothing(self) -> bool:
        return self.rotation_hz == 0.0


@dataclass(frozen=True, slots=True)
class Distortion(Effect):
    """offset + scale · (sinOffset + sin(sinScale · x)) · (cosOffset + cos(…)) · (tanOffset + tan(…)), within ±1."""

    sin_offset: float = ranged(0.0, -100.0, 100.0, "Added to the sine.")
    sin_scale: float = ranged(1.0, -100.0, 100.0, "The factor for a sample before its sine is taken.")
    cos_offset: float = ranged(0.0, -100.0, 100.0, "Added to the cosine.")
    cos_scale: float = ranged(1.0, -100.0, 100.0, "The factor for a sample before its cosine is taken.")
    tan_offset: float = ranged(0.0, -100.0, 100.0, "Added to the tangent.")
    tan_scale: float = ranged(1.0, -100.0, 100.0, "The factor for a sample before its tangent is taken.")
    offset: float = ranged(0.0, -100.0, 100.0, "Added to the product.")
    scale: float = ranged(1.0, -100.0, 100.0, "The factor for the product.")

    @property
    def changes_nothing(self) -> bool:
        return self == Distortion()


@dataclass(frozen=True, slots=True)
class ChannelMix(Effect):
    """The share of each input channel in each output channel."""

    left_to_left: float = ranged(1.0, 0.0, 1.0, "The linear gain from left to left.")
    left_to_right: float = ranged(0.0, 0.0, 1.0, "The linear gain from left to right.")
    right_to_left: float = ranged(0.0, 0.0, 1.0, "The linear gain from right to left.")
    right_to_right: float = ranged(1.0, 0.0, 1.0, "The linear gain from right to right.")

    @property
    def changes_nothing(self) -> bool:
        return self == ChannelMix()


@dataclass(frozen=True, slots=True)
class LowPass(Effect):
    """Removes high frequencies: by `smoothing`, as in Lavalink, or above `frequencyHz`."""

    # Smoothing is y += (x - y) / smoothing for each sample, 6 dB per octave. It applies if the frequency is None.
    smoothing: float = ranged(20.0, 1.0, 1000.0, "Lavalink's number; 1 changes nothing.")
    frequency_hz: float | None = ranged(None, 10.0, 20_000.0, "The cutoff (-3 dB) in Hz; 12 dB per octave.")

    @property
    def changes_nothing(self) -> bool:
        return self.frequency_hz is None and self.smoothing == 1.0


@dataclass(frozen=True, slots=True)
class HighPass(Effect):
    """Removes low frequencies."""

    frequency_hz: float = ranged(80.0, 10.0, 20_000.0, "The cutoff (-3 dB) in Hz; 12 dB per octave.")


@dataclass(frozen=True, slots=True)
class Echo(Effect):
    """y = x + mix · e, where e[n] = x[n - d] + decay · e[n - d]."""

    delay_ms: float = ranged(300.0, 1.0, 2000.0, "d: the delay of the echo, in ms.")
    decay: float = ranged(0.4, 0.0, 0.9, "The linear gain from each echo to the next.")
    mix: float = ranged(0.4, 0.0, 1.0, "The linear gain of the echoes; the sound itself has 1.")


@dataclass(frozen=True, slots=True)
class Compressor(Effect):
    """Lowers sound above a threshold. It detects peaks, has a hard knee, and treats both channels together."""

    threshold_db: float = ranged(-20.0, -60.0, 0.0, "The threshold in dBFS.")
    ratio: float = ranged(4.0, 1.0, 20.0, "The ratio: this many dB above the threshold become 1 dB.")
    attack_ms: float = ranged(5.0, 0.1, 500.0, "The attack time in ms.")
    release_ms: float = ranged(100.0, 5.0, 5000.0, "The release time in ms.")
    makeup_db: float = ranged(0.0, 0.0, 24.0, "The gain of the result, in dB.")


NormalizationMode: TypeAlias = Literal["track", "off"]


@dataclass(frozen=True, slots=True)
class Normalization(Effect):
    """Brings each track to the same loudness, by its ReplayGain or R128 tags. A track without tags is measured while it
    plays."""

    target_lufs: float = ranged(-14.0, -30.0, -5.0, "The loudness of all tracks, in LUFS.")
    mode: NormalizationMode = field(default="track", metadata={MEANING: "`off` switches the effect off, as null does."})

    @property
    def changes_nothing(self) -> bool:
        return self.mode == "off"


LimiterSwitch: TypeAlias = Literal["auto"] | bool


@dataclass(frozen=True, slots=True)
class Limiter(Effect):
    """Keeps true peaks below the ceiling. It adds no delay."""

    ceiling_db: float = ranged(-1.0, -6.0, 0.0, "The highest true peak in dBFS.")
    enabled: LimiterSwitch = field(
        default="auto",
        metadata={MEANING: "`auto`: only while a compressor, normalization, overlay or crossfade is active."},
    )

    @property
    def changes_nothing(self) -> bool:
        """Of `auto` this is true, because it works only while something else changes the sound."""
        return self.enabled is not True


@dataclass(frozen=True, slots=True)
class Effects:
    """All effects of a player, in the order in which they are applied. None is off."""

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
        """The loudness to which normalization brings all tracks; None when it is off."""
        normalization = self.normalization
        return None if normalization is None or normalization.changes_nothing else normalization.target_lufs

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
        return 1.0 if self.timescale is None else self.timescale.position_rate


NO_EFFECTS: Final = Effects()

# The type of each field of `Effects`. Field names differ from the names in requests in their case only.
EFFECT_KINDS: Final[Mapping[str, type[Effect]]] = MappingProxyType(
    {item.name: get_args(item.type)[0] for item in fields(Effects)}
)


BAND_FREQUENCIES_HZ: Final = (25, 40, 63, 100, 160, 250, 400, 630, 1000, 1600, 2500, 4000, 6300, 10000, 16000)
BAND_Q: Final = 2.145
BAND_COUNT: Final = len(BAND_FREQUENCIES_HZ)
GAIN_MIN_DB: Final = -24.0
GAIN_MAX_DB: Final = 24.0
VOLUME_MAX: Final = 5.0
LAVALINK_GAIN_MIN: Final = -0.25
LAVALINK_GAIN_MAX: Final = 1.0


def db_of_lavalink_gain(gain: float) -> float:
    """The gain in dB of a band that has `gain` in Lavalink's equalizer, where its amplitude becomes 1 + 4 · gain.

    Silence (-0.25) is the lowest gain that a band has here. Raises BadRequest outside of Lavalink's range.
    """
    if not LAVALINK_GAIN_MIN <= gain <= LAVALINK_GAIN_MAX:  # NaN is in no range either
        raise BadRequest(f"gain {gain:g} is out of range; it is {LAVALINK_GAIN_MIN:g} to {LAVALINK_GAIN_MAX:g}.")
    factor = 1 + 4 * gain
    return max(GAIN_MIN_DB, 20 * math.log10(factor)) if factor else GAIN_MIN_DB


@dataclass(frozen=True, slots=True)
class Filters:
    """The sound settings of a player. `volume` is linear and comes after the equalizer.

    docs/interface/filters.md promises this curve. lavadsp's `VectorSupport.volume` multiplies by tan(0.79 · volume) up
    to 1.5 and by 1.64 · volume above (0.42 for 0.5, 3.28 for 2), and takes 0.98 to 1.02 for 1.
    """

    volume: float = 1.0
    gains_db: tuple[float, ...] = (0.0,) * BAND_COUNT
    effects: Effects = NO_EFFECTS

    @property
    def is_flat_equalizer(self) -> bool:
        return not any(self.gains_db)

    @property
    def has_effects(self) -> bool:
        return self.effects != NO_EFFECTS

    @property
    def changes_nothing(self) -> bool:
        """Whether samples pass through unchanged, bit for bit, while no overlay or crossfade is mixed in."""
        effects = (getattr(self.effects, name) for name in EFFECT_KINDS)
        is_unaffected = all(effect is None or effect.changes_nothing for effect in effects)
        return self.volume == 1.0 and self.is_flat_equalizer and is_unaffected


@dataclass(frozen=True, slots=True)
class FilterChange:
    """A change of the sound settings; a field that is None leaves its setting as it is.

    `gains` lists (band, gain in dB): listed bands are set, others stay, and an empty list makes the equalizer flat.
    `effects` has effects by the names of the fields of `Effects`: each replaces the one before, and None switches the
    effect off. `resets`: all settings are set to their defaults first.
    """

    volume: float | None = None
    gains: tuple[tuple[int, float], ...] | None = None
    effects: Mapping[str, Effect | None] = field(default_factory=dict)
    resets: bool = False

    def applied_to(self, filters: Filters) -> Filters:
        """`filters` after the change. Raises BadRequest, with nothing applied, when a value is out of its range."""
        if self.resets:
            filters = Filters()
        volume = filters.volume if self.volume is None else self._checked_volume(self.volume)
        filters = replace(filters, volume=volume, effects=self._changed_effects(filters.effects))
        if self.gains is None:
            return filters
        gains_db = list(filters.gains_db) if self.gains else [0.0] * BAND_COUNT
        for band, gain_db in self.gains:
            if not 0 <= band < BAND_COUNT:
                raise BadRequest(f"band {band} does not exist; bands are 0 to {BAND_COUNT - 1}.")
            if not GAIN_MIN_DB <= gain_db <= GAIN_MAX_DB:
                raise BadRequest(
                    f"gain_db {gain_db} of band {band} is out of range; it is {GAIN_MIN_DB:g} to {GAIN_MAX_DB:g}."
                )
            gains_db[band] = float(gain_db)
        return replace(filters, gains_db=tuple(gains_db))

    def _changed_effects(self, effects: Effects) -> Effects:
        changed: dict[str, Any] = {}
        for name, effect in self.effects.items():
            if effect is not None:
                assert isinstance(effect, EFFECT_KINDS[name])
                try:
                    effect.checked()
                except BadRequest as error:
                    raise BadRequest(f"{wire_name(name)}.{error}") from error
            changed[name] = effect
        return replace(effects, **changed) if changed else effects

    @staticmethod
    def _checked_volume(volume: float) -> float:
        if not 0 <= volume <= VOLUME_MAX:  # NaN is in no range either
            raise BadRequest(f"volume {volume} is out of range; it is 0 to {VOLUME_MAX:g}.")
        return float(volume)
