"""Filters that store no earlier samples: channel mix, distortion and compressor."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tonearm.core.filters import ChannelMix, Compressor, Distortion
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.worker.filters.blocks import FULL_SCALE, FilterState, Planes


class _Stateless:
    def silence(self) -> FilterState:
        return None

    def process(self, planes: Planes, state: FilterState) -> tuple[Planes, FilterState]:
        return self._shaped(planes), None

    def _shaped(self, planes: Planes) -> Planes:
        raise NotImplementedError


class ChannelMixKernel(_Stateless):
    """A 2 by 2 matrix on each pair of samples: left is left_to_left · left + right_to_left · right.

    Like lavadsp's `VectorSupport.channelMix`, which also clips each result to full scale at once. Here the clipping
    happens after the last filter, so a lower volume avoids it.
    """

    def __init__(self, setting: ChannelMix) -> None:
        self._matrix = np.array(
            ((setting.left_to_left, setting.right_to_left), (setting.left_to_right, setting.right_to_right)),
            dtype=np.float32,
        )

    def _shaped(self, planes: Planes) -> Planes:
        mixed: Planes = self._matrix @ planes
        return mixed


class DistortionKernel(_Stateless):
    """The curve of lavadsp's `DistortionConverter`, clipped to full scale as there. Full scale is 1 in the curve.

    With the default settings lavadsp's curve is sin · cos · tan when another filter is on, and Lavalink skips the
    effect when none is. Here the defaults turn the effect off.
    """

    def __init__(self, setting: Distortion) -> None:
        self._setting = setting

    def _shaped(self, planes: Planes) -> Planes:
        setting = self._setting
        x = planes * (1.0 / FULL_SCALE)
        curve: Planes = setting.sin_offset + np.sin(setting.sin_scale * x)
        curve *= setting.cos_offset + np.cos(setting.cos_scale * x)
        curve *= setting.tan_offset + np.tan(setting.tan_scale * x)
        curve *= setting.scale
        curve += setting.offset
        # The tangent has poles: its value there may be infinite or NaN, which a later filter could not process.
        np.nan_to_num(curve, copy=False)
        np.clip(curve, -1.0, 1.0, out=curve)
        curve *= FULL_SCALE
        return curve


COMPRESSOR_STEP_SAMPLES: Final = 16
_STEP_MS: Final = 1000.0 * COMPRESSOR_STEP_SAMPLES / SAMPLE_RATE_HZ
# The position of each sample within its step, as a share; the last sample is at the step's end.
_STEP_SHARES: Final = np.arange(1, COMPRESSOR_STEP_SAMPLES + 1) / COMPRESSOR_STEP_SAMPLES
_SILENCE_DB: Final = -120.0


@dataclass(frozen=True, slots=True)
class _CompressorMemory:
    """`held_db`: the peak-held excess, which rises at once and falls slowly. `reduction_db`: the reduction applied."""

    held_db: float
    reduction_db: float


class CompressorKernel:
    """Lowers sound above a threshold, by a smooth, decoupled peak detector in decibels.

    The level is measured every COMPRESSOR_STEP_SAMPLES, as the highest peak of both channels. The gain is interpolated
    linearly in between. So the loop in Python has only sixty steps a frame.

    Source: Giannoulis, Massberg, Reiss, "Digital dynamic range compressor design", J. Audio Eng. Soc. 60 (2012),
    section 2.3: the release holds the peaks, then the attack smooths the held level.
    """

    def __init__(self, setting: Compressor) -> None:
        self._threshold_db = setting.threshold_db
        self._slope = 1.0 - 1.0 / setting.ratio
        self._makeup_db = setting.makeup_db
        self._attack = math.exp(-_STEP_MS / setting.attack_ms)
        self._release = math.exp(-_STEP_MS / setting.release_ms)

    def silence(self) -> FilterState:
        return _CompressorMemory(0.0, 0.0)

    def process(self, planes: Planes, state: FilterState) -> tuple[Planes, FilterState]:
        assert isinstance(state, _CompressorMemory)
        peaks = np.abs(planes).max(axis=0).reshape(-1, COMPRESSOR_STEP_SAMPLES).max(axis=1) / FULL_SCALE
        levels_db = 20.0 * np.log10(np.maximum(peaks, 10.0 ** (_SILENCE_DB / 20.0)))
        excess_db: list[float] = (np.maximum(levels_db - self._threshold_db, 0.0) * self._slope).tolist()

        held_db, reduction_db = state.held_db, state.reduction_db
        attack, release = self._attack, self._release
        reductions_db = [reduction_db]
        for wanted_db in excess_db:
            held_db = max(wanted_db, release * held_db + (1.0 - release) * wanted_db)
            reduction_db = attack * reduction_db + (1.0 - attack) * held_db
            reductions_db.append(reduction_db)

        gains = np.power(10.0, (self._makeup_db - np.array(reductions_db)) / 20.0)
        gain = gains[:-1, np.newaxis] + np.diff(gains)[:, np.newaxis] * _STEP_SHARES
        return planes * gain.astype(np.float32).reshape(-1), _CompressorMemory(held_db, reduction_db)
