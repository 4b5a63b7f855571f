"""Volume and the 15 equalizer bands: values and their limits."""

from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.effects import NO_EFFECTS, Effects
from tonearm.core.errors import BadRequest

BAND_FREQUENCIES_HZ: Final = (25, 40, 63, 100, 160, 250, 400, 630, 1000, 1600, 2500, 4000, 6300, 10000, 16000)
BAND_Q: Final = 2.145
BAND_COUNT: Final = len(BAND_FREQUENCIES_HZ)
GAIN_MIN_DB: Final = -24.0
GAIN_MAX_DB: Final = 24.0
VOLUME_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Filters:
    """The sound settings of a player. `volume` is linear and comes after the equalizer."""

    volume: float = 1.0
    gains_db: tuple[float, ...] = (0.0,) * BAND_COUNT
    effects: Effects = NO_EFFECTS

    @property
    def is_flat_equalizer(self) -> bool:
        return not any(self.gains_db)

    @property
    def changes_nothing(self) -> bool:
        """True when samples pass bit for bit."""
        return self.volume == 1.0 and self.is_flat_equalizer and self.effects == NO_EFFECTS


@dataclass(frozen=True, slots=True)
class FilterChange:
    """A change of the sound settings; None leaves them as they are.

    `gains` lists (band, gain in dB): listed bands are set, others stay, and an empty list makes the equalizer flat.
    """

    volume: float | None = None
    gains: tuple[tuple[int, float], ...] | None = None

    def applied_to(self, filters: Filters) -> Filters:
        """`filters` after the change. Raises BadRequest, with nothing applied, when a value is out of its range."""
        volume = filters.volume if self.volume is None else self._checked_volume(self.volume)
        if self.gains is None:
            return replace(filters, volume=volume)
        gains_db = list(filters.gains_db) if self.gains else [0.0] * BAND_COUNT
        for band, gain_db in self.gains:
            if not 0 <= band < BAND_COUNT:
                raise BadRequest(f"band {band} does not exist; bands are 0 to {BAND_COUNT - 1}.")
            if not GAIN_MIN_DB <= gain_db <= GAIN_MAX_DB:
                raise BadRequest(
                    f"gain_db {gain_db} of band {band} is out of range; it is {GAIN_MIN_DB:g} to {GAIN_MAX_DB:g}."
                )
            gains_db[band] = float(gain_db)
        return replace(filters, volume=volume, gains_db=tuple(gains_db))

    @staticmethod
    def _checked_volume(volume: float) -> float:
        if not 0 <= volume <= VOLUME_MAX:  # NaN is in no range either
            raise BadRequest(f"volume {volume} is out of range; it is 0 to {VOLUME_MAX:g}.")
        return float(volume)
