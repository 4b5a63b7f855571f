"""The equalizer as a block filter: all bands at once, a few matrix products for many samples.

The cascade of K biquads is split into partial fractions, so that each pair of poles p, p* is one complex mode s:

    s[n+1] = p·s[n] + x[n]        y[n] = h[0]·x[n] + Σ 2·Re(r·p·s[n])

For a run of RUN_SAMPLES samples x this gives, with matrices that depend on the gains only,

    y = x·toeplitz(h) + s·(how the modes ring on)        s' = p^RUN_SAMPLES·s + x·(powers of p)

So the recursion has one step a run instead of one a sample, and the modes after each frame come for nothing.
Float64, because the residues r of overlapping cuts are large (556 with 15 bands at -24 dB) and cancel each other:
in float32 that would be heard in the lowest bits.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, FRAME_SAMPLES
from tonearm.decoder.biquad import PeakingBiquads

# Longer runs make the products dearer, shorter ones the recursion. 60 to 96 measured alike; it divides a frame.
RUN_SAMPLES: Final = 80
RUNS_PER_FRAME: Final = FRAME_SAMPLES // RUN_SAMPLES

# Far below what 16 bits can show. Without it, modes in silence decay into denormal numbers, which are slow.
_SILENT_MODE: Final = 1e-9
# Players often share a setting (a preset); about 90 KB each at most.
_CACHED_SETTINGS: Final = 64

Samples: TypeAlias = NDArray[np.int16]
Planes: TypeAlias = NDArray[np.float64]
Modes: TypeAlias = NDArray[np.complex128]


@dataclass(frozen=True, slots=True, eq=False)
class Equalizer:
    """The matrices of one setting of the bands. It holds no sound: the modes come in and go out.

    Samples are int16, n by 2, n a whole number of frames. Modes are 2 by K for K bands that are not at 0 dB.
    """

    gains_db: tuple[float, ...]
    _to_modes: Planes  # RUN_SAMPLES by 2K: a run of samples to what it adds to the modes; real and imaginary in turn
    _to_output: Planes  # (RUN_SAMPLES + 2K) by RUN_SAMPLES: a run of samples and the modes before it to its output
    _decay_in_runs: Modes  # (RUNS_PER_FRAME + 1) by K: what is left of a mode after 0, 1, 2, … runs

    @classmethod
    def of(cls, gains_db: tuple[float, ...]) -> "Equalizer":
        """The equalizer for a gain in dB for each band. At least one gain is not 0."""
        return _equalizer(gains_db)

    def silence(self) -> Modes:
        """The modes before any sound."""
        return np.zeros((CHANNELS, self._decay_in_runs.shape[1]), dtype=np.complex128)

    def modes_after(self, samples: Samples) -> Modes:
        """The modes after `samples` that follow silence."""
        _, after = self._feed(samples, self.silence())
        last: Modes = after[-1].copy()
        return last

    def filtered(self, samples: Samples, modes: Modes) -> tuple[Planes, Modes]:
        """`samples` filtered, 2 by n, not rounded or clipped; and the modes after each frame, frames by 2 by K."""
        runs, after = self._feed(samples, modes)
        planes: Planes = runs @ self._to_output
        return planes.reshape(CHANNELS, len(samples)), after

    def _feed(self, samples: Samples, modes: Modes) -> tuple[Planes, Modes]:
        """For each run of both channels its samples and the modes before it; and the modes after each frame."""
        decay = self._decay_in_runs
        bands = decay.shape[1]
        frames = len(samples) // FRAME_SAMPLES
        shape = (CHANNELS, frames, RUNS_PER_FRAME)

        runs = np.empty((*shape, RUN_SAMPLES + 2 * bands))
        runs[..., :RUN_SAMPLES] = samples.reshape(*shape[1:], RUN_SAMPLES, CHANNELS).transpose(3, 0, 1, 2)
        rows = runs.reshape(-1, RUN_SAMPLES + 2 * bands)
        added = (rows[:, :RUN_SAMPLES] @ self._to_modes).view(np.complex128).reshape(*shape, bands)

        # Within its frame, each run follows the runs before it. All frames at once, as if each began in silence …
        within = np.empty((RUNS_PER_FRAME + 1, CHANNELS, frames, bands), dtype=np.complex128)
        within[0] = 0.0
        previous = within[0]
        for here, addition in zip(within[1:], added.transpose(2, 0, 1, 3), strict=True):
            np.multiply(previous, decay[1], out=here)
            here += addition
            previous = here

        # … then frame after frame, and what a frame begins with decays through its runs.
        boundaries = np.empty((frames + 1, CHANNELS, bands), dtype=np.complex128)
        boundaries[0] = modes
        previous = boundaries[0]
        for here, addition in zip(boundaries[1:], within[-1].transpose(1, 0, 2), strict=True):
            np.multiply(previous, decay[-1], out=here)
            here += addition
            previous = here
        boundaries[np.abs(boundaries) < _SILENT_MODE] = 0.0

        before = runs[..., RUN_SAMPLES:].view(np.complex128)
        np.multiply(boundaries[:-1].transpose(1, 0, 2)[:, :, np.newaxis], decay[:-1], out=before)
        before += within[:-1].transpose(1, 2, 0, 3)
        return rows, boundaries[1:]


@lru_cache(maxsize=_CACHED_SETTINGS)
def _equalizer(gains_db: tuple[float, ...]) -> Equalizer:
    poles, residues, first_response = _partial_fractions(PeakingBiquads.of(gains_db))
    bands = len(poles)

    powers = np.ones((RUN_SAMPLES + 1, bands), dtype=np.complex128)
    np.multiply.accumulate(np.broadcast_to(poles, (RUN_SAMPLES, bands)), axis=0, out=powers[1:])
    ringing = 2.0 * residues * powers
    response = ringing[:RUN_SAMPLES].real.sum(axis=1)
    response[0] = first_response

    to_output = np.empty((RUN_SAMPLES + 2 * bands, RUN_SAMPLES))
    lag = np.arange(RUN_SAMPLES) - np.arange(RUN_SAMPLES)[:, np.newaxis]
    to_output[:RUN_SAMPLES] = np.where(lag >= 0, response[lag], 0.0)
    to_output[RUN_SAMPLES::2] = ringing[1:].real.T
    to_output[RUN_SAMPLES + 1 :: 2] = -ringing[1:].imag.T

    decay_in_runs = np.ones((RUNS_PER_FRAME + 1, bands), dtype=np.complex128)
    np.multiply.accumulate(np.broadcast_to(powers[-1], (RUNS_PER_FRAME, bands)), axis=0, out=decay_in_runs[1:])
    to_modes = powers[RUN_SAMPLES - 1 :: -1].copy().view(np.float64)
    return Equalizer(gains_db, to_modes, to_output, decay_in_runs)


def _partial_fractions(sections: PeakingBiquads) -> tuple[Modes, Modes, float]:
    """Poles and residues of the whole cascade (one of each conjugate pair), and its response to 1 in the same sample.

    The poles of a peaking biquad are complex while 2·Q·10^(gain_db/40) > 1, which for Q = 2.145 means above -25.3 dB.
    """
    b, a = sections.b, sections.a
    imaginary_squared = a[2] - a[1] ** 2 / 4.0
    if np.any(imaginary_squared <= 0.0):
        raise ValueError("a band is cut by more than 25 dB; keep the gains within the limits of Filters")
    poles = -a[1] / 2.0 + 1j * np.sqrt(imaginary_squared)

    # Row k: every section at the pole k. Its own section there without the factor (1 - p_k/z), which is the pole.
    back = (1.0 / poles)[:, np.newaxis]
    zeros = b[0] + b[1] * back + b[2] * back**2
    rest = 1.0 + a[1] * back + a[2] * back**2
    np.fill_diagonal(rest, 1.0 - poles.conj() / poles)
    return poles, (zeros / rest).prod(axis=1), float(b[0].prod())
