"""A burst for streams that listen to a player from its start: frames are sent before their time.

A stream begins with a burst of audio, since Chromium plays nothing before it has read 32 KiB (two seconds at 128
kbit/s). A player that has just begun has sent too little for a burst. So while all its listeners are streams that want
a burst, the player sends several frames at each tick, until it has sent as much as the burst is long. From then on it
is ahead of its listeners by the length of the burst, as it is with every other stream.
"""

from collections.abc import Callable
from typing import Final

from tonearm.core.frame import FRAME_MS
from tonearm.player.clock import Clock
from tonearm.player.sending import Sending

_MOST_FRAMES: Final = 8  # are sent early at a tick
_KEPT_FRAMES: Final = 15  # stay in the buffer (300 ms), so that sending early causes no underrun


class HeadStart:
    """A player's second member of the clock, beside its engine. `send_frame` sends a frame, as a tick of the engine.
    `burst_ms` gives the shortest burst that the listeners want; 0 without listeners, and where one wants none."""

    def __init__(
        self, sending: Sending, send_frame: Callable[[], None], burst_ms: Callable[[], int], clock: Clock
    ) -> None:
        self._sending = sending
        self._send_frame = send_frame
        self._burst_ms = burst_ms
        self._clock = clock

    def follow(self) -> None:
        """To be called when listeners came or went, and when the player begins or stops to send."""
        if self._missing_frames > 0:
            self._clock.join(self)
        else:
            self._clock.leave(self)

    def stop(self) -> None:
        self._clock.leave(self)

    def tick(self) -> None:
        sending = self._sending
        frames = min(_MOST_FRAMES, self._missing_frames, sending.frames_to_spare - _KEPT_FRAMES)
        if frames > 0:
            for _ in range(frames):
                self._send_frame()
            sending.grant()
        self.follow()

    def ticks_skipped(self, count: int) -> None:
        """Frames that were to be early are sent less early: nothing is lost."""

    @property
    def _missing_frames(self) -> int:
        return self._burst_ms() // FRAME_MS - self._sending.frames_sent
