"""Tremolo: the loudness goes up and down."""

from collections.abc import Sequence

from tonearm.core.effects import Tremolo
from tonearm.decoding.worker.filters.blocks import Planes, State, frames_in
from tonearm.decoding.worker.filters.oscillator import Oscillator


class TremoloKernel:
    """Factor 1 - depth + depth · sin, as lavadsp has it: 1 - 2 · depth to 1. The state is the phase in turns."""

    def __init__(self, setting: Tremolo) -> None:
        self._depth = setting.depth
        self._oscillator = Oscillator(setting.frequency)

    def silence(self) -> State:
        return 0.0

    def process(self, planes: Planes, state: State) -> tuple[Planes, Sequence[State]]:
        phases = self._oscillator.phases(state, frames_in(planes))
        factors = self._oscillator.values(state, phases)
        factors *= self._depth
        factors += 1.0 - self._depth
        return planes * factors, phases
