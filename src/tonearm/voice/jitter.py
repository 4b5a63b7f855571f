"""A jitter buffer between two clocks: the node's, which sends frames, and the program's, which takes one each 20 ms.

The rules and their figures are those of docs/interface.md, "Frame numbers and clocks".
"""

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

PREFILL_FRAMES: Final = 5
HIGH_S: Final = 2.0  # after so long with more than twice the prefill one frame is dropped
MOST_FRAMES: Final = 25  # with more, all but the prefill are dropped
_MEASURED_READS: Final = 3000  # one minute; before that one frame of jitter would be taken for drift


@dataclass(slots=True)
class SourceStats:
    """Counts of frames of 20 ms: `received` from the node, `played`, `silence` played for lack of frames, `dropped`
    because there were too many, `lost` on the way. `drift_ppm`: by how much the node's clock is faster."""

    received: int = 0
    played: int = 0
    silence: int = 0
    dropped: int = 0
    lost: int = 0
    drift_ppm: float = 0.0


class JitterBuffer:
    """The event loop calls `push`, and one other thread `pop`. Neither waits: the two ends of a deque need no lock.

    `now_s` gives a monotonic time.
    """

    def __init__(
        self, now_s: Callable[[], float], *, prefill: int = PREFILL_FRAMES, capacity: int = 50, blends: bool = False
    ) -> None:
        """`prefill`: so many frames are collected before playing begins. `blends`: frames are PCM, so that a dropped
        one can be blended into the next."""
        self._now_s = now_s
        self._prefill = prefill
        self._frames: deque[bytes] = deque(maxlen=capacity)
        self._blends = blends
        self._is_filling = True
        self._not_high_s = now_s()  # when there were no more than twice the prefill
        self._run_reads = 0
        self._run_received = 0
        self.stats = SourceStats()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def is_ready(self) -> bool:
        return len(self._frames) >= self._prefill

    def push(self, payload: bytes, lost: int) -> None:
        """Adds the next frame, before which `lost` frames never came."""
        if len(self._frames) == self._frames.maxlen:
            self.stats.dropped += 1  # append drops the oldest frame
        self._frames.append(payload)
        self.stats.received += 1
        self.stats.lost += lost
        self._run_received += 1 + lost

    def pop(self) -> bytes | None:
        """The frame to play now; None for silence."""
        now_s = self._now_s()
        if len(self._frames) <= 2 * self._prefill:
            self._not_high_s = now_s
        blended = None
        if len(self._frames) > MOST_FRAMES:  # the program stood still, and old frames came all at once
            self._drop(len(self._frames) - self._prefill)
        elif now_s - self._not_high_s > HIGH_S:
            self._not_high_s = now_s
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
        """Drops the oldest frames. Returns the last dropped one."""
        last = None
        for _ in range(count):
            last = self._frames.popleft()
        self.stats.dropped += count
        return last

    def _measure(self) -> None:
        self._run_reads += 1
        if self._run_reads >= _MEASURED_READS:
            self.stats.drift_ppm = round((self._run_received / self._run_reads - 1) * 1e6, 1)


def blend(old: bytes, new: bytes) -> bytes:
    """One frame of PCM that begins as `old` and ends as `new`, so that a frame is left out without a click."""
    before, after = array("h", old), array("h", new)
    count = len(after) // 2
    mixed = array("h", bytes(len(new)))
    for index, (b, a) in enumerate(zip(before, after, strict=True)):
        at = index // 2  # both channels alike
        mixed[index] = (b * (count - at) + a * at) // count
    return mixed.tobytes()
