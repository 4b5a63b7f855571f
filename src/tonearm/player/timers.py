"""The timers of a player, and how long it waits for a source that gives no audio."""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.call_later import CallLater, Cancellable
from tonearm.core.play_queue import SourceId

STUCK_AFTER_S: Final = 10.0
GIVE_UP_AFTER_S: Final = 20.0  # after the source was reported as stuck
LIVE_PAUSE_S: Final = 10.0
IDLE_S: Final = 2.0  # a player without a track closes its session after this: most get the next track at once
START_TIMEOUT_S: Final = 30.0


class Alarm(Enum):
    """The timers of a player."""

    STALL = "stall"  # the current source gives no audio
    SLEEP = "sleep"  # the player falls asleep, or an event is due in its sleep
    REST = "rest"  # nothing should play, or a paused live stream has moved on, so that its buffer is out of date


TimerName: TypeAlias = Alarm | SourceId
"""The number of a source stands for an overlay that gives no audio."""


class Patience(NamedTuple):
    """A source without audio is reported after `stuck_after_s`, and given up after further `give_up_after_s`."""

    stuck_after_s: float
    give_up_after_s: float

    @property
    def in_all_s(self) -> float:
        return self.stuck_after_s + self.give_up_after_s


PATIENCE_IN_MID_TRACK: Final = Patience(STUCK_AFTER_S, GIVE_UP_AFTER_S)


def patience_at_start(timeout_s: float) -> Patience:
    """The patience with a source that has given no audio yet and has `timeout_s` in total."""
    stuck_after_s = min(STUCK_AFTER_S, timeout_s / 3)
    return Patience(stuck_after_s, timeout_s - stuck_after_s)


class Timers:
    """All timers of one player. `ring` gets the name of each timer that goes off."""

    def __init__(self, call_later: CallLater, ring: Callable[[TimerName], None]) -> None:
        self._call_later = call_later
        self._ring = ring
        self._timers: dict[TimerName, tuple[Hashable, Cancellable]] = {}  # each with its cause

    def follow(self, name: TimerName, cause: Hashable | None, delay_s: float = 0.0) -> None:
        """Starts a timer for `cause`, which goes off once, after `delay_s`. The same cause again changes nothing,
        another cause starts the timer anew, and None stops it."""
        before = self._timers.get(name)
        if before is not None:
            if before[0] == cause:
                return
            before[1].cancel()
            del self._timers[name]
        if cause is not None:
            self._timers[name] = cause, self._call_later(delay_s, lambda: self._ring(name))

    def start(self, name: TimerName, delay_s: float) -> None:
        """Starts a timer anew, so that it goes off after `delay_s` from now."""
        self.follow(name, None)
        self.follow(name, True, delay_s)

    def stop(self) -> None:
        for name in tuple(self._timers):
            self.follow(name, None)
