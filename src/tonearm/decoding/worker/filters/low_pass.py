"""Low pass: lets the low frequencies through."""

from functools import lru_cache
from typing import Final

import numpy as np

from tonearm.core.effects import LowPass
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.decoding.worker.filters.biquads import Biquads
from tonearm.decoding.worker.filters.modes import ModalFilter

_BUTTERWORTH_Q: Final = 2.0**-0.5
_CACHED_SETTINGS: Final = 16


@lru_cache(maxsize=_CACHED_SETTINGS)
def low_pass(setting: LowPass) -> ModalFilter:
    """By frequency the cookbook's LPF with Q 0.707; else Lavalink's recurrence y += (x - y) / smoothing.

    Formulas: Robert Bristow-Johnson, "Cookbook formulae for audio EQ biquad filter coefficients", LPF.
    """
    if setting.frequency_hz is None:
        share = 1.0 / setting.smoothing
        # y[n] = share · Σ (1 - share)^k · x[n-k]: one real pole, whose residue a mode counts twice.
        return ModalFilter.of(np.array([1.0 - share + 0j]), np.array([share / 2.0 + 0j]), share)
    omega = 2.0 * np.pi * setting.frequency_hz / SAMPLE_RATE_HZ
    alpha, cosine = np.sin(omega) / (2.0 * _BUTTERWORTH_Q), np.cos(omega)
    a0 = 1.0 + alpha
    edge = (1.0 - cosine) / 2.0
    return Biquads(
        b=np.array([[edge], [2.0 * edge], [edge]]) / a0, a=np.array([[a0], [-2.0 * cosine], [1.0 - alpha]]) / a0
    ).as_filter()
