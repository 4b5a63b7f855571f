"""The equalizer: a cascade of peaking biquads, one for each band that is not at 0 dB, as one block filter."""

from functools import lru_cache
from typing import Final

import numpy as np

from tonearm.core.filters import BAND_FREQUENCIES_HZ, BAND_Q
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.worker.filters.modes import Biquads, ModalFilter

# Players often share settings (a preset). Some 160 KB each with 5 bands, 520 at most.
_CACHED_SETTINGS: Final = 32


@lru_cache(maxsize=_CACHED_SETTINGS)
def equalizer(gains_db: tuple[float, ...]) -> ModalFilter:
    """The equalizer for a gain in dB for each band, of which at least one is not 0."""
    return peaking_biquads(gains_db).as_filter()


def peaking_biquads(gains_db: tuple[float, ...]) -> Biquads:
    """The sections of the bands whose gain is not 0; a band at 0 dB would be the identity.

    Formulas: Robert Bristow-Johnson, "Cookbook formulae for audio EQ biquad filter coefficients", peakingEQ. The
    poles are complex while 2·Q·10^(gain_db/40) > 1, which for Q = 2.145 means above -25.3 dB.

    The interface promises these. lavaplayer's `Equalizer` has band-passes at the same frequencies, of the same Q (above
    4 kHz less: 1.06 at 16 kHz), and adds them up: 1 + 4 · Σ gain · band-pass. At its frequency one band has the same
    level in both. Its bell is wider there when it boosts (1 dB at +6 dB, 4.5 at +14) and narrower when it cuts; a
    usual bass boost differs by 1.2 dB at most, neighbours with large gains of both signs by 10 dB and more.
    """
    gain_db = np.array(gains_db, dtype=np.float64)
    active = gain_db != 0.0
    omega = 2.0 * np.pi * np.array(BAND_FREQUENCIES_HZ, dtype=np.float64)[active] / SAMPLE_RATE_HZ
    amplitude = 10.0 ** (gain_db[active] / 40.0)
    alpha = np.sin(omega) / (2.0 * BAND_Q)
    middle = -2.0 * np.cos(omega)
    a0 = 1.0 + alpha / amplitude
    return Biquads(
        b=np.stack((1.0 + alpha * amplitude, middle, 1.0 - alpha * amplitude)) / a0,
        a=np.stack((a0, middle, 1.0 - alpha / amplitude)) / a0,
    )
