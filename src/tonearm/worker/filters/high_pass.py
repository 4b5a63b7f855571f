"""High pass: lets the high frequencies through."""

from functools import lru_cache
from typing import Final

from tonearm.core.effects import HighPass
from tonearm.worker.filters.modes import ModalFilter, butterworth

_CACHED_SETTINGS: Final = 16


@lru_cache(maxsize=_CACHED_SETTINGS)
def high_pass(setting: HighPass) -> ModalFilter:
    """A Butterworth section that is 3 dB down at its corner."""
    return butterworth(setting.frequency_hz, passes_high=True).as_filter()
