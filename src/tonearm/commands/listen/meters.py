"""How loud it is, measured from the frames that come: sample peaks, true peak (dBTP), loudness by EBU R128 (LUFS)."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tonearm.core.frame import CHANNELS
from tonearm.worker.filters.blocks import FULL_SCALE
from tonearm.worker.filters.loudness import Meter, TruePeakMeter

SILENCE_DB: Final = -60.0  # where the bars begin


@dataclass(frozen=True, slots=True)
class Levels:
    """`peaks_db`: each channel's highest sample in dB of full scale, at least SILENCE_DB. `true_peak_db`, in dBTP, is
    the highest point of the curve through the samples of both channels; `momentary_lufs` the loudness of the last
    400 ms. These two are -inf for silence and where nothing was heard."""

    peaks_db: tuple[float, ...] = (SILENCE_DB,) * CHANNELS
    true_peak_db: float = -math.inf
    momentary_lufs: float = -math.inf


class Meters:
    """Measures what is heard. Pauses do not count."""

    def __init__(self) -> None:
        self._loudness = Meter.fresh()
        self._true_peaks = TruePeakMeter()
        self._peaks = [0.0] * CHANNELS
        self._true_peak = 0.0
        self._highest = 0.0
        self._has_heard = False

    def add(self, pcm: bytes) -> None:
        """`pcm`: one or more whole frames."""
        planes = np.frombuffer(pcm, dtype="<i2").reshape(-1, CHANNELS).T.astype(np.float32)
        self._has_heard = True
        self._peaks = np.maximum(self._peaks, np.abs(planes).max(axis=1)).tolist()
        self._true_peak = max(self._true_peak, self._true_peaks.highest(planes))
        self._highest = max(self._highest, self._true_peak)
        self._loudness = self._loudness.fed(planes)

    def take(self) -> Levels:
        """The levels since the last call."""
        if not self._has_heard:
            return Levels()
        peaks, true_peak = self._peaks, self._true_peak
        self._peaks, self._true_peak, self._has_heard = [0.0] * CHANNELS, 0.0, False
        peaks_db = tuple(max(_db(peak), SILENCE_DB) for peak in peaks)
        return Levels(peaks_db, _db(true_peak), self._loudness.momentary_lufs)

    @property
    def integrated_lufs(self) -> float:
        """The loudness of all that was heard; -inf for silence."""
        return self._loudness.integrated_lufs

    @property
    def highest_true_peak_db(self) -> float:
        """In all that was heard, in dBTP; -inf for silence."""
        return _db(self._highest)


def _db(peak: float) -> float:
    return 20 * math.log10(peak / FULL_SCALE) if peak else -math.inf
