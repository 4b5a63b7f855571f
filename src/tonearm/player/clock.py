"""The clock of the node: every player sends a frame every 20 ms, on absolute deadlines.

The 20 ms are divided into four phases, 5 ms apart. All members of a phase share one timer and are ticked one after the
other. A phase is filled up to `PHASE_MEMBERS` before the next phase is used: one wake-up for many members costs less
CPU than four wake-ups for a quarter each.

Deadlines do not drift: a deadline is 20 ms after the deadline before, however late the tick was. A phase that is late
catches up, with at most `CATCH_UP_FRAMES` ticks at once; the clock skips and counts further missed deadlines.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from tonearm.core.figures import Lateness
from tonearm.core.frame import FRAME_MS, FRAME_S

PHASES: Final = 4
PHASE_MEMBERS: Final = 100
BEAT_MEMBERS: Final = 50
FULL_BEAT_MEMBERS: Final = 25  # where a phase has more members than `PHASE_MEMBERS`
CATCH_UP_FRAMES: Final = 10
TICK_LATE_S: Final = 0.1  # a tick that begins this late means that the node is behind
BEHIND_S: Final = 0.2  # data that came while the loop was blocked is read, decoded and rendered only afterwards
LOG_INTERVAL_S: Final = 10.0
_PHASE_S: Final = FRAME_S / PHASES
TIMER_EARLY_S: Final = 0.001  # the loop's timers count whole milliseconds, so they may fire this much early

log = logging.getLogger(__name__)


class Ticking(Protocol):
    """A member of the clock, which does the work of one frame at each tick."""

    def tick(self) -> None: ...

    def ticks_skipped(self, count: int) -> None:
        """To be called when the clock skips `count` ticks of this member, because the node is late."""


class Clock:
    """`now_s` and `call_later` come from the event loop, or from a test that sets the time.

    `frames_left_out` counts the ticks that were skipped because the node was over 200 ms late, and those at which a
    member's buffer was empty because the node was late. `times_left_out` counts how often that happened to a member.
    `lateness` has the lateness of all ticks.

    `beat` is the number of the current tick. `BEAT_MEMBERS` members of a phase share a beat; the next members, and the
    next phase, are one beat ahead. Players fetch frames on every twentieth beat. So members that share a beat fetch
    together, which saves wake-ups. The others fetch in other ticks, because a thousand players that fetch together
    would delay the following ticks. In a phase with many members fewer of them share a beat.
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
        # The next deadline of members that left, so that a member that joins again is not ticked twice within 20 ms.
        self._left_deadline_s: WeakKeyDictionary[Ticking, float] = WeakKeyDictionary()
        self._is_stopped = False
        self.frames_left_out = 0
        self.times_left_out = 0
        self.lateness = Lateness()

        self._plays_until_s = math.inf
        self._skipped_at_s = self._late_at_s = -math.inf
        self._logged_frames_left_out = 0
        self._log_again_at_s = self._origin_s
        self.beat = 0

    def join(self, member: Ticking) -> None:
        """Ticks `member` every 20 ms from now on. Its phase is the fullest phase that has room, or, when all are full,
        the phase with the fewest members."""
        if member in self._phase_of or self._is_stopped:
            return
        now_s = self._now_s()
        not_before_s = self._left_deadline_s.pop(member, now_s) - TIMER_EARLY_S
        # Deadlines are 5 ms apart, numbered from the origin; every fourth number is of the same phase.
        next_number = int((now_s - self._origin_s) / _PHASE_S) + 1
        first_number = max(next_number, math.ceil((not_before_s - self._origin_s) / _PHASE_S))
        candidates = range(first_number, first_number + PHASES)  # a deadline of each phase, the earliest one first
        number = min(candidates, key=lambda number: _rank(self._phases[number % PHASES]))
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
            self._left_deadline_s[member] = phase.deadline_s

    def play_until(self, time_s: float) -> None:
        """Sends no frame from `time_s` on, because other nodes may then play in place of this one."""
        self._plays_until_s = time_s

    @property
    def is_idle(self) -> bool:
        return not self._phase_of

    def now_s(self) -> float:
        return self._now_s()

    def next_deadline_s(self, member: Ticking) -> float:
        """The time of the member's next tick, or of the tick that it would have if it joined at once."""
        phase = self._phase_of.get(member)
        return self._left_deadline_s.get(member, self._now_s()) if phase is None else phase.deadline_s

    def resume_at(self, member: Ticking, deadline_s: float) -> None:
        """Sets the earliest time of the first tick after `member` joins. Does nothing for a member that ticks."""
        if member not in self._phase_of:
            self._left_deadline_s[member] = deadline_s

    def until_tick_s(self, member: Ticking) -> float:
        """The time until the member's next tick; a whole frame for a member that does not tick."""
        phase = self._phase_of.get(member)
        return FRAME_S if phase is None else max(0.0, phase.deadline_s - self._now_s())

    @property
    def is_behind(self) -> bool:
        """Whether a tick began over 100 ms late just now. Then frames for an empty buffer may have come without being
        read yet."""
        return self._now_s() - self._late_at_s < BEHIND_S

    def leave_out(self, member: Ticking, ticks: int = 1) -> None:
        """Counts ticks at which the member could send nothing because the node is late."""
        self.frames_left_out += ticks
        self.times_left_out += 1
        member.ticks_skipped(ticks)

    def stop(self) -> None:
        """Ends all ticks. No member can join any more."""
        self._is_stopped = True
        for member in tuple(self._phase_of):
            self.leave(member)

    def _schedule(self, phase: "_Phase") -> None:
        phase.is_scheduled = True
        call_later = self._call_later or asyncio.get_running_loop().call_later
        call_later(max(0.0, phase.deadline_s - self._now_s()), lambda: self._run(phase))

    def _run(self, phase: "_Phase") -> None:
        """One wake-up of a phase: ticks its members for each deadline that has passed, then sets the next timer."""
        phase.is_scheduled = False
        ticks = 0
        while phase.members and phase.deadline_s <= self._now_s() + TIMER_EARLY_S:
            if ticks == CATCH_UP_FRAMES:
                missed = int((self._now_s() - phase.deadline_s) / FRAME_S) + 1
                self._skip(phase, missed)
                phase.deadline_s += missed * FRAME_S
                break
            if self._now_s() >= self._plays_until_s:
                phase.deadline_s += FRAME_S * (int((self._now_s() - phase.deadline_s) / FRAME_S) + 1)
                break
            self._count_late(phase)
            first_beat = sum(divmod(round((phase.deadline_s - self._origin_s) / _PHASE_S), PHASES))
            phase.deadline_s += FRAME_S
            self._tick(phase, first_beat)
            ticks += 1
        if phase.members and not phase.is_scheduled:  # a member that left and joined in its own tick has scheduled it
            self._schedule(phase)

    @property
    def quiet_s(self) -> float:
        """For how long no tick was skipped; infinite when none ever was."""
        return self._now_s() - self._skipped_at_s

    def _count_late(self, phase: "_Phase") -> None:
        late_s = self._now_s() - phase.deadline_s
        self.lateness.add(max(0.0, late_s), len(phase.members))
        if late_s > TICK_LATE_S:
            self._late_at_s = self._now_s()

    def _tick(self, phase: "_Phase", first_beat: int) -> None:
        members = tuple(phase.members)
        on_a_beat = BEAT_MEMBERS if len(members) <= PHASE_MEMBERS else FULL_BEAT_MEMBERS
        for first in range(0, len(members), on_a_beat):
            self.beat = first_beat + first // on_a_beat
            for member in members[first : first + on_a_beat]:
                if member in phase.members:  # a member may leave in another member's tick
                    try:
                        member.tick()
                    except Exception:
                        # One member must not stop the clock for all others.
                        log.exception("a tick failed; the clock does not tick this player any more")
                        self.leave(member)

    def _skip(self, phase: "_Phase", ticks: int) -> None:
        self._skipped_at_s = self._now_s()
        for member in tuple(phase.members):
            self.leave_out(member, ticks)
        if self._now_s() >= self._log_again_at_s:
            log.warning(
                "the node is overloaded: it left out %d frames since the last such line (%d since its start), and %d "
                "players heard a gap of %d ms just now",
                self.frames_left_out - self._logged_frames_left_out,
                self.frames_left_out,
                len(phase.members),
                ticks * FRAME_MS,
            )
            self._logged_frames_left_out = self.frames_left_out
            self._log_again_at_s = self._now_s() + LOG_INTERVAL_S


class _Phase:
    """`deadline_s` is when its members are ticked next; without members it has no meaning."""

    __slots__ = ("deadline_s", "is_scheduled", "members")

    def __init__(self) -> None:
        self.members: dict[Ticking, None] = {}
        self.deadline_s = 0.0
        self.is_scheduled = False


def _rank(phase: _Phase) -> int:
    """The phase of the lowest rank gets the next member: the fullest phase with room, then the emptiest phase."""
    members = len(phase.members)
    return members if members >= PHASE_MEMBERS else -members
