"""The blocks that filters work on, and the interface of a filter.

A block is one or more whole frames, as planes: 2 by n floats, left above right, in the units of 16-bit samples
(full scale is 32 768). It is rounded and clipped once, behind the last filter.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, FRAME_SAMPLES

Planes: TypeAlias = NDArray[np.floating[Any]]
# A filter's state. It is never changed in place, since rendering may begin again from it.
FilterState: TypeAlias = Any

_Sample = TypeVar("_Sample", bound=np.generic)
_After = TypeVar("_After")

FULL_SCALE: Final = 32_768.0
PCM_DTYPE: Final = np.dtype("<i2")  # made once: numpy would read the text at each block


class FilterStates(Protocol):
    """The states after each frame of a block."""

    def __getitem__(self, frame: int, /) -> FilterState: ...

    def __len__(self) -> int: ...


class StatesOnDemand(Sequence[_After]):
    """The states after the frames of a block, made on access, since few are needed.

    `after` makes the state after a frame, by its number in the block.
    """

    def __init__(self, after: Callable[[int], _After], frames: range) -> None:
        self._after = after
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    @overload
    def __getitem__(self, index: int) -> _After: ...
    @overload
    def __getitem__(self, index: slice) -> "StatesOnDemand[_After]": ...
    def __getitem__(self, index: int | slice) -> "_After | StatesOnDemand[_After]":
        frames = self._frames[index]
        return StatesOnDemand(self._after, frames) if isinstance(frames, range) else self._after(frames)


class Kernel(Protocol):
    """A filter at one setting. It holds no sound: the state comes in and goes out."""

    def silence(self) -> FilterState:
        """The state before any sound."""

    def process(self, planes: Planes, state: FilterState) -> tuple[Planes, FilterStates]:
        """The block filtered, not rounded and not clipped, and the state after each of its frames.

        `planes` is not changed. Where a sound is split into blocks makes no difference.
        """


def interleaved(planes: NDArray[_Sample]) -> NDArray[_Sample] | None:
    """All samples of `planes` in one row as they lie in memory, when that is sample by sample; otherwise None.

    NumPy takes ten times as long for planes that lie so, where it has to go along them.
    """
    return planes.T.reshape(-1) if planes.flags.f_contiguous else None


def scale(planes: Planes, gains: NDArray[np.float32] | float) -> None:
    """Multiplies each sample of `planes` by its gain, or all by one."""
    if isinstance(gains, float):
        planes *= gains
        return
    row = interleaved(planes)
    if row is None:
        planes *= gains
    else:
        row *= np.repeat(gains, CHANNELS)


def half_cosine(samples: int) -> NDArray[np.float64]:
    """The ramp from 0 to 1 within so many samples: it has no audible corners."""
    ramp: NDArray[np.float64] = 0.5 - 0.5 * np.cos(np.pi * (np.arange(samples) + 0.5) / samples)
    return ramp


def frames_in(planes: Planes) -> int:
    return int(planes.shape[1]) // FRAME_SAMPLES
