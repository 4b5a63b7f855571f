"""Second-order sections, and their cascade as one filter on blocks."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.decoding.worker.filters.modes import ModalFilter, Modes

_BUTTERWORTH_Q: Final = 2.0**-0.5


@dataclass(frozen=True, slots=True, eq=False)
class Biquads:
    """Coefficients of K sections y = b·x - a·y with a[0] = 1: both arrays are 3 by K. All poles are complex."""

    b: NDArray[np.float64]
    a: NDArray[np.float64]

    def as_filter(self) -> ModalFilter:
        """The cascade. Raises ValueError when a section has real poles."""
        return ModalFilter.of(*self._partial_fractions())

    def _partial_fractions(self) -> tuple[Modes, Modes, float]:
        """Poles and residues of the cascade (one of each conjugate pair), and its response to 1 in the same sample."""
        b, a = self.b, self.a
        imaginary_squared = a[2] - a[1] ** 2 / 4.0
        if np.any(imaginary_squared <= 0.0):
            raise ValueError("a section has real poles; an equalizer band that is cut by more than 25 dB has")
        poles = -a[1] / 2.0 + 1j * np.sqrt(imaginary_squared)

        # Row k: every section at the pole k. Its own section there without the factor (1 - p_k/z), which is the pole.
        back = (1.0 / poles)[:, np.newaxis]
        zeros = b[0] + b[1] * back + b[2] * back**2
        rest = 1.0 + a[1] * back + a[2] * back**2
        np.fill_diagonal(rest, 1.0 - poles.conj() / poles)
        return poles, (zeros / rest).prod(axis=1), float(b[0].prod())


def butterworth(frequency_hz: float, *, passes_high: bool) -> Biquads:
    """One section with Q 0.707 that passes what is below, or above, `frequency_hz`.

    Formulas: Robert Bristow-Johnson, "Cookbook formulae for audio EQ biquad filter coefficients", LPF and HPF.
    """
    omega = 2.0 * np.pi * frequency_hz / SAMPLE_RATE_HZ
    alpha, cosine = np.sin(omega) / (2.0 * _BUTTERWORTH_Q), np.cos(omega)
    a0 = 1.0 + alpha
    edge = (1.0 + cosine) / 2.0 if passes_high else (1.0 - cosine) / 2.0
    middle = -2.0 * edge if passes_high else 2.0 * edge
    return Biquads(b=np.array([[edge], [middle], [edge]]) / a0, a=np.array([[a0], [-2.0 * cosine], [1.0 - alpha]]) / a0)
