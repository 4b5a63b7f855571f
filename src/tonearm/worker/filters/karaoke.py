"""Karaoke: removes what is the same in both channels, as most voices are."""

import math

import numpy as np

from tonearm.core.effects import Karaoke
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.worker.filters.blocks import Planes, State, States
from tonearm.worker.filters.modes import ModalFilter


class KaraokeKernel:
    """left - level · right + o, right - level · left + o, where o is a band of the middle:

    y[n] = A · (left + right) / 2 - B · y[n-1] - C · y[n-2] and o = y · mono_level · level.

    All of it as in lavadsp's `KaraokeConverter`, with A, B and C as its `updateFilters` gives them.
    """

    def __init__(self, setting: Karaoke) -> None:
        self._level = setting.level
        self._band_gain = setting.mono_level * setting.level
        self._band = _band(setting)

    def silence(self) -> State:
        return self._band.silence()

    def process(self, planes: Planes, state: State) -> tuple[Planes, States]:
        middle = np.broadcast_to((planes[0] + planes[1]) * 0.5, planes.shape)
        band, states = self._band.process(middle, state)
        # Both channels of it are the same.
        sound: Planes = planes - self._level * planes[::-1]
        sound += band[0] * self._band_gain
        return sound, states


def _band(setting: Karaoke) -> ModalFilter:
    """The resonator. Its poles are complex: B² < 4 · C, because 4 · C / (1 + C)² is at most 1."""
    c = math.exp(-2.0 * math.pi * setting.filter_width / SAMPLE_RATE_HZ)
    b = -4.0 * c / (1.0 + c) * math.cos(2.0 * math.pi * setting.filter_band / SAMPLE_RATE_HZ)
    a = math.sqrt(1.0 - b * b / (4.0 * c)) * (1.0 - c)
    pole = complex(-b / 2.0, math.sqrt(c - b * b / 4.0))
    # 1 / ((1 - p/z)(1 - p*/z)) has the residue 1 / (1 - p*/p) at p.
    residue = a / (1.0 - pole.conjugate() / pole)
    return ModalFilter.of(np.array([pole]), np.array([residue]), a)
