"""Linear filters on blocks: all sections at once, a few matrix products for many samples.

A filter is split into partial fractions, so that each pair of poles p, p* is one complex mode s:

    s[n+1] = p·s[n] + x[n]        y[n] = h[0]·x[n] + Σ 2·Re(r·p·s[n])

For a run of RUN_SAMPLES samples x this gives, with matrices that depend on the setting only,

    y = x·toeplitz(h) + s·(how the modes ring on)        s' = p^RUN_SAMPLES·s + x·(powers of p)

So the recursion has one step for each run instead of one for each sample. Its steps are matrix products, too: first
within each frame, as if that began after silence, then from frame to frame. So the modes after each frame are known.

The modes are float64. Samples and output are float32 where that is exact enough for 16 bits (`_FLOAT32_LIMIT`), which
takes half the time. Elsewhere the residues r of overlapping cuts are large (556 with 15 bands at -24 dB) and cancel
each other out: in float32 the lowest bits would be wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.decoding.worker.filters.blocks import Planes, State

# Longer runs make the products more expensive, shorter ones the recursion: 40 to 80 take the same time. A frame is a
# whole number of runs.
RUN_SAMPLES: Final = 60
RUNS_PER_FRAME: Final = FRAME_SAMPLES // RUN_SAMPLES
# As many frames as are rendered at once. More are filtered in steps.
STEP_FRAMES: Final = 10

# How large the terms of a sum in float32 may get, in full scales. Measured at this limit: an error of at most 0.03 of
# the lowest of 16 bits.
_FLOAT32_LIMIT: Final = 64.0
# Far below the lowest of 16 bits. Smaller values become zero: they would decay into denormal numbers, which are slow.
_SILENT_MODE: Final = 1e-9
_NEGLIGIBLE_DECAY: Final = 1e-15

_BUTTERWORTH_Q: Final = 2.0**-0.5

Modes: TypeAlias = NDArray[np.complex128]


@dataclass(frozen=True, slots=True, eq=False)
class ModalFilter:
    """The matrices of one setting. It has no state: modes, 2 by K for K pairs of poles,
    are arguments and results."""

    _to_modes: Planes  # RUN_SAMPLES by 2K: from a run of samples to its addition to the modes, real and imaginary parts
    _to_output: Planes  # (RUN_SAMPLES + 2K) by RUN_SAMPLES: from a run and the modes before it to its output
    _by_run: "_Recursion"  # from run to run of a frame
    _by_frame: "_Recursion"  # from frame to frame

    @classmethod
    def of(cls, poles: Modes, residues: Modes, first_response: float) -> "ModalFilter":
        """The filter with these poles and residues (of each conjugate pair one; a real pole's residue is halved).

        `first_response` is what a sample of 1 gives in the same sample.
        """
        modes = len(poles)
        powers = np.ones((RUN_SAMPLES + 1, modes), dtype=np.complex128)
        np.multiply.accumulate(np.broadcast_to(poles, (RUN_SAMPLES, modes)), axis=0, out=powers[1:])
        ringing = 2.0 * residues * powers
        response = ringing[:RUN_SAMPLES].real.sum(axis=1)
        response[0] = first_response

        to_output = np.empty((RUN_SAMPLES + 2 * modes, RUN_SAMPLES))
        lag = np.arange(RUN_SAMPLES) - np.arange(RUN_SAMPLES)[:, np.newaxis]
        to_output[:RUN_SAMPLES] = np.where(lag >= 0, response[lag], 0.0)
        to_output[RUN_SAMPLES::2] = ringing[1:].real.T
        to_output[RUN_SAMPLES + 1 :: 2] = -ringing[1:].imag.T

        by_run = _Recursion.of(powers[-1], RUNS_PER_FRAME)
        by_frame = _Recursion.of(by_run.decay[:, -1, 0], STEP_FRAMES)
        to_modes = powers[RUN_SAMPLES - 1 :: -1].copy()
        to_modes[np.abs(to_modes) < _NEGLIGIBLE_DECAY] = 0.0
        # A mode that is driven at its own frequency grows to 1 / (1 - |p|).
        largest = np.abs(response).sum() + (2.0 * np.abs(residues) / (1.0 - np.abs(poles))).sum()
        precision = np.float32 if largest < _FLOAT32_LIMIT else np.float64
        return cls(to_modes.view(np.float64).astype(precision), to_output.astype(precision), by_run, by_frame)

    def silence(self) -> State:
        return np.zeros((CHANNELS, self._modes), dtype=np.complex128)

    def process(self, planes: Planes | NDArray[np.int16], state: State) -> tuple[Planes, Sequence[State]]:
        runs, after = self._feed(planes, state)
        filtered: Planes = runs @ self._to_output
        return filtered.reshape(CHANNELS, -1), list(after)

    @property
    def _modes(self) -> int:
        return int(self._to_modes.shape[1]) // 2

    def _feed(self, planes: Planes | NDArray[np.int16], modes: Modes) -> tuple[Planes, Modes]:
        """For each run of both channels its samples and the modes before it; and the modes after each frame."""
        pairs = self._modes
        frames = planes.shape[1] // FRAME_SAMPLES
        runs = np.empty((CHANNELS, frames, RUNS_PER_FRAME, RUN_SAMPLES + 2 * pairs), dtype=self._to_output.dtype)
        runs[..., :RUN_SAMPLES] = planes.reshape(CHANNELS, frames, RUNS_PER_FRAME, RUN_SAMPLES)
        rows = runs.reshape(-1, RUN_SAMPLES + 2 * pairs)

        # The pairs of poles are the first axis from now on: pairs by runs or frames by channels and frames.
        added = (rows[:, :RUN_SAMPLES] @ self._to_modes).astype(np.float64).view(np.complex128)
        added_by_run = np.ascontiguousarray(added.reshape(CHANNELS * frames, RUNS_PER_FRAME, pairs).transpose(2, 1, 0))
        within = self._by_run.driven_by(added_by_run)
        added_by_frame = within[:, -1].reshape(pairs, CHANNELS, frames).transpose(0, 2, 1)
        boundaries = self._boundaries(added_by_frame, modes)
        begun_with = boundaries[:, :-1].transpose(0, 2, 1).reshape(pairs, 1, CHANNELS * frames)
        before = within[:, :-1]
        before += self._by_run.decay[:, :-1] * begun_with

        before_runs = before.reshape(pairs, RUNS_PER_FRAME, CHANNELS, frames).transpose(2, 3, 1, 0)
        runs[..., RUN_SAMPLES::2] = before_runs.real
        runs[..., RUN_SAMPLES + 1 :: 2] = before_runs.imag
        return rows, boundaries[:, 1:].transpose(1, 2, 0)

    def _boundaries(self, added: Modes, modes: Modes) -> Modes:
        """The modes before the first frame and after each one, from what each frame adds (pairs by frames by 2)."""
        pairs, frames, _ = added.shape
        boundaries = np.empty((pairs, frames + 1, CHANNELS), dtype=np.complex128)
        boundaries[:, 0] = modes.T
        for start in range(0, frames, STEP_FRAMES):
            step = self._by_frame.driven_by(np.ascontiguousarray(added[:, start : start + STEP_FRAMES]))
            step += self._by_frame.decay[:, : step.shape[1]] * boundaries[:, start : start + 1]
            step[np.abs(step) < _SILENT_MODE] = 0.0
            boundaries[:, start : start + step.shape[1]] = step
        return boundaries


@dataclass(frozen=True, slots=True, eq=False)
class _Recursion:
    """`s[j+1] = d·s[j] + a[j]` of each pair, for up to N steps, as matrices."""

    from_silence: Modes  # K by (N + 1) by N: the additions of all steps to the modes before each step
    decay: Modes  # K by (N + 1) by 1: the share of the first modes that is left before each step

    @classmethod
    def of(cls, decay: Modes, steps: int) -> "_Recursion":
        """`decay` is d, a number for each pair."""
        left = np.ones((len(decay), steps + 1), dtype=np.complex128)
        np.multiply.accumulate(np.broadcast_to(decay[:, np.newaxis], (len(decay), steps)), axis=1, out=left[:, 1:])
        left[np.abs(left) < _NEGLIGIBLE_DECAY] = 0.0
        age = np.arange(steps + 1)[:, np.newaxis] - 1 - np.arange(steps)
        return cls(np.ascontiguousarray(np.where(age >= 0, left[:, age], 0.0)), left[:, :, np.newaxis])

    def driven_by(self, additions: Modes) -> Modes:
        """`s` before each step and after the last from silence, K by (n + 1) by m, for K by n by m additions."""
        steps = additions.shape[1]
        return self.from_silence[:, : steps + 1, :steps] @ additions


@dataclass(frozen=True, slots=True, eq=False)
class Biquads:
    """The coefficients of K second-order sections y = b·x - a·y with a[0] = 1, whose cascade is one filter.

    Both arrays are 3 by K. All poles are complex.
    """

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
