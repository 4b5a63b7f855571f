"""Tremolo: the loudness goes up and down."""

from collections.abc import Sequence

from tonearm.core.effects import Tremolo
from tonearm.worker.filters.blocks import Planes, State, frames_in
from tonearm.worker.filters.oscillator import Oscillator


class TremoloKernel:
    """Factor 1 - depth / 2 + depth / 2 · sin, between 1 - depth and 1. The state is the phase in turns.

    As in lavadsp: its `TremoloPcmAudioFilter.setDepth` halves what `VectorSupport.tremolo` then calls the depth.
    """

    def __init__(self, setting: Tremolo) -> None:
        self._swing = setting.depth / 2.0
        self._oscillator = Oscillator(setting.frequency)

    def silence(self) -> State:
        return 0.0

    def process(self, planes: Planes, state: State) -> tuple[Planes, Sequence[State]]:
        phases = self._oscillator.phases(state, frames_in(planes))
        factors = self._oscillator.values(state, phases)
        factors *= self._swing
        factors += 1.0 - self._swing
        return planes * factors, phases
