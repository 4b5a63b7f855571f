"""The linear filters: equalizer, low pass, high pass and karaoke, made of the modes of `modes`; echo, with a delay
line.

Formulas of the sections: Robert Bristow-Johnson, "Cookbook formulae for audio EQ biquad filter coefficients".
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np

from tonearm.core.filters import BAND_FREQUENCIES_HZ, BAND_Q, Echo, HighPass, Karaoke, LowPass
from tonearm.core.frame import CHANNELS, SAMPLE_RATE_HZ, samples_of_ms
from tonearm.worker.filters.blocks import FilterState, Planes
from tonearm.worker.filters.modes import ModalFilter, cascade

# Players often share settings (a preset). An equalizer takes some 160 KB with 5 bands, 520 KB at most.
_CACHED_SETTINGS: Final = 32
_BUTTERWORTH_Q: Final = 2.0**-0.5


@lru_cache(maxsize=_CACHED_SETTINGS)
def equalizer(gains_db: tuple[float, ...]) -> ModalFilter:
    """A cascade of peaking sections, one for each band that is not at 0 dB. At least one band must not be.

    The poles are complex while 2·Q·10^(gain_db/40) > 1, which for Q = 2.145 means above -25.3 dB.

    The interface promises peaking sections. lavaplayer's `Equalizer` has band-passes at the same frequencies with the
    same Q (lower above 4 kHz: 1.06 at 16 kHz), and sums them: 1 + 4 · Σ gain · band-pass. A single band has the same
    level at its own frequency in both. In lavaplayer its bell is wider when it boosts (1 dB at +6 dB, 4.5 at +14) and
    narrower when it cuts. A usual bass boost differs by 1.2 dB at most, neighbours with large gains of both signs by 10
    dB and more.
    """
    gain_db = np.array(gains_db, dtype=np.float64)
    active = gain_db != 0.0
    omega = 2.0 * np.pi * np.array(BAND_FREQUENCIES_HZ, dtype=np.float64)[active] / SAMPLE_RATE_HZ
    amplitude = 10.0 ** (gain_db[active] / 40.0)
    alpha = np.sin(omega) / (2.0 * BAND_Q)
    middle = -2.0 * np.cos(omega)
    a0 = 1.0 + alpha / amplitude
    return cascade(
        b=np.stack((1.0 + alpha * amplitude, middle, 1.0 - alpha * amplitude)) / a0,
        a=np.stack((a0, middle, 1.0 - alpha / amplitude)) / a0,
    )


@lru_cache(maxsize=_CACHED_SETTINGS)
def low_pass(setting: LowPass) -> ModalFilter:
    """With a frequency, a Butterworth section; otherwise the recurrence y += (x - y) / smoothing.

    The recurrence is lavadsp's `LowPassConverter`, except for the first sample: there y begins with x after the start
    and each seek, here with silence or the sound before.
    """
    if setting.frequency_hz is None:
        share = 1.0 / setting.smoothing
        # y[n] = share · Σ (1 - share)^k · x[n-k]: one real pole, whose residue a mode counts twice.
        return ModalFilter.of(np.array([1.0 - share + 0j]), np.array([share / 2.0 + 0j]), share)
    return _butterworth(setting.frequency_hz, passes_high=False)


@lru_cache(maxsize=_CACHED_SETTINGS)
def high_pass(setting: HighPass) -> ModalFilter:
    return _butterworth(setting.frequency_hz, passes_high=True)


def _butterworth(frequency_hz: float, *, passes_high: bool) -> ModalFilter:
    """One section that is 3 dB down at `frequency_hz` and passes the frequencies below, or above."""
    omega = 2.0 * np.pi * frequency_hz / SAMPLE_RATE_HZ
    alpha, cosine = np.sin(omega) / (2.0 * _BUTTERWORTH_Q), np.cos(omega)
    a0 = 1.0 + alpha
    edge = (1.0 + cosine) / 2.0 if passes_high else (1.0 - cosine) / 2.0
    middle = -2.0 * edge if passes_high else 2.0 * edge
    return cascade(b=np.array([[edge], [middle], [edge]]) / a0, a=np.array([[a0], [-2.0 * cosine], [1.0 - alpha]]) / a0)


class KaraokeKernel:
    """Removes the part that is the same in both channels, as most voices are.

    left - level · right + o, right - level · left + o, where o is a band of the middle:
    y[n] = A · (left + right) / 2 - B · y[n-1] - C · y[n-2] and o = y · mono_level · level.
    All of this is as in lavadsp's `KaraokeConverter`; A, B and C are as in its `updateFilters`.
    """

    def __init__(self, setting: Karaoke) -> None:
        self._level = setting.level
        self._band_gain = setting.mono_level * setting.level
        # The poles are complex: b² < 4 · c, because 4 · c / (1 + c)² is at most 1.
        c = math.exp(-2.0 * math.pi * setting.filter_width / SAMPLE_RATE_HZ)
        b = -4.0 * c / (1.0 + c) * math.cos(2.0 * math.pi * setting.filter_band / SAMPLE_RATE_HZ)
        a = math.sqrt(1.0 - b * b / (4.0 * c)) * (1.0 - c)
        pole = complex(-b / 2.0, math.sqrt(c - b * b / 4.0))
        # 1 / ((1 - p/z)(1 - p*/z)) has the residue 1 / (1 - p*/p) at p.
        residue = a / (1.0 - pole.conjugate() / pole)
        self._band = ModalFilter.of(np.array([pole]), np.array([residue]), a)

    def silence(self) -> FilterState:
        return self._band.silence()

    def process(self, planes: Planes, state: FilterState) -> tuple[Planes, FilterState]:
        middle = np.broadcast_to((planes[0] + planes[1]) * 0.5, planes.shape)
        band, after = self._band.process(middle, state)
        # Both channels of the band are the same.
        sound: Planes = planes - self._level * planes[::-1]
        sound += band[0] * self._band_gain
        return sound, after


class EchoKernel:
    """e[n] = w[n - d]: one delay's length of samples is computed at once.

    The state is the input of the delay, w[n] = x[n] + decay · e[n], for the length of the delay, oldest first. It has
    one block for each call, and states share the blocks.
    """

    def __init__(self, setting: Echo) -> None:
        self._mix = setting.mix
        self._decay = setting.decay
        self._delay_samples = samples_of_ms(setting.delay_ms)

    def silence(self) -> FilterState:
        return ()

    def process(self, planes: Planes, state: FilterState) -> tuple[Planes, FilterState]:
        delay, samples = self._delay_samples, planes.shape[1]
        line = np.zeros((CHANNELS, delay + samples), dtype=planes.dtype)
        end = delay
        kept: tuple[Planes, ...] = ()
        for block in reversed(state):
            taken = min(end, block.shape[1])
            line[:, end - taken : end] = block[:, block.shape[1] - taken :]
            if samples < end:
                kept = (block, *kept)
            end -= taken
        for start in range(0, samples, delay):
            stop = min(start + delay, samples)
            line[:, delay + start : delay + stop] = planes[:, start:stop] + self._decay * line[:, start:stop]
        sent_in = line[:, delay:].astype(np.float32)
        return planes + self._mix * line[:, :samples], (*kept, sent_in)
