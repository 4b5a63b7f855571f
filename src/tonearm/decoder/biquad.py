"""Peaking biquads: one for each band of the equalizer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tonearm.core.filters import BAND_FREQUENCIES_HZ, BAND_Q
from tonearm.core.frame import SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True, eq=False)
class PeakingBiquads:
    """Coefficients of K sections y = b·x - a·y with a[0] = 1: both arrays are 3 by K, lowest band first."""

    b: NDArray[np.float64]
    a: NDArray[np.float64]

    @classmethod
    def of(cls, gains_db: tuple[float, ...]) -> "PeakingBiquads":
        """The sections of the bands whose gain is not 0; a band at 0 dB would be the identity.

        Formulas: Robert Bristow-Johnson, "Cookbook formulae for audio EQ biquad filter coefficients", peakingEQ.
        """
        gain_db = np.array(gains_db, dtype=np.float64)
        active = gain_db != 0.0
        omega = 2.0 * np.pi * np.array(BAND_FREQUENCIES_HZ, dtype=np.float64)[active] / SAMPLE_RATE_HZ
        amplitude = 10.0 ** (gain_db[active] / 40.0)
        alpha = np.sin(omega) / (2.0 * BAND_Q)
        middle = -2.0 * np.cos(omega)
        a0 = 1.0 + alpha / amplitude
        return cls(
            b=np.stack((1.0 + alpha * amplitude, middle, 1.0 - alpha * amplitude)) / a0,
            a=np.stack((a0, middle, 1.0 - alpha / amplitude)) / a0,
        )
