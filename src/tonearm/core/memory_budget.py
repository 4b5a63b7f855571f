"""What a decoder process's memory allows: how far ahead it decodes, and how many sessions it has room for.

All is given as share of what its sessions may take together: the limit without what the process took before it had any.
"""

import math
from typing import Final

LESS_AHEAD_FROM: Final = 0.6  # from here on less is decoded ahead,
LEAST_AHEAD_FROM: Final = 0.8  # and from here on as little as can be played
FULL: Final = 0.85  # for more sessions; the rest is for those that play: what they open next, and change
TOO_FULL: Final = 0.93  # some have to leave
FIRST_COST: Final = 1 / 300  # of a session, before it was measured
_LEAST_COST: Final = 1 / 5000
_MEASURED_FROM: Final = 8  # sessions, before they say what one costs
_SETTLING_REPORTS: Final = 2  # in which a new session has not taken all that it will
_FREEING_REPORTS: Final = 8  # until what sessions leave behind is free again
_MOST_SHED: Final = 0.1  # share of the sessions that leave at once


def ahead(usual: int, least: int, used: float) -> int:
    """How many samples are decoded ahead: `usual`, or less where so much is used, down to `least`."""
    spare = (LEAST_AHEAD_FROM - used) / (LEAST_AHEAD_FROM - LESS_AHEAD_FROM)
    return least + int((usual - least) * min(1.0, max(0.0, spare)))


class MemoryRoom:
    """For how many sessions more the memory of one process has room."""

    def __init__(self) -> None:
        self._used = 0.0
        self._cost = FIRST_COST
        self._begun = [0] * _SETTLING_REPORTS  # sessions that began since each of the last reports, the last one first
        self._is_refused = False
        self._reports_since_shed = _FREEING_REPORTS

    def began(self) -> None:
        """Another session was put into the process."""
        self._begun[0] += 1

    def refused(self) -> None:
        """The process had no memory for one: so none is put there before it has said how much it has."""
        self._is_refused = True

    def reported(self, used: float, sessions: int) -> None:
        """Takes what the process says, which has so many sessions."""
        self._used = used
        self._is_refused = False
        self._reports_since_shed += 1
        settled = sessions - sum(self._begun)
        if settled >= _MEASURED_FROM:
            self._cost = max(_LEAST_COST, used / settled)
        self._begun = [0, *self._begun[:-1]]

    @property
    def has_too_little(self) -> bool:
        """Whether some have to leave, so that the process can go on."""
        return self._used > TOO_FULL and self._reports_since_shed >= _FREEING_REPORTS

    def room(self, sessions: int) -> int:
        """How many sessions more have room, in a process that has so many; below 0: how many it has too many."""
        least = 0 if sessions else 1  # one can always try: where that is too much, it is the source's own fault
        if self.has_too_little:
            most = min(math.ceil(_MOST_SHED * sessions), sessions - 1)
            return least or -min(math.ceil((self._used - FULL) / self._cost), most)
        if self._is_refused:
            return least
        return max(least, math.floor((FULL - self._used) / self._cost) - sum(self._begun))

    def settled(self) -> None:
        """The sessions that it had too many have left."""
        if self.has_too_little:
            self._reports_since_shed = 0
