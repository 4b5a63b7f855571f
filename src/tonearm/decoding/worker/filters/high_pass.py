"""High pass: lets the high frequencies through."""

from functools import lru_cache
from typing import Final

import numpy as np

from tonearm.core.effects import HighPass
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.decoding.worker.filters.biquads import Biquads
from tonearm.decoding.worker.filters.modes import ModalFilter

_BUTTERWORTH_Q: Final = 2.0**-0.5
_CACHED_SETTINGS: Final = 16


@lru_cache(maxsize=_CACHED_SETTINGS)
def high_pass(setting: HighPass) -> ModalFilter:
    """The cookbook's HPF with Q 0.707.

    Formulas: Robert Bristow-Johnson, "Cookbook formulae for audio EQ biquad filter coefficients", HPF.
    """
    omega = 2.0 * np.pi * setting.frequency_hz / SAMPLE_RATE_HZ
    alpha, cosine = np.sin(omega) / (2.0 * _BUTTERWORTH_Q), np.cos(omega)
    a0 = 1.0 + alpha
    edge = (1.0 + cosine) / 2.0
    return Biquads(
        b=np.array([[edge], [-2.0 * edge], [edge]]) / a0, a=np.array([[a0], [-2.0 * cosine], [1.0 - alpha]]) / a0
    ).as_filter()
