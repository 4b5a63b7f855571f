"""The sound between the samples: its highest point may lie there (ITU-R BS.1770-4, annex 2).

It is looked for at eight times the rate. Annex 2 asks for four; eight errs by 0.04 dB at a quarter of the sample rate
instead of 0.17.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS
from tonearm.decoding.worker.filters.blocks import Planes

OVERSAMPLING: Final = 8
TAPS: Final = 32  # samples on which a point between two of them depends, half on each side
HALF_TAPS: Final = TAPS // 2


def _interpolation() -> NDArray[np.float32]:
    """TAPS by OVERSAMPLING - 1: a windowed sinc for each point between two samples (Kaiser, beta 9)."""
    points = np.arange(1, OVERSAMPLING) / OVERSAMPLING
    distance = np.arange(-HALF_TAPS + 1, HALF_TAPS + 1)[:, np.newaxis] - points
    window = np.i0(9.0 * np.sqrt(np.maximum(0.0, 1.0 - (distance / HALF_TAPS) ** 2))) / np.i0(9.0)
    taps = np.sinc(distance) * window
    return np.asarray(taps / taps.sum(axis=0), dtype=np.float32)


INTERPOLATION: Final = _interpolation()


class TruePeakMeter:
    """Goes through a sound, which is preceded by silence."""

    def __init__(self) -> None:
        self._before: Planes = np.zeros((CHANNELS, TAPS - 1), dtype=np.float32)

    def highest(self, planes: Planes) -> float:
        """The highest true peak of the next samples, 2 by n, in their units. What lies between the last HALF_TAPS of
        them counts with the next."""
        joined = np.concatenate((self._before, planes), axis=1, dtype=np.float32)
        self._before = joined[:, -(TAPS - 1) :]
        windows = np.lib.stride_tricks.sliding_window_view(joined, TAPS, axis=1)
        between = np.ascontiguousarray(windows) @ INTERPOLATION
        return float(max(np.abs(planes).max(initial=0.0), np.abs(between).max(initial=0.0)))
