"""Vibrato: the pitch goes up and down, because the sound goes through a delay that grows and shrinks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tonearm.core.effects import Vibrato
from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.worker.filters.blocks import Planes, State, frames_in
from tonearm.worker.filters.oscillator import Oscillator

# `BASE_DELAY_SEC` and `ADDITIONAL_DELAY` of lavadsp's `VibratoConverter`: at depth 1 the delay swings between 3 samples
# and 2 ms more.
_SWING_SAMPLES: Final = 0.002 * SAMPLE_RATE_HZ
_LEAST_DELAY_SAMPLES: Final = 3
_MARGIN_SAMPLES: Final = 2  # the interpolation looks this far around a place
_TAIL_SAMPLES: Final = int(_SWING_SAMPLES) + _LEAST_DELAY_SAMPLES + _MARGIN_SAMPLES + 1


@dataclass(frozen=True, slots=True, eq=False)
class _Memory:
    """The oscillator's phase in turns, and the sound just before, 2 by _TAIL_SAMPLES."""

    phase: float
    tail: Planes


class VibratoKernel:
    """The delay is 3 + depth · 96 · (1 + sin) / 2 samples; what lies between samples is read by Catmull-Rom (cubic
    Hermite) interpolation. Both are lavadsp's: `VibratoConverter.process` and its `RingBuffer.getHermiteAt`.
    """

    def __init__(self, setting: Vibrato) -> None:
        self._swing_samples = setting.depth * _SWING_SAMPLES
        self._oscillator = Oscillator(setting.frequency)

    def silence(self) -> State:
        return _Memory(0.0, np.zeros((CHANNELS, _TAIL_SAMPLES), dtype=np.float32))

    def process(self, planes: Planes, state: State) -> tuple[Planes, Sequence[State]]:
        assert isinstance(state, _Memory)
        frames = frames_in(planes)
        phases = self._oscillator.phases(state.phase, frames)
        delay = self._oscillator.values(state.phase, phases)
        delay += 1.0
        delay *= self._swing_samples / 2.0
        delay += _LEAST_DELAY_SAMPLES

        sound = np.concatenate((state.tail, planes), axis=1)
        whole = delay.astype(np.intp)
        # Between samples `at - 1` and `at` of the sound, `share` of the way back from `at`.
        at = np.arange(_TAIL_SAMPLES, _TAIL_SAMPLES + planes.shape[1]) - whole
        share = delay - whole.astype(np.float32)
        newer, here, older, oldest = (sound.take(at + shift, axis=1) for shift in (1, 0, -1, -2))
        slope = 0.5 * (older - newer)
        bend = newer - 2.5 * here + 2.0 * older - 0.5 * oldest
        curve = 0.5 * (oldest - newer) + 1.5 * (here - older)
        read = ((curve * share + bend) * share + slope) * share + here

        ends = (_TAIL_SAMPLES + FRAME_SAMPLES * (index + 1) for index in range(frames))
        # Copies: a view would keep the whole block in memory.
        tails = (sound[:, end - _TAIL_SAMPLES : end].copy() for end in ends)
        return read, tuple(_Memory(phase, tail) for phase, tail in zip(phases, tails, strict=True))
