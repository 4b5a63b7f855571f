"""Sound ahead of its time for streams that listen to a young player: as much as an older one would have behind it.

Chromium reads streams in pieces of 32 KiB and begins to play with the first whole one: two seconds at 128 kbit/s. A
player that has not played for so long has no burst of that length. So while all who listen are streams that begin with
a burst, it sends more than a frame at each tick, until it has sent as much as their burst. They are late by no more
than every other stream, and for whoever comes later the player is a little further on.
"""

from collections.abc import Callable
from typing import Final, Protocol

from tonearm.core.frame import FRAME_MS
from tonearm.player.clock import Clock

_MOST_FRAMES: Final = 8  # at a tick, beside the one that is due
_KEPT_FRAMES: Final = 15  # stay in the buffer: 300 ms, so that nothing runs dry for it


class SendsFrames(Protocol):
    """The sending of the player."""

    @property
    def frames_to_spare(self) -> int:
        """How many frames could be sent at once. 0 where more would not come as fast as that."""
        ...

    @property
    def frames_sent(self) -> int:
        """In the life of the player."""
        ...

    def grant(self) -> None:
        """Has the next frames rendered."""
        ...


class HeadStart:
    """A player's member of the clock beside its engine, whose ticks `send_frame` makes more of. `burst_ms` gives the
    shortest burst of all that listen; 0 where nobody does, or somebody has all that a stream begins with."""

    def __init__(
        self, sending: SendsFrames, send_frame: Callable[[], None], burst_ms: Callable[[], int], clock: Clock
    ) -> None:
        self._sending = sending
        self._send_frame = send_frame
        self._burst_ms = burst_ms
        self._clock = clock

    def follow(self) -> None:
        """To be called when listeners came or went, and when the player begins to send or to stand still."""
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
        """What is late here is only ahead by less."""

    @property
    def _missing_frames(self) -> int:
        return self._burst_ms() // FRAME_MS - self._sending.frames_sent
