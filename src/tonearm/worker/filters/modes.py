"""Linear filters on blocks: a few matrix products compute all sections for many samples at once.

A filter is split into partial fractions, so that each pair of poles p, p* is one complex mode s:

    s[n+1] = p·s[n] + x[n]        y[n] = h[0]·x[n] + Σ 2·Re(r·p·s[n])

For a run of RUN_SAMPLES samples x this gives, with matrices that depend on the setting only,

    y = toeplitz(h)·x + (how the modes ring on)·s        s' = p^RUN_SAMPLES·s + (powers of p)·x

So the recursion has one step for each run instead of one for each sample. Its steps are matrix products, too: first the
contribution of each group of runs, then the modes from group to group, then those from run to run within the groups.

All matrices are laid out so that the result of one product is the operand of the next without a copy. A column is a run
of one channel. The columns are ordered by the run's place in its group, then by group, then by channel. So the two
channels of a sample stay together, as in PCM. A row of all runs, cut into equal pieces, has the runs of a group as rows
of the same columns.

The modes from group to group are float64. The rest is float32, in half the time, where that is exact enough for 16 bits
(`_FLOAT32_LIMIT`). Elsewhere the residues r of overlapping cuts are large (556 with 15 bands at -24 dB) and cancel each
other out: in float32 the lowest bits would be wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, FRAME_SAMPLES
from tonearm.worker.filters.blocks import FilterState, Planes, interleaved

# Longer runs make the products more expensive, shorter runs the recursion: 32 to 48 take the same time.
RUN_SAMPLES: Final = 40
_GROUP_RUNS: Final = 12
_FRAME_GROUPS: Final = FRAME_SAMPLES // (_GROUP_RUNS * RUN_SAMPLES)
# The number of frames rendered at once. A longer sound is filtered in steps of this length.
STEP_FRAMES: Final = 20

# The largest terms of a sum in float32, in full scales. Measured at half this limit: the error is at most 0.05 of the
# lowest of 16 bits for noise at full scale, and 0.16 for a tone that a band raises to 16 times full scale.
_FLOAT32_LIMIT: Final = 64.0
# Far below the lowest of 16 bits. Smaller values become zero: they would decay into denormal numbers, which are slow.
_SILENT_MODE: Final = 1e-9
_NEGLIGIBLE_DECAY: Final = 1e-15

_LARGE: Final = 256  # rows and columns of a matrix that OpenBLAS multiplies in its buffer; small matrices not

# Types of the size of two samples: the samples of both channels are moved as one.
_BOTH: Final[Mapping[int, np.dtype[Any]]] = {
    2: np.dtype(np.int32),
    4: np.dtype(np.int64),
    8: np.dtype(np.complex128),
}

Modes: TypeAlias = NDArray[np.complex128]


@dataclass(frozen=True, slots=True, eq=False)
class ModalFilter:
    """The matrices of one setting, without state: the modes, 2 by K for K pairs of poles, are arguments and results."""

    _to_modes: Planes  # 2K by RUN_SAMPLES: from a run to its contribution to the modes, as real and imaginary parts
    _to_group: Planes  # K by 2(_GROUP_RUNS + 1) by 2: from the contributions of a group's runs to that of the group
    _by_group: Modes  # K by N by N: from the first modes and each group's contribution to the modes before each group
    _by_run: Planes  # K by 2 _GROUP_RUNS by 2(_GROUP_RUNS + 1): the same within a group, in real numbers
    _to_output: Planes  # RUN_SAMPLES by (RUN_SAMPLES + 2K): from a run and the modes before it to its output

    @classmethod
    def of(cls, poles: Modes, residues: Modes, first_response: float) -> "ModalFilter":
        """The filter with these poles and residues (one for each conjugate pair; a real pole's residue is halved).

        `first_response` is the output at the same sample for an input sample of 1.
        """
        powers = _powers(poles, RUN_SAMPLES)
        ringing = 2.0 * residues[:, np.newaxis] * powers
        response = ringing[:, :-1].real.sum(axis=0)
        response[0] = first_response
        lag = np.arange(RUN_SAMPLES)[:, np.newaxis] - np.arange(RUN_SAMPLES)
        by_samples = np.where(lag >= 0, response[lag], 0.0)
        to_output = np.concatenate((by_samples, _parts(ringing[:, 1:].conj()).T), axis=1)
        to_modes = powers[:, RUN_SAMPLES - 1 :: -1].copy()
        to_modes[np.abs(to_modes) < _NEGLIGIBLE_DECAY] = 0.0
        by_run, by_group = powers[:, -1], _powers(powers[:, -1], _GROUP_RUNS)[:, -1]
        to_group, within = _real_steps(by_run)

        # A mode driven at its own frequency grows to 1 / (1 - |p|).
        largest = np.abs(response).sum() + (2.0 * np.abs(residues) / (1.0 - np.abs(poles))).sum()
        precision = np.float32 if largest < _FLOAT32_LIMIT else np.float64
        return cls(
            _parts(to_modes).astype(precision),
            to_group.astype(precision),
            _steps(by_group, STEP_FRAMES * _FRAME_GROUPS),
            within.astype(precision),
            to_output.astype(precision),
        )

    def silence(self) -> FilterState:
        return np.zeros((CHANNELS, len(self._by_group)), dtype=np.complex128)

    def process(self, planes: Planes | NDArray[np.int16], state: FilterState) -> tuple[Planes, FilterState]:
        """As for any `Kernel`. The result is interleaved, see `interleaved`; an interleaved input is fastest."""
        samples = planes.shape[1]
        step_samples = STEP_FRAMES * FRAME_SAMPLES
        if samples <= step_samples:
            return self._filtered(planes, state)
        filtered = []
        for start in range(0, samples, step_samples):
            part, state = self._filtered(planes[:, start : start + step_samples], state)
            filtered.append(part.T)
        return np.concatenate(filtered).T, state

    def _filtered(self, planes: Planes | NDArray[np.int16], before: Modes) -> tuple[Planes, Modes]:
        """Filters up to STEP_FRAMES frames. Returns them, and the modes after them."""
        pairs = len(self._by_group)
        groups = planes.shape[1] // (_GROUP_RUNS * RUN_SAMPLES)
        columns = CHANNELS * groups  # for each run of a group
        inputs = np.empty((RUN_SAMPLES + 2 * pairs, _GROUP_RUNS * columns), dtype=self._to_modes.dtype)
        runs = inputs[:RUN_SAMPLES]
        _lay_out(planes, runs)

        # The contributions of the runs come after a place for the modes before the group.
        additions = np.zeros((2 * pairs, (_GROUP_RUNS + 1) * columns), dtype=inputs.dtype)
        np.matmul(self._to_modes, runs, out=additions[:, columns:])
        by_pair = additions.reshape(pairs, 2 * (_GROUP_RUNS + 1), columns)
        carried = np.empty((pairs, 1 + groups, CHANNELS), dtype=np.complex128)
        carried[:, 0] = _audible(before).T
        added = (by_pair.transpose(0, 2, 1) @ self._to_group).reshape(pairs, groups, CHANNELS, 2)
        carried.view(np.float64).reshape(pairs, 1 + groups, CHANNELS, 2)[:, 1:] = added
        modes = self._by_group[:, : 1 + groups, : 1 + groups] @ carried

        first = additions.reshape(pairs, 2, _GROUP_RUNS + 1, groups, CHANNELS)[:, :, 0]
        first[:, 0] = modes[:, :-1].real
        first[:, 1] = modes[:, :-1].imag
        np.matmul(self._by_run, by_pair, out=inputs[RUN_SAMPLES:].reshape(pairs, 2 * _GROUP_RUNS, columns))
        # The result overwrites the sound, which is in the CPU's caches. The modes are copied: a view would keep those
        # before all groups in memory.
        return _in_order(self._to_output @ inputs, runs), modes[:, -1].T.copy()


def reserve_memory_for_products() -> None:
    """Makes OpenBLAS, which multiplies NumPy's matrices, allocate its buffer of some 35 MB.

    OpenBLAS keeps the buffer for all later products, which one thread makes. Without memory for the buffer, OpenBLAS
    prints a line and ends the process with status 1. So call this before a memory limit applies.
    """
    for kind in (np.float32, np.float64):
        square = np.ones((_LARGE, _LARGE), kind)
        square @ square
        square @ square[0]


def _lay_out(planes: Planes | NDArray[np.int16], runs: Planes) -> None:
    row = interleaved(planes)
    if row is not None:
        both = row.view(_BOTH[row.itemsize]).reshape(-1, _GROUP_RUNS, RUN_SAMPLES)
        runs[...] = both.transpose(2, 1, 0).copy().view(row.dtype).reshape(runs.shape)
        return
    by_channel = runs.reshape(RUN_SAMPLES, _GROUP_RUNS, -1, CHANNELS)
    for channel, plane in enumerate(planes):
        by_channel[..., channel] = plane.reshape(-1, _GROUP_RUNS, RUN_SAMPLES).transpose(2, 1, 0)


def _in_order(runs: Planes, memory: Planes) -> Planes:
    """The sound in the columns of `runs`, interleaved, in `memory` of the same size."""
    both = _BOTH[runs.itemsize]
    in_order = memory.view(both).reshape(-1, _GROUP_RUNS, RUN_SAMPLES)
    in_order[...] = runs.view(both).reshape(RUN_SAMPLES, _GROUP_RUNS, -1).transpose(2, 1, 0)
    return memory.reshape(-1, CHANNELS).T


def _audible(modes: Modes) -> Modes:
    """The modes, with inaudible ones set to zero."""
    # For so few numbers plain Python is faster than a call of NumPy.
    if min(map(abs, modes.ravel().tolist())) > _SILENT_MODE:
        return modes
    return np.where(np.abs(modes) > _SILENT_MODE, modes, 0.0)


def _powers(decay: Modes, most: int) -> Modes:
    """K by (most + 1): the powers of each number, from 0 to `most`."""
    powers = np.ones((len(decay), most + 1), dtype=np.complex128)
    np.multiply.accumulate(np.broadcast_to(decay[:, np.newaxis], (len(decay), most)), axis=1, out=powers[:, 1:])
    return powers


def _parts(numbers: Modes) -> NDArray[np.float64]:
    """K by n complex numbers as 2K by n: the real parts of each row, then its imaginary parts."""
    return np.stack((numbers.real, numbers.imag), axis=1).reshape(2 * len(numbers), -1)


def _steps(decay: Modes, steps: int) -> Modes:
    """`s[j+1] = d·s[j] + a[j]` of each pair as matrices, K by (steps + 1) by (steps + 1). They lead from s[0] and all
    a[j] to s before each step and after the last. `decay` is d, a number for each pair."""
    left = _powers(decay, steps)
    left[np.abs(left) < _NEGLIGIBLE_DECAY] = 0.0
    age = np.arange(steps + 1)[:, np.newaxis] - np.arange(steps + 1)
    return np.ascontiguousarray(np.where(age >= 0, left[:, age], 0.0))


def _real_steps(decay: Modes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`_steps` through a group in real numbers, real parts before imaginary parts. The first matrix, transposed, leads
    to the state after the last step; the second to the state before each step."""
    steps = _steps(decay, _GROUP_RUNS)
    parts = np.stack((np.stack((steps.real, -steps.imag), axis=2), np.stack((steps.imag, steps.real), axis=2)), axis=1)
    pairs, size = len(decay), _GROUP_RUNS + 1
    after, before = parts[:, :, -1].reshape(pairs, 2, 2 * size), parts[:, :, :-1].reshape(pairs, -1, 2 * size)
    return np.ascontiguousarray(after.transpose(0, 2, 1)), before


def cascade(b: NDArray[np.float64], a: NDArray[np.float64]) -> ModalFilter:
    """The cascade of K second-order sections y = b·x - a·y with a[0] = 1. Both arrays are 3 by K.

    Raises ValueError when a section has real poles.
    """
    imaginary_squared = a[2] - a[1] ** 2 / 4.0
    if np.any(imaginary_squared <= 0.0):
        raise ValueError("a section has real poles; an equalizer band that is cut by more than 25 dB has")
    poles = -a[1] / 2.0 + 1j * np.sqrt(imaginary_squared)
    # Row k: every section at the pole k; the section of pole k itself without its factor (1 - p_k/z).
    back = (1.0 / poles)[:, np.newaxis]
    zeros = b[0] + b[1] * back + b[2] * back**2
    rest = 1.0 + a[1] * back + a[2] * back**2
    np.fill_diagonal(rest, 1.0 - poles.conj() / poles)
    return ModalFilter.of(poles, (zeros / rest).prod(axis=1), float(b[0].prod()))
