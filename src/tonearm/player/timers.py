"""The timers of a player: for audio that is missing, at the start or in mid-track, and for live streams on pause."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from tonearm.core.play_queue import SourceId


class Cancellable(Protocol):
    def cancel(self) -> object: ...


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Cancellable]
"""Calls a function after so many seconds. It is the event loop's, or that of a test that sets the time."""

STUCK_AFTER_S: Final = 10.0
GIVE_UP_AFTER_S: Final = 20.0  # after the source was reported as stuck
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
    """Times how long a source has given no audio. `stuck` is called once in a stall, and `gave_up` when the stall goes
    on.

    While it is paused, with the player or in a queue, no time counts; afterwards the current wait begins anew. Without
    `gives_up` the source is reported as stuck, but never given up.
    """

    def __init__(
        self, call_later: CallLater, stuck: Callable[[SourceId], None], gave_up: Callable[[SourceId], None]
    ) -> None:
        self._call_later = call_later
        self._stuck = stuck
        self._gave_up = gave_up
        self._source: SourceId | None = None
        self._is_reported = False
        self._gives_up = True
        self._timer: Cancellable | None = None
        self._patience = patience_in_mid_track()

    @property
    def threshold_ms(self) -> int:
        """After how long the followed source is reported as stuck."""
        return round(self._patience.stuck_after_s * 1000)

    @property
    def limit_s(self) -> float:
        """After how long the followed source is given up."""
        return self._patience.stuck_after_s + self._patience.give_up_after_s

    def follow(self, source: SourceId | None, patience: Patience, *, is_paused: bool, gives_up: bool = True) -> None:
        """To be called with every change. `source` is the source that gives no audio, None when there is none."""
        if source != self._source:
            self._source = source
            self._patience = patience
            self._is_reported = False
            self._stop()
        self._gives_up = gives_up
        if source is None or is_paused or (self._is_reported and not gives_up):
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
        if self._gives_up:
            self._wait(source)
        self._stuck(source)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LivePause:
    """Calls `rest` when a live stream has been paused for `after_s` seconds: the stream goes on meanwhile, so what was
    buffered is out of date."""

    def __init__(self, call_later: CallLater, rest: Callable[[], None], after_s: float) -> None:
        self._call_later = call_later
        self._rest = rest
        self._after_s = after_s
        self._timer: Cancellable | None = None
        self._source: SourceId | None = None

    def follow(self, source: SourceId | None) -> None:
        """To be called with every change. `source` is the live source that is paused, None when there is none."""
        if source == self._source:
            return
        self._source = source
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if source is not None:
            self._timer = self._call_later(self._after_s, self._rest)
