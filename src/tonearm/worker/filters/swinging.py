"""Filters with a low-frequency oscillator: tremolo (loudness), rotation (left and right) and vibrato (pitch)."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonearm.core.filters import Rotation, Tremolo, Vibrato
from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.worker.filters.blocks import FilterState, Planes

# `BASE_DELAY_SEC` and `ADDITIONAL_DELAY` of lavadsp's `VibratoConverter`: at depth 1 the delay swings between 3 samples
# and 2 ms more.
_SWING_SAMPLES: Final = 0.002 * SAMPLE_RATE_HZ
_LEAST_DELAY_SAMPLES: Final = 3
_MARGIN_SAMPLES: Final = 2  # the interpolation reads this far around a position
_DELAY_LINE_SAMPLES: Final = int(_SWING_SAMPLES) + _LEAST_DELAY_SAMPLES + _MARGIN_SAMPLES + 1


class _Oscillator:
    """A sine of `frequency_hz`. The caller keeps its phase, in cycles from 0 to 1."""

    def __init__(self, frequency_hz: float) -> None:
        cycles_a_sample = frequency_hz / SAMPLE_RATE_HZ
        self._cycles_a_frame = cycles_a_sample * FRAME_SAMPLES
        # Sine and cosine of a frame that begins at phase 0. A frame at another phase is a sum of both (angle addition),
        # which takes a tenth of the time of computing its sines.
        radians = 2.0 * np.pi * cycles_a_sample * np.arange(FRAME_SAMPLES)
        self._frame = np.stack((np.cos(radians), np.sin(radians))).astype(np.float32)

    def values(self, phase: float, planes: Planes) -> tuple[NDArray[np.float32], float]:
        """The sine, from -1 to 1, for whole frames that begin at `phase`, and the phase after them."""
        phases = []
        for _ in range(planes.shape[1] // FRAME_SAMPLES):
            phases.append(phase)
            # Summed frame by frame, so that the result does not depend on how a sound is split into blocks.
            phase = (phase + self._cycles_a_frame) % 1.0
        radians = 2.0 * np.pi * np.array(phases)
        starts = np.stack((np.sin(radians), np.cos(radians)), axis=1).astype(np.float32)
        values: NDArray[np.float32] = (starts @ self._frame).reshape(-1)
        return values, phase


class TremoloKernel:
    """Factor 1 - depth / 2 + depth / 2 · sin, between 1 - depth and 1. The state is the phase in cycles.

    The same as in lavadsp: its `TremoloPcmAudioFilter.setDepth` halves the value that `VectorSupport.tremolo` calls
    depth.
    """

    def __init__(self, setting: Tremolo) -> None:
        self._swing = setting.depth / 2.0
        self._oscillator = _Oscillator(setting.frequency)

    def silence(self) -> FilterState:
        return 0.0

    def process(self, planes: Planes, state: FilterState) -> tuple[Planes, FilterState]:
        factors, phase = self._oscillator.values(state, planes)
        factors *= self._swing
        factors += 1.0 - self._swing
        return planes * factors, phase


class RotationKernel:
    """Multiplies left by (1 + sin) / 2 and right by (1 - sin) / 2, like lavadsp's `VectorSupport.rotation`.

    The state is the phase in cycles.

    Both factors begin at one half. At 0 Hz lavadsp keeps them there when another filter is on, and Lavalink skips the
    effect when none is. Here 0 Hz turns the effect off.
    """

    def __init__(self, setting: Rotation) -> None:
        self._oscillator = _Oscillator(setting.rotation_hz)

    def silence(self) -> FilterState:
        return 0.0

    def process(self, planes: Planes, state: FilterState) -> tuple[Planes, FilterState]:
        half, phase = self._oscillator.values(state, planes)
        half *= 0.5
        return planes * np.stack((0.5 + half, 0.5 - half)), phase


@dataclass(frozen=True, slots=True, eq=False)
class _VibratoMemory:
    """The oscillator's phase in cycles, and the sound just before, 2 by _DELAY_LINE_SAMPLES."""

    phase: float
    delay_line: Planes


class VibratoKernel:
    """A delay of 3 + depth · 96 · (1 + sin) / 2 samples, read between samples by Catmull-Rom (cubic Hermite)
    interpolation. Both are lavadsp's: `VibratoConverter.process` and its `RingBuffer.getHermiteAt`.
    """

    def __init__(self, setting: Vibrato) -> None:
        self._swing_samples = setting.depth * _SWING_SAMPLES
        self._oscillator = _Oscillator(setting.frequency)

    def silence(self) -> FilterState:
        return _VibratoMemory(0.0, np.zeros((CHANNELS, _DELAY_LINE_SAMPLES), dtype=np.float32))

    def process(self, planes: Planes, state: FilterState) -> tuple[Planes, FilterState]:
        assert isinstance(state, _VibratoMemory)
        delay, phase = self._oscillator.values(state.phase, planes)
        delay += 1.0
        delay *= self._swing_samples / 2.0
        delay += _LEAST_DELAY_SAMPLES

        sound = np.concatenate((state.delay_line, planes), axis=1)
        whole = delay.astype(np.intp)
        # Between samples `at - 1` and `at` of the sound, `share` of the way back from `at`.
        at = np.arange(_DELAY_LINE_SAMPLES, _DELAY_LINE_SAMPLES + planes.shape[1]) - whole
        share = delay - whole.astype(np.float32)
        newer, here, older, oldest = (sound.take(at + shift, axis=1) for shift in (1, 0, -1, -2))
        slope = 0.5 * (older - newer)
        bend = newer - 2.5 * here + 2.0 * older - 0.5 * oldest
        curve = 0.5 * (oldest - newer) + 1.5 * (here - older)
        read = ((curve * share + bend) * share + slope) * share + here

        # A copy, since a view would keep the whole block in memory.
        return read, _VibratoMemory(phase, sound[:, -_DELAY_LINE_SAMPLES:].copy())
