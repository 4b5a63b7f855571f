"""The timers of a player, and how long it waits for a source that gives no audio."""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.call_later import CallLater, Cancellable
from tonearm.core.play_queue import SourceId

STUCK_AFTER_S: Final = 10.0
GIVE_UP_AFTER_S: Final = 20.0  # after the source was reported as stuck
LIVE_PAUSE_S: Final = 10.0
IDLE_S: Final = 2.0  # a player with nothing to play closes its session then: most get the next track at once
START_TIMEOUT_S: Final = 30.0


class Alarm(Enum):
    """What a player has a timer for."""

    STALL = "stall"  # the current source gives no audio
    SLEEP = "sleep"  # the player falls asleep, or something is due in its sleep
    REST = "rest"  # nothing is to sound, or a paused live stream has gone on, so that what was buffered is out of date


TimerName: TypeAlias = Alarm | SourceId
"""The number of a source stands for an overlay that gives no audio."""


class Patience(NamedTuple):
    """A source that gives nothing is reported after `stuck_after_s`, and given up after `give_up_after_s` more."""

    stuck_after_s: float
    give_up_after_s: float

    @property
    def in_all_s(self) -> float:
        return self.stuck_after_s + self.give_up_after_s


PATIENCE_IN_MID_TRACK: Final = Patience(STUCK_AFTER_S, GIVE_UP_AFTER_S)


def patience_at_start(timeout_s: float) -> Patience:
    """The patience with a source that has given nothing yet and has `timeout_s` in all."""
    stuck_after_s = min(STUCK_AFTER_S, timeout_s / 3)
    return Patience(stuck_after_s, timeout_s - stuck_after_s)


class Timers:
    """All timers of one player. `ring` gets the name of each timer that goes off."""

    def __init__(self, call_later: CallLater, ring: Callable[[TimerName], None]) -> None:
        self._call_later = call_later
        self._ring = ring
        self._timers: dict[TimerName, tuple[Hashable, Cancellable]] = {}  # each with its cause

    def follow(self, name: TimerName, cause: Hashable | None, delay_s: float = 0.0) -> None:
        """Has a timer go off once for each cause, `delay_s` after the cause was given. None stops the timer."""
        before = self._timers.get(name)
        if before is not None:
            if before[0] == cause:
                return
            before[1].cancel()
            del self._timers[name]
        if cause is not None:
            self._timers[name] = cause, self._call_later(delay_s, lambda: self._ring(name))

    def start(self, name: TimerName, delay_s: float) -> None:
        """Has a timer go off once more, `delay_s` from now, and only then."""
        self.follow(name, None)
        self.follow(name, True, delay_s)

    def stop(self) -> None:
        for name in tuple(self._timers):
            self.follow(name, None)
