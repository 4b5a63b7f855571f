"""A live stream goes on while its player is paused: after a while nothing of it is worth keeping."""

from collections.abc import Callable
from typing import Final

from tonearm.audio.timers import CallLater, Cancellable
from tonearm.core.outcome import SourceId

LIVE_PAUSE_S: Final = 10.0


class LivePause:
    """Calls `rest` when a live stream has been paused for `after_s` seconds."""

    def __init__(self, call_later: CallLater, rest: Callable[[], None], after_s: float) -> None:
        self._call_later = call_later
        self._rest = rest
        self._after_s = after_s
        self._timer: Cancellable | None = None
        self._source: SourceId | None = None

    def follow(self, source: SourceId | None) -> None:
        """To be called with every change: the live source that is paused, None when none is."""
        if source == self._source:
            return
        self._source = source
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if source is not None:
            self._timer = self._call_later(self._after_s, self._rest)
