"""The one ticker of the node: every player's frames leave on absolute deadlines, 20 ms apart.

Players fill one phase of it after the other: to wake up once for a hundred of them costs a sixth less CPU a frame than
four times for a quarter each (at 50 players; caches stay warm), and a hundred sends in a row take a millisecond or two.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from tonearm.core.frame import FRAME_MS

PHASES: Final = 4
PHASE_MEMBERS: Final = 100
CATCH_UP_FRAMES: Final = 10
_FRAME_S: Final = FRAME_MS / 1000
_PHASE_S: Final = _FRAME_S / PHASES
_EARLY_S: Final = 0.001  # the loop's timers are whole milliseconds: this much too early counts as in time

log = logging.getLogger(__name__)


class Ticking(Protocol):
    """Something that does one frame's work at each tick."""

    def tick(self) -> None: ...


class _Phase:
    __slots__ = ("deadline_s", "is_scheduled", "members")

    def __init__(self) -> None:
        self.members: dict[Ticking, None] = {}
        self.deadline_s = 0.0
        self.is_scheduled = False


class Clock:
    """`now_s` and `call_later` come from the event loop, or from a test that turns time by hand.

    `late_frames` counts frames whose deadline was set anew because the node was over 200 ms late. `beat` numbers the
    frame times of whoever ticks now: the same for all of a phase, one more for the next phase.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.monotonic,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        self._now_s = now_s
        self._call_later = call_later
        self._origin_s = now_s()
        self._phases = [_Phase() for _ in range(PHASES)]
        self._phase_of: dict[Ticking, _Phase] = {}
        # When the next tick of who has left would have been: who comes back at once must not tick faster for it.
        self._rests_until_s: WeakKeyDictionary[Ticking, float] = WeakKeyDictionary()
        self._is_stopped = False
        self.late_frames = 0
        self.beat = 0

    def join(self, member: Ticking) -> None:
        """Ticks `member` from the next tick of a phase that is in use and not full on, else of the emptiest one."""
        if member in self._phase_of or self._is_stopped:
            return
        now_s = self._now_s()
        rests_s = self._rests_until_s.pop(member, now_s) - now_s - _EARLY_S
        elapsed_s = now_s - self._origin_s
        coming = max(int(elapsed_s / _PHASE_S) + 1, math.ceil((elapsed_s + rests_s) / _PHASE_S))
        number = min(range(coming, coming + PHASES), key=lambda number: _order(self._phases[number % PHASES]))
        phase = self._phases[number % PHASES]
        if not phase.members:
            phase.deadline_s = self._origin_s + number * _PHASE_S
            if not phase.is_scheduled:
                self._schedule(phase)
        phase.members[member] = None
        self._phase_of[member] = phase

    def leave(self, member: Ticking) -> None:
        phase = self._phase_of.pop(member, None)
        if phase is not None:
            del phase.members[member]
            self._rests_until_s[member] = phase.deadline_s

    def until_tick_s(self, member: Ticking) -> float:
        """How long until the member's next tick; a whole frame for one that does not tick."""
        phase = self._phase_of.get(member)
        return _FRAME_S if phase is None else max(0.0, phase.deadline_s - self._now_s())

    def stop(self) -> None:
        self._is_stopped = True
        for member in tuple(self._phase_of):
            self.leave(member)

    def _schedule(self, phase: _Phase) -> None:
        phase.is_scheduled = True
        call_later = self._call_later or asyncio.get_running_loop().call_later
        call_later(max(0.0, phase.deadline_s - self._now_s()), lambda: self._run(phase))

    def _run(self, phase: _Phase) -> None:
        """One wake of a phase: as many frames as are due, at most ten, then the next deadline."""
        phase.is_scheduled = False
        sent = 0
        while phase.members and phase.deadline_s <= self._now_s() + _EARLY_S:
            if sent == CATCH_UP_FRAMES:
                missed = int((self._now_s() - phase.deadline_s) / _FRAME_S) + 1
                self.late_frames += missed * len(phase.members)
                phase.deadline_s += missed * _FRAME_S
                break
            self.beat = sum(divmod(round((phase.deadline_s - self._origin_s) / _PHASE_S), PHASES))
            phase.deadline_s += _FRAME_S
            for member in tuple(phase.members):
                if member in phase.members:
                    try:
                        member.tick()
                    except Exception:
                        # Nobody may stop the clock for all others.
                        log.exception("a tick failed; its player is not ticked any more")
                        self.leave(member)
            sent += 1
        if phase.members:
            self._schedule(phase)


def _order(phase: _Phase) -> int:
    """The smallest is filled first: the fullest that has room, or, when all are full, the one with the fewest."""
    members = len(phase.members)
    return members if members >= PHASE_MEMBERS else -members
