"""The equalizer in the plainest form there is, sample by sample: what the fast one is compared with."""

import math

import numpy as np
from numpy.typing import NDArray

from tonearm.core.filters import BAND_FREQUENCIES_HZ


def equalized_plainly(mono: NDArray[np.int64], gains_db: tuple[float, ...]) -> NDArray[np.float64]:
    """One channel through a direct form I biquad a band, coefficients straight from the cookbook's peakingEQ."""
    sound = [float(sample) for sample in mono]
    for frequency_hz, gain_db in zip(BAND_FREQUENCIES_HZ, gains_db, strict=True):
        if gain_db:
            sound = _peaking(sound, frequency_hz, gain_db)
    return np.array(sound)


def _peaking(sound: list[float], frequency_hz: float, gain_db: float) -> list[float]:
    omega = 2.0 * math.pi * frequency_hz / 48_000
    alpha = math.sin(omega) / (2.0 * 2.145)
    amplitude = math.sqrt(10.0 ** (gain_db / 20.0))
    b0, b1, b2 = 1.0 + alpha * amplitude, -2.0 * math.cos(omega), 1.0 - alpha * amplitude
    a0, a1, a2 = 1.0 + alpha / amplitude, -2.0 * math.cos(omega), 1.0 - alpha / amplitude
    x1 = x2 = y1 = y2 = 0.0
    result = []
    for x in sound:
        y = (b0 * x + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2) / a0
        x2, x1, y2, y1 = x1, x, y1, y
        result.append(y)
    return result
