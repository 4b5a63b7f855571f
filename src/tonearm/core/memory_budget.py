"""The memory budget of a decoder process: how far ahead it decodes, and for how many sessions it has room.

All values are shares of the memory that its sessions may take together: the process's limit without what the process
took before its first session.
"""

import math
from typing import Final

LESS_AHEAD_FROM: Final = 0.6  # with more in use less is decoded ahead
LEAST_AHEAD_FROM: Final = 0.8  # with more in use only the minimum for playback is decoded ahead
FULL_MEMORY: Final = 0.85  # with more in use no session is admitted; the rest is for the present sessions
TOO_FULL_MEMORY: Final = 0.93  # sessions have to leave
FIRST_MEMORY_COST: Final = 1 / 300  # of a session, before any was measured
_LEAST_MEMORY_COST: Final = 1 / 5000
_MEASURED_FROM_SESSIONS: Final = 8  # the average cost is used from this number of sessions on
_SETTLING_REPORTS: Final = 2  # after this number a new session uses all of its memory
SETTLING_BYTES: Final = 1_500_000  # which a session takes after its source was opened
LEAST_SESSION_BYTES: Final = 500_000  # the least that a playing session takes
_FREEING_REPORTS: Final = 8  # after this number the memory of sessions that left is free
MOST_SHED: Final = 0.1  # share of the sessions that leave at once


def ahead(usual: int, least: int, used: float) -> int:
    """How many samples are decoded ahead when the share `used` is in use: from `usual` down to `least`."""
    spare = (LEAST_AHEAD_FROM - used) / (LEAST_AHEAD_FROM - LESS_AHEAD_FROM)
    return least + int((usual - least) * min(1.0, max(0.0, spare)))


def promised_bytes(now_bytes: int, before_bytes: int, begun: int, *, plays_on: bool) -> int:
    """How many bytes sessions will use once the `begun` new ones have all of their memory. `now_bytes` are in use, and
    `before_bytes` were in use before these began.

    `plays_on`: the question is for one of several sessions that played in another process a moment ago. They had room
    there, so their memory here is not counted twice, and no more than the certain minimum is expected.
    """
    if plays_on:
        return max(now_bytes, before_bytes + begun * LEAST_SESSION_BYTES)
    return now_bytes + begun * SETTLING_BYTES


class MemoryRoom:
    """For how many more sessions the memory of one process has room. `used` is the share in use."""

    def __init__(self) -> None:
        self.used = 0.0
        self._cost = FIRST_MEMORY_COST
        self._begun = [0] * _SETTLING_REPORTS  # sessions that began since each of the last reports, the last one first
        self._had: list[int] = []  # the most sessions before each of the last reports, the last one first
        self._sessions = 0  # at the last report
        self._is_refused = False
        self._reports_since_shed = _FREEING_REPORTS

    def began(self) -> None:
        self._begun[0] += 1

    def refused(self) -> None:
        """The process had no memory for a session, so it gets no further one before its next report."""
        self._is_refused = True

    def reported(self, used: float, sessions: int) -> None:
        """Takes a report of the process: `sessions` sessions use the share `used`."""
        self.used = used
        self._is_refused = False
        self._reports_since_shed += 1
        self._had = [self._sessions + self._begun[0], *self._had[: _FREEING_REPORTS - 1]]
        self._sessions = sessions
        # Sessions that have left count as well: their memory is in use until it is returned to the system.
        settled = max(self._had[_SETTLING_REPORTS:], default=0)
        if settled >= _MEASURED_FROM_SESSIONS:
            self._cost = max(_LEAST_MEMORY_COST, used / settled)
        self._begun = [0, *self._begun[:-1]]

    @property
    def has_too_little(self) -> bool:
        """Whether sessions have to leave for the process to continue."""
        return self.used > TOO_FULL_MEMORY and self._reports_since_shed >= _FREEING_REPORTS

    def room(self, sessions: int) -> int:
        """How many more sessions have room beside the present ones. A negative number says how many are too many."""
        least = 0 if sessions else 1  # one session is always admitted; if it takes too much memory, its source fails
        if self.has_too_little:
            most = min(math.ceil(MOST_SHED * sessions), sessions - 1)
            return least or -min(math.ceil((self.used - FULL_MEMORY) / self._cost), most)
        if self._is_refused:
            return least
        return max(least, math.floor((FULL_MEMORY - self.used) / self._cost) - min(sum(self._begun), sessions))

    def settled(self) -> None:
        """To be called when the surplus sessions have left."""
        if self.has_too_little:
            self._reports_since_shed = 0
