"""Rotation: the sound wanders from side to side."""

from collections.abc import Sequence

import numpy as np

from tonearm.core.effects import Rotation
from tonearm.worker.filters.blocks import Planes, State, frames_in
from tonearm.worker.filters.oscillator import Oscillator


class RotationKernel:
    """Left by (1 + sin) / 2, right by (1 - sin) / 2, as lavadsp's `VectorSupport.rotation` has it.

    The state is the phase in turns.

    So both are at half to begin with. With 0 Hz lavadsp leaves them there when another filter is on, and Lavalink
    leaves the effect out when none is; here 0 Hz is off.
    """

    def __init__(self, setting: Rotation) -> None:
        self._oscillator = Oscillator(setting.rotation_hz)

    def silence(self) -> State:
        return 0.0

    def process(self, planes: Planes, state: State) -> tuple[Planes, Sequence[State]]:
        phases = self._oscillator.phases(state, frames_in(planes))
        half = self._oscillator.values(state, phases)
        half *= 0.5
        return planes * np.stack((0.5 + half, 0.5 - half)), phases
