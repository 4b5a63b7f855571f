"""Measures loudness and true peak by EBU R128 (ITU-R BS.1770-4), and computes the gain that brings a playing sound to a
target.

Loudness is measured every METER_STEP_MS, on the last 400 ms (momentary). The integrated loudness covers all 400 ms
blocks except silent blocks (below -70 LUFS) and quiet blocks (10 LU below the mean of the others). Blocks are counted
in classes of 0.1 LU, so hours take no more memory than seconds; the error is below 0.05 LU.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, FRAME_MS, FRAME_SAMPLES
from tonearm.worker.filters.blocks import FULL_SCALE, FilterState, Planes
from tonearm.worker.filters.modes import ModalFilter, cascade

METER_STEP_MS: Final = 100
_METER_STEP_FRAMES: Final = METER_STEP_MS // FRAME_MS
_BLOCK_STEPS: Final = 400 // METER_STEP_MS

_OFFSET_LUFS: Final = -0.691  # BS.1770: so that 997 Hz at 0 dBFS in one channel reads -3.01
_SILENT_LUFS: Final = -70.0
_RELATIVE_GATE_LU: Final = -10.0
_CLASSES_PER_LU: Final = 10
_CLASSES: Final = 100 * _CLASSES_PER_LU  # -70 to +30 LUFS

OVERSAMPLING: Final = 8
TAPS: Final = 32  # samples that a point between two samples depends on, half on each side
HALF_TAPS: Final = TAPS // 2

# Limits for the gain of a track without loudness tags.
KNOWN_AFTER_MS: Final = 3_000  # the gain does not rise before this much was measured
MOST_DB_PER_SECOND: Final = 1.0
MOST_NORMALIZATION_DB: Final = 12.0
_LEAST_GAIN_DB: Final = -40.0


@cache
def k_weighting() -> ModalFilter:
    """The filter before the measurement: BS.1770-4, tables 1 and 2, for 48 kHz."""
    return cascade(
        b=np.array([[1.53512485958697, 1.0], [-2.69169618940638, -2.0], [1.19839281085285, 1.0]]),
        a=np.array([[1.0, 1.0], [-1.69065929318241, -1.99004745483398], [0.73248077421585, 0.99007225036621]]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Meter:
    """The measurement of a track so far. An immutable value: `fed` returns the next meter."""

    filter_state: FilterState
    step_energy: float = 0.0  # of the step that is not complete yet
    step_frames: int = 0
    recent: tuple[float, ...] = ()  # mean squares of the last complete steps, at most four, oldest first
    classes: "tuple[int, ...] | None" = None  # how many 400 ms blocks fell into each class
    measured_ms: int = 0

    @classmethod
    def fresh(cls) -> "Meter":
        return cls(k_weighting().silence())

    @classmethod
    def resumed(cls, lufs: float, measured_ms: int) -> "Meter":
        """A meter as if `measured_ms` of sound had been measured, all at this loudness."""
        meter = cls.fresh()
        if lufs < _SILENT_LUFS:
            return replace(meter, measured_ms=measured_ms)
        number = min(int((lufs - _SILENT_LUFS) * _CLASSES_PER_LU), _CLASSES - 1)
        blocks = measured_ms // METER_STEP_MS
        classes = (*(0,) * number, blocks, *(0,) * (_CLASSES - 1 - number)) if blocks else None
        return replace(meter, classes=classes, measured_ms=measured_ms)

    def fed(self, planes: Planes) -> "Meter":
        """The meter after a further block of whole frames, 2 by n in 16-bit units."""
        weighted, filter_state = k_weighting().process(planes, self.filter_state)
        frames = weighted.T.reshape(-1, FRAME_SAMPLES * CHANNELS) / FULL_SCALE
        energies: list[float] = (np.square(frames).mean(axis=1) * CHANNELS).tolist()
        meter = replace(self, filter_state=filter_state, measured_ms=self.measured_ms + len(energies) * FRAME_MS)
        for energy in energies:
            meter = meter._with_frame(energy)
        return meter

    @property
    def momentary_lufs(self) -> float:
        """The loudness of the last 400 ms. It is -inf for silence, and before 400 ms were measured."""
        return _lufs(sum(self.recent) / _BLOCK_STEPS) if len(self.recent) == _BLOCK_STEPS else -math.inf

    @property
    def integrated_lufs(self) -> float:
        """The loudness of all sound so far. It is -inf when there was only silence."""
        if self.classes is None:
            return -math.inf
        counts = np.array(self.classes)
        energies = _class_energies()
        total = counts.sum()
        gate = _lufs(float(counts @ energies) / total) + _RELATIVE_GATE_LU
        first = max(0, math.ceil((gate - _SILENT_LUFS) * _CLASSES_PER_LU - 0.5))
        return _lufs(float(counts[first:] @ energies[first:]) / counts[first:].sum())

    def _with_frame(self, energy: float) -> "Meter":
        step_energy, step_frames = self.step_energy + energy, self.step_frames + 1
        if step_frames < _METER_STEP_FRAMES:
            return replace(self, step_energy=step_energy, step_frames=step_frames)
        recent = (*self.recent, step_energy / _METER_STEP_FRAMES)[-_BLOCK_STEPS:]
        return replace(self, step_energy=0.0, step_frames=0, recent=recent, classes=self._counting(recent))

    def _counting(self, recent: tuple[float, ...]) -> tuple[int, ...] | None:
        if len(recent) < _BLOCK_STEPS:
            return self.classes
        lufs = _lufs(sum(recent) / _BLOCK_STEPS)
        if lufs < _SILENT_LUFS:
            return self.classes
        number = min(int((lufs - _SILENT_LUFS) * _CLASSES_PER_LU), _CLASSES - 1)
        classes = self.classes or (0,) * _CLASSES
        return (*classes[:number], classes[number] + 1, *classes[number + 1 :])


def next_gain_db(loudness_lufs: float, measured_ms: int, gain_db: float, target_lufs: float, step_ms: int) -> float:
    """The gain `step_ms` after a gain of `gain_db`, for a track whose first `measured_ms` have this loudness.

    The gain moves by at most MOST_DB_PER_SECOND, and does not rise before KNOWN_AFTER_MS were measured.
    """
    if loudness_lufs == -math.inf:
        return gain_db
    wanted_db = wanted_gain_db(loudness_lufs, target_lufs)
    if wanted_db > gain_db and measured_ms < KNOWN_AFTER_MS:
        return gain_db
    most = MOST_DB_PER_SECOND * step_ms / 1000
    return gain_db + min(max(wanted_db - gain_db, -most), most)


def wanted_gain_db(loudness_lufs: float, target_lufs: float) -> float:
    """The gain for a track of this loudness. Its upper limit keeps the noise of a silent track quiet."""
    return min(max(target_lufs - loudness_lufs, _LEAST_GAIN_DB), MOST_NORMALIZATION_DB)


def _lufs(mean_square: float) -> float:
    return _OFFSET_LUFS + 10.0 * math.log10(mean_square) if mean_square > 0.0 else -math.inf


@cache
def _class_energies() -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    lufs = _SILENT_LUFS + (np.arange(_CLASSES) + 0.5) / _CLASSES_PER_LU
    return np.asarray(np.power(10.0, (lufs - _OFFSET_LUFS) / 10.0))


def _interpolation() -> NDArray[np.float32]:
    """TAPS by OVERSAMPLING - 1: a windowed sinc for each point between two samples (Kaiser, beta 9)."""
    points = np.arange(1, OVERSAMPLING) / OVERSAMPLING
    distance = np.arange(-HALF_TAPS + 1, HALF_TAPS + 1)[:, np.newaxis] - points
    window = np.i0(9.0 * np.sqrt(np.maximum(0.0, 1.0 - (distance / HALF_TAPS) ** 2))) / np.i0(9.0)
    taps = np.sinc(distance) * window
    return np.asarray(taps / taps.sum(axis=0), dtype=np.float32)


INTERPOLATION: Final = _interpolation()


class TruePeakMeter:
    """The highest point of a sound, which may lie between its samples (ITU-R BS.1770-4, annex 2).

    Silence is assumed before the sound. The meter oversamples eight times. Annex 2 requires four; eight errs by 0.04 dB
    at a quarter of the sample rate instead of 0.17.
    """

    def __init__(self) -> None:
        self._before: Planes = np.zeros((CHANNELS, TAPS - 1), dtype=np.float32)

    def highest(self, planes: Planes) -> float:
        """The highest true peak of the next samples, 2 by n, in their units. Points between the last HALF_TAPS samples
        count with the next call."""
        joined = np.concatenate((self._before, planes), axis=1, dtype=np.float32)
        self._before = joined[:, -(TAPS - 1) :]
        windows = np.lib.stride_tricks.sliding_window_view(joined, TAPS, axis=1)
        between = np.ascontiguousarray(windows) @ INTERPOLATION
        return float(max(np.abs(planes).max(initial=0.0), np.abs(between).max(initial=0.0)))
