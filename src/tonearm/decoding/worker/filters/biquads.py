"""Second-order sections, and their cascade as one filter on blocks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tonearm.decoding.worker.filters.modes import ModalFilter, Modes


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
