"""Volume and the 15 equalizer bands: values and their limits."""

from dataclasses import dataclass
from typing import Final

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

    @property
    def is_flat_equalizer(self) -> bool:
        return not any(self.gains_db)

    @property
    def changes_nothing(self) -> bool:
        """True when samples pass bit for bit."""
        return self.volume == 1.0 and self.is_flat_equalizer
