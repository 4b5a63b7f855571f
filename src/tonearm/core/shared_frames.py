"""Frames of a live stream that several players of a decoder process play alike: they come to the node once.

The samples of the stream are numbered by the session that carries it; its frame n has those from n * FRAME_SAMPLES on.
The node keeps the newest of these frames, and further players get them from there. The decoder process counts by the
same rule what the node keeps, in the order in which it sends, so neither has to ask.
"""

from collections.abc import Sequence
from typing import Final

# As far apart as players of one stream usually are: 1.2 s ahead are decoded, and up to 0.8 s of that are rendered.
HELD_FRAMES: Final = 150


class HeldFrames:
    """Which frames of a stream the node holds: from `first` to before `end`."""

    def __init__(self) -> None:
        self.first = self.end = 0

    def count_from(self, frame: int) -> int:
        """How many are held from this one on."""
        return max(0, self.end - frame) if self.takes(frame) else 0

    def takes(self, frame: int) -> bool:
        """Whether frames from this one on may be added: not those of a player that is far behind the others."""
        return frame >= self.first

    def add(self, first: int, frames: int) -> None:
        """These frames came. They overlap those that are held, or follow them; otherwise they replace them."""
        if first > self.end:
            self.first = first
        self.end = max(self.end, first + frames)
        self.first = max(self.first, self.end - HELD_FRAMES)


class HeldMessages(HeldFrames):
    """The frames themselves, in the node, each as the message that listeners get."""

    def __init__(self) -> None:
        super().__init__()
        self._messages: list[bytes] = []

    def keep(self, first: int, messages: Sequence[bytes]) -> None:
        """As `add`, for frames that are taken."""
        if first > self.end:
            self._messages.clear()
        self._messages.extend(messages[max(0, self.end - first) :])
        self.add(first, len(messages))
        del self._messages[: len(self._messages) - (self.end - self.first)]

    def messages(self, first: int, frames: int) -> Sequence[bytes]:
        """Frames that are held."""
        start = first - self.first
        return self._messages[start : start + frames]
