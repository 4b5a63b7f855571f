"""The slow oscillator behind tremolo, vibrato and rotation."""

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_RATE_HZ


class Oscillator:
    """A sine of `frequency_hz`. Its phase, in turns from 0 to 1, is kept by the caller."""

    def __init__(self, frequency_hz: float) -> None:
        turns_a_sample = frequency_hz / SAMPLE_RATE_HZ
        self._turns_a_frame = turns_a_sample * FRAME_SAMPLES
        # Sine and cosine of a frame that begins at phase 0. One at another phase is a sum of both (angle addition),
        # which takes a tenth of the time of as many sines.
        radians = 2.0 * np.pi * turns_a_sample * np.arange(FRAME_SAMPLES)
        self._frame = np.stack((np.cos(radians), np.sin(radians))).astype(np.float32)

    def phases(self, phase: float, frames: int) -> tuple[float, ...]:
        """The phase after each of `frames` frames that begin at `phase`."""
        phases = []
        for _ in range(frames):
            # Added up frame by frame, so that it does not matter where a sound is split into blocks.
            phase = (phase + self._turns_a_frame) % 1.0
            phases.append(phase)
        return tuple(phases)

    def values(self, phase: float, phases: tuple[float, ...]) -> NDArray[np.float32]:
        """The sine, -1 to 1, of the frames that begin at `phase` and end at each of `phases`."""
        radians = 2.0 * np.pi * np.array((phase, *phases[:-1]))
        starts = np.stack((np.sin(radians), np.cos(radians)), axis=1).astype(np.float32)
        values: NDArray[np.float32] = (starts @ self._frame).reshape(-1)
        return values
