"""How evenly frames arrive."""

from typing import Final

from tonearm.core.frame import FRAME_MS

_FRAME_S: Final = FRAME_MS / 1000
_TOLERANCE_S: Final = 2 * _FRAME_S
_GIVE_UP_S: Final = 1.0


class Pacing:
    """Counts frames that arrive more than two frame lengths after they were due. Times are seconds of one clock."""

    def __init__(self) -> None:
        self.late_frames = 0
        self._due_s: float | None = None

    def arrived(self, now_s: float) -> None:
        # The frame that came earliest sets the pace, else the jitter of the very first would.
        due_s = now_s if self._due_s is None else min(self._due_s, now_s)
        lateness_s = now_s - due_s
        if lateness_s > _TOLERANCE_S:
            self.late_frames += 1
        # After a long hole the node does not catch up either.
        self._due_s = (now_s if lateness_s > _GIVE_UP_S else due_s) + _FRAME_S

    def interrupted(self) -> None:
        """The player paused, ended a track or the like: the next frame sets the pace anew."""
        self._due_s = None
