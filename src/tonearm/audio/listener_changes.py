"""Reports how many listeners a player has when that changes, once a second at most."""

from collections.abc import Callable
from typing import Final

from tonearm.audio.timers import CallLater, Cancellable

INTERVAL_S: Final = 1.0


class ListenerChanges:
    """Calls `report` with the number of listeners: at once after a quiet second, else when the second is over."""

    def __init__(self, call_later: CallLater, report: Callable[[int], None]) -> None:
        self._call_later = call_later
        self._report = report
        self._listeners = 0
        self._reported = 0
        self._timer: Cancellable | None = None

    def changed(self, listeners: int) -> None:
        """To be called whenever a listener has come or gone."""
        self._listeners = listeners
        if self._timer is None:
            self._report_change()

    def close(self) -> None:
        """Ends all reports."""
        if self._timer is not None:
            self._timer.cancel()
        self._reported = self._listeners

    def _report_change(self) -> None:
        self._timer = None
        if self._listeners != self._reported:
            self._reported = self._listeners
            self._timer = self._call_later(INTERVAL_S, self._report_change)
            self._report(self._listeners)
