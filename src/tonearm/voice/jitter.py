"""Frames between two clocks: the node's, which sends them, and the program's, which takes one each 20 ms.

The rules and their figures are those of docs/interface.md, "Frame numbers and clocks".
"""

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FEW: Final = 5
MANY: Final = 10  # for so long as `MANY_S`: then one frame too many has come
MANY_S: Final = 2.0
FAR_TOO_MANY: Final = 25
_MEASURABLE: Final = 3000  # reads, a minute: before that a frame more or less is jitter


@dataclass(slots=True)
class SourceStats:
    """In frames of 20 ms: `received` of the node, `played`, `silence` in their place, `dropped` because they were too
    many, `lost` before they came. `drift_ppm`: by how much the node's clock is faster."""

    received: int = 0
    played: int = 0
    silence: int = 0
    dropped: int = 0
    lost: int = 0
    drift_ppm: float = 0.0


class JitterBuffer:
    """`came` is called by the event loop, `due` by one other thread. Neither ever waits: a deque's two ends need no
    lock. `now_s` is any clock that only goes forward."""

    def __init__(
        self, now_s: Callable[[], float], *, prefill: int = FEW, capacity: int = 50, blends: bool = False
    ) -> None:
        """`blends`: frames are PCM, and two of them can be made one."""
        self._now_s = now_s
        self._prefill = prefill
        self._frames: deque[bytes] = deque(maxlen=capacity)
        self._blends = blends
        self._is_filling = True
        self._few_s = now_s()
        self._run_reads = 0
        self._run_received = 0
        self.stats = SourceStats()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def is_ready(self) -> bool:
        return len(self._frames) >= self._prefill

    def came(self, payload: bytes, lost: int) -> None:
        """The next frame; so many before it never came."""
        if len(self._frames) == self._frames.maxlen:
            self.stats.dropped += 1  # the oldest one gives way
        self._frames.append(payload)
        self.stats.received += 1
        self.stats.lost += lost
        self._run_received += 1 + lost

    def due(self) -> bytes | None:
        """The frame to play; None for silence."""
        now_s = self._now_s()
        if len(self._frames) <= 2 * self._prefill:
            self._few_s = now_s
        blended = None
        if len(self._frames) > FAR_TOO_MANY:  # the program stood still, and all that is old comes at once
            self._drop(len(self._frames) - self._prefill)
        elif now_s - self._few_s > MANY_S:
            self._few_s = now_s
            blended = self._drop(1)
        if self._is_filling and not self.is_ready:
            self.stats.silence += 1
            return None
        try:
            frame = self._frames.popleft()
        except IndexError:
            self._is_filling = True
            self.stats.silence += 1
            return None
        if self._is_filling:
            self._is_filling = False
            self._run_reads = self._run_received = 0
        self._measure()
        self.stats.played += 1
        return blend(blended, frame) if blended is not None and self._blends else frame

    def _drop(self, count: int) -> bytes | None:
        """The oldest ones; the last of them."""
        last = None
        for _ in range(count):
            last = self._frames.popleft()
        self.stats.dropped += count
        return last

    def _measure(self) -> None:
        self._run_reads += 1
        if self._run_reads >= _MEASURABLE:
            self.stats.drift_ppm = round((self._run_received / self._run_reads - 1) * 1e6, 1)


def blend(old: bytes, new: bytes) -> bytes:
    """One frame of PCM that begins as `old` and ends as `new`: 20 ms are left out, and no click is heard."""
    before, after = array("h", old), array("h", new)
    count = len(after) // 2
    mixed = array("h", bytes(len(new)))
    for index, (b, a) in enumerate(zip(before, after, strict=True)):
        at = index // 2  # both channels alike
        mixed[index] = (b * (count - at) + a * at) // count
    return mixed.tobytes()
