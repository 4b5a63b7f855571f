"""Low pass: lets the low frequencies through."""

from functools import lru_cache
from typing import Final

import numpy as np

from tonearm.core.effects import LowPass
from tonearm.worker.filters.modes import ModalFilter, butterworth

_CACHED_SETTINGS: Final = 16


@lru_cache(maxsize=_CACHED_SETTINGS)
def low_pass(setting: LowPass) -> ModalFilter:
    """By frequency a Butterworth section; else the recurrence y += (x - y) / smoothing.

    That is lavadsp's `LowPassConverter`, but for its first sample: there y begins with x after the start and each seek,
    here with silence, or with the sound before.
    """
    if setting.frequency_hz is None:
        share = 1.0 / setting.smoothing
        # y[n] = share · Σ (1 - share)^k · x[n-k]: one real pole, whose residue a mode counts twice.
        return ModalFilter.of(np.array([1.0 - share + 0j]), np.array([share / 2.0 + 0j]), share)
    return butterworth(setting.frequency_hz, passes_high=False).as_filter()
