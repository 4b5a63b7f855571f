"""Peak levels of PCM, and bars that show them."""

import math
from typing import Final

import numpy as np

from tonearm.core.frame import CHANNELS

SILENCE_DB: Final = -60.0
_FULL_SCALE: Final = 32768


class PeakMeter:
    """Keeps the highest sample of each channel until it is taken."""

    def __init__(self) -> None:
        self._peaks = [0] * CHANNELS

    def add(self, pcm: bytes) -> None:
        """`pcm`: interleaved s16le, whole sample blocks."""
        # 16 bits cannot hold the absolute value of -32768.
        samples = np.abs(np.frombuffer(pcm, dtype="<i2").astype(np.int32)).reshape(-1, CHANNELS)
        if samples.size:
            self._peaks = [max(old, int(new)) for old, new in zip(self._peaks, samples.max(axis=0), strict=True)]

    def take_db(self) -> tuple[float, ...]:
        """Each channel's peak since the last call, in dB of full scale, at least `SILENCE_DB`."""
        peaks, self._peaks = self._peaks, [0] * CHANNELS
        return tuple(_db(peak) for peak in peaks)


def bar(level_db: float, width: int, full: str, empty: str) -> str:
    """A bar of `width` characters: empty at `SILENCE_DB`, full at 0 dB."""
    filled = round(width * (1 - min(max(level_db / SILENCE_DB, 0.0), 1.0)))
    return full * filled + empty * (width - filled)


def _db(peak: int) -> float:
    return max(20 * math.log10(peak / _FULL_SCALE), SILENCE_DB) if peak else SILENCE_DB
