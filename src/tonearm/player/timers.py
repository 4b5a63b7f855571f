"""The timers of a player: for audio that is missing, at the start or in mid-track, and for live streams on pause."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from tonearm.core.play_queue import SourceId


class Cancellable(Protocol):
    def cancel(self) -> object: ...


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Cancellable]
"""Calls a function after so many seconds: the event loop's, or a test's that turns time by hand."""

STUCK_AFTER_S: Final = 10.0
GIVE_UP_AFTER_S: Final = 20.0  # after it was reported as stuck
LIVE_PAUSE_S: Final = 10.0
START_TIMEOUT_S: Final = 30.0


class Patience(NamedTuple):
    """A source that gives nothing is reported after `stuck_after_s`, and given up after `give_up_after_s` more."""

    stuck_after_s: float
    give_up_after_s: float


def patience_in_mid_track() -> Patience:
    return Patience(STUCK_AFTER_S, GIVE_UP_AFTER_S)


def patience_at_start(timeout_s: float) -> Patience:
    """For a source that has given nothing yet and has `timeout_s` in all."""
    stuck_after_s = min(STUCK_AFTER_S, timeout_s / 3)
    return Patience(stuck_after_s, timeout_s - stuck_after_s)


class StallWatch:
    """Times how long the audio of a source has been missing: `stuck` is called once in a stall, and `gave_up` when it
    goes on.

    Suspending stops the time, for a pause or a place in a queue; the current wait begins anew after it. With
    `is_patient` the source is reported, but not given up.
    """

    def __init__(
        self, call_later: CallLater, stuck: Callable[[SourceId], None], gave_up: Callable[[SourceId], None]
    ) -> None:
        self._call_later = call_later
        self._stuck = stuck
        self._gave_up = gave_up
        self._source: SourceId | None = None
        self._is_reported = False
        self._is_patient = False
        self._timer: Cancellable | None = None
        self._patience = patience_in_mid_track()

    @property
    def threshold_ms(self) -> int:
        """After how long a source like the one that is followed is reported as stuck."""
        return round(self._patience.stuck_after_s * 1000)

    @property
    def limit_s(self) -> float:
        """After how long a source like the one that is followed is given up."""
        return self._patience.stuck_after_s + self._patience.give_up_after_s

    def follow(
        self, source: SourceId | None, patience: Patience, *, is_suspended: bool, is_patient: bool = False
    ) -> None:
        """To be called with every change. `source` is the one whose audio is missing, None when none is."""
        if source != self._source:
            self._source = source
            self._patience = patience
            self._is_reported = False
            self._stop()
        self._is_patient = is_patient
        if source is None or is_suspended or (is_patient and self._is_reported):
            self._stop()
        elif self._timer is None:
            self._wait(source)

    def _wait(self, source: SourceId) -> None:
        delay_s = self._patience.give_up_after_s if self._is_reported else self._patience.stuck_after_s
        self._timer = self._call_later(delay_s, lambda: self._ring(source))

    def _ring(self, source: SourceId) -> None:
        self._timer = None
        if self._is_reported:
            self._gave_up(source)
            return
        self._is_reported = True
        if not self._is_patient:
            self._wait(source)
        self._stuck(source)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LivePause:
    """Calls `rest` when a live stream has been paused for `after_s` seconds: it goes on meanwhile, and what was
    buffered is not worth keeping."""

    def __init__(self, call_later: CallLater, rest: Callable[[], None], after_s: float) -> None:
        self._call_later = call_later
        self._rest = rest
        self._after_s = after_s
        self._timer: Cancellable | None = None
        self._source: SourceId | None = None

    def follow(self, source: SourceId | None) -> None:
        """To be called with every change. `source` is the live one that is paused, None when none is."""
        if source == self._source:
            return
        self._source = source
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if source is not None:
            self._timer = self._call_later(self._after_s, self._rest)
