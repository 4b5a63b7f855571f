"""A live stream goes on while its player is paused: after a while nothing of it is worth keeping."""

from collections.abc import Callable
from typing import Final

from tonearm.audio.timers import CallLater, Cancellable

LIVE_PAUSE_S: Final = 10.0


class LivePause:
    """Calls `rest` when a live stream has been paused for `after_s` seconds."""

    def __init__(self, call_later: CallLater, rest: Callable[[], None], after_s: float) -> None:
        self._call_later = call_later
        self._rest = rest
        self._after_s = after_s
        self._timer: Cancellable | None = None
        self._is_paused = False

    def follow(self, *, is_paused_live: bool) -> None:
        """To be called with every change: whether what sounds is live and paused."""
        if is_paused_live == self._is_paused:
            return
        self._is_paused = is_paused_live
        if is_paused_live:
            self._timer = self._call_later(self._after_s, self._rest)
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None
