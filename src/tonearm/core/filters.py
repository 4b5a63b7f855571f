"""The sound settings of a player: volume, the 15 equalizer bands, and the effects."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tonearm.core.effects import EFFECT_KINDS, NO_EFFECTS, Effect, Effects, wire_name
from tonearm.core.errors import BadRequest

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

    docs/interface.md promises this curve. lavadsp's `VectorSupport.volume` multiplies by tan(0.79 · volume) up to 1.5
    and by 1.64 · volume above (0.42 for 0.5, 3.28 for 2), and takes 0.98 to 1.02 for 1.
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
        """Whether samples pass through unchanged, bit for bit."""
        return self.volume == 1.0 and self.is_flat_equalizer and not self.has_effects


@dataclass(frozen=True, slots=True)
class FilterChange:
    """A change of the sound settings; a field that is None leaves its setting as it is.

    `gains` lists (band, gain in dB): listed bands are set, others stay, and an empty list makes the equalizer flat.
    `effects` has effects by the names of the fields of `Effects`: each replaces the one before, and None switches the
    effect off. `resets`: all settings take their defaults first.
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
