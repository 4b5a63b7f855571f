"""The slow oscillator behind tremolo, vibrato and rotation."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_RATE_HZ

_FRAME_RAMP: Final = np.arange(FRAME_SAMPLES)


class Oscillator:
    """A sine of `frequency_hz`. Its phase, in turns from 0 to 1, is kept by the caller."""

    def __init__(self, frequency_hz: float) -> None:
        self._turns_a_sample = frequency_hz / SAMPLE_RATE_HZ

    def phases(self, phase: float, frames: int) -> tuple[float, ...]:
        """The phase after each of `frames` frames that begin at `phase`."""
        turns_a_frame = self._turns_a_sample * FRAME_SAMPLES
        phases = []
        for _ in range(frames):
            # Added up frame by frame, so that it does not matter where a sound is split into blocks.
            phase = (phase + turns_a_frame) % 1.0
            phases.append(phase)
        return tuple(phases)

    def values(self, phase: float, phases: tuple[float, ...]) -> NDArray[np.float32]:
        """The sine, -1 to 1, of the frames that begin at `phase` and end at each of `phases`."""
        starts = np.array((phase, *phases[:-1]))
        turns = starts[:, np.newaxis] + self._turns_a_sample * _FRAME_RAMP
        values: NDArray[np.float32] = np.sin((2.0 * np.pi) * turns.reshape(-1)).astype(np.float32)
        return values
