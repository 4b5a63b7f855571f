"""Titles of streams, kept until their sound is sent."""

from collections import deque
from typing import Final

from tonearm.core.outcome import SourceId

# Two seconds are decoded ahead; nobody could read as many titles in them.
MAX_WAITING_TITLES: Final = 200


class TitleSchedule:
    """Positions are samples (48 kHz) of the source."""

    def __init__(self) -> None:
        self._waiting: dict[SourceId, deque[tuple[int, str]]] = {}

    def add(self, source: SourceId, sample: int, title: str) -> None:
        """From `sample` on the source has this title. Later calls of a source tell of later samples."""
        self._waiting.setdefault(source, deque(maxlen=MAX_WAITING_TITLES)).append((sample, title))

    def has_some(self, source: SourceId) -> bool:
        return bool(self._waiting.get(source))

    def due(self, source: SourceId, up_to_sample: int) -> str | None:
        """The title of what is sent up to this sample, if it is a new one."""
        waiting = self._waiting.get(source)
        title = None
        while waiting and waiting[0][0] < up_to_sample:
            _, title = waiting.popleft()
        return title

    def forget(self, source: SourceId) -> None:
        self._waiting.pop(source, None)
