"""The blocks that filters work on, and the interface of a filter.

A block is one or more whole frames, as planes: 2 by n floats, left above right, in the units of 16-bit samples (full
scale is 32 768). It is rounded and clipped once, after the last filter.
"""

from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS

Planes: TypeAlias = NDArray[np.floating[Any]]
# A filter's state. It is never changed in place, since rendering may restart from it.
FilterState: TypeAlias = Any

_Sample = TypeVar("_Sample", bound=np.generic)

FULL_SCALE: Final = 32_768.0
PCM_DTYPE: Final = np.dtype("<i2")  # made once: numpy would parse the text for each block


class Kernel(Protocol):
    """A filter at one setting. It stores no sound: the state is an argument and a result."""

    def silence(self) -> FilterState:
        """The state before any sound."""

    def process(self, planes: Planes, state: FilterState) -> tuple[Planes, FilterState]:
        """Filters a block without rounding or clipping. Returns it and the state after it.

        `planes` stays unchanged. The result does not depend on how a sound is split into blocks.
        """


def interleaved(planes: NDArray[_Sample]) -> NDArray[_Sample] | None:
    """All samples of `planes` in one row, when they are interleaved in memory; otherwise None.

    NumPy takes ten times as long to go along interleaved planes as along this row.
    """
    return planes.T.reshape(-1) if planes.flags.f_contiguous else None


def scale(planes: Planes, gains: NDArray[np.float32] | float) -> None:
    """Multiplies each sample of `planes` by its gain, or all samples by one gain."""
    if isinstance(gains, float):
        planes *= gains
        return
    row = interleaved(planes)
    if row is None:
        planes *= gains
    else:
        row *= np.repeat(gains, CHANNELS)


def half_cosine(samples: int) -> NDArray[np.float64]:
    """A ramp from 0 to 1 over this many samples, without audible corners."""
    ramp: NDArray[np.float64] = 0.5 - 0.5 * np.cos(np.pi * (np.arange(samples) + 0.5) / samples)
    return ramp
