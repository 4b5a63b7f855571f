"""Admission of sessions to decoder processes: in an overload, players that play continue and the newest ones wait.

Scheduling by deadline alone would make all players lose frames together. So a process gets no more sessions than it can
serve, except for a few sessions with listeners. `Capacity` computes the room for sessions from a process's reports.
`settle` decides after a report which sessions enter and leave; `enter` decides it for one session between two reports.
Until the next report, `yields_s` makes the newest sessions late first.
"""

import heapq
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from operator import itemgetter
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from tonearm.core.memory_budget import MOST_SHED, MemoryRoom

FULL_TIME: Final = 0.9  # share of a process's time; the rest is for bursts
CALM: Final = 0.75  # share of a process's time below which an overload has passed
AT_EASE: Final = 0.5  # share of a process's time and of its memory below which it reports less often
OVERLOAD_LATE_S: Final = 0.25  # work later than this in `LATE_REPORTS` reports is an overload
LATE_REPORTS: Final = 2
AVERAGED_REPORTS: Final = 4  # work comes in bursts of up to 0.8 s, as grants do
CLOSED_S: Final = 5.0  # for so long after an overload no session is admitted; twice as long after the next overload
LONGEST_CLOSED_S: Final = 40.0
FIRST_TIME_COST: Final = 1 / 200  # of a session, as share of a process's time, before any was measured
LEAST_TIME_COST: Final = 1 / 5000
_MEASURED_FROM_S: Final = 2.0  # of audio in the averaged reports, from which on the cost is measured
_LEAST_SHED: Final = 0.05  # share of the sessions that leave at once
_SHED_PAUSE_S = 1.5  # the delay until reports show that sessions have left
CAREFUL_S: Final = 120.0  # for so long after an overload fewer sessions than the process had are admitted
SLOWLY_S: Final = 600.0  # for so long few are admitted at once, because starting sessions slow down those that play
_GROWTH = 0.05  # share of its earlier sessions that enter at once in that time
_PROBE = 0.02  # share of the sessions that enter at once without lateness, though all the time is used or was
_IN_TIME_S: Final = 0.05
_START_CLOSED_S: Final = 1.0
NEWEST_YIELDS_S: Final = 0.6  # less than the time that is rendered ahead of a source's deadline
LISTENERS_AT_ONCE: Final = 4
UNHEARD_IN_TURN: Final = 2.0  # times as many enter between two reports as have room at once, because most leave soon
KEPT_S: Final = 2.0  # for so long a player without a listener keeps its claim, because the listener may return at once
_STARTING_S = 2.0  # for so long many sessions that began together cost more than later on

_T = TypeVar("_T")


class Urgency(IntEnum):
    """The urgency of a session: the lower the value, the more urgent."""

    PLAYS = 0  # the player has listeners, or had some a moment ago, and has sent audio
    STARTS = 1  # likewise, but it has sent no audio yet
    UNHEARD = 2  # the player has had no listeners for `KEPT_S`, or is paused


class Claim(NamedTuple):
    """A session's claim to be served: the lower claim is first. With equal urgency the lower number is first, because
    its session asked earlier."""

    urgency: Urgency
    number: int

    def unheard(self, seconds: float) -> "Claim":
        """The claim of a player that has had no listener for `KEPT_S`."""
        return self if seconds < KEPT_S else self._replace(urgency=Urgency.UNHEARD)


ALWAYS: Final = Claim(Urgency.PLAYS, 0)  # for a session that never leaves, because others depend on it or it ends soon


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The work of a decoder process since its last report, `seconds` ago.

    `busy_s`: how long the process worked. `sound_s`: the part of `busy_s` in which its busiest thread made audio,
    instead of opening sources. `made_s`: the seconds of audio that all sessions together made. `late_s`: the greatest
    lateness of work for a listener, because other work came first. `memory`: the used share of the memory for sessions.
    """

    seconds: float
    busy_s: float
    sound_s: float
    made_s: float
    late_s: float
    memory: float = 0.0


class _Load:
    """The averaged reports of a process: the use of its time, and the cost of a session."""

    def __init__(self) -> None:
        self.cost = FIRST_TIME_COST
        self.late_reports = 0  # in a row
        self._reports: list[LoadReport] = []
        self._begun: list[int] = [0]  # sessions that began since each of the averaged reports, the last one first

    def began(self) -> None:
        self._begun[0] += 1

    def reported(self, load: LoadReport) -> None:
        self._reports = [load, *self._reports[: AVERAGED_REPORTS - 1]]
        self._begun = [0, *self._begun[: AVERAGED_REPORTS - 1]]
        if self._is_measured:
            self.cost = max(LEAST_TIME_COST, self._sum("sound_s") / self._sum("made_s"))
        self.late_reports = self.late_reports + 1 if load.late_s > OVERLOAD_LATE_S else 0

    @property
    def begun(self) -> int:
        return sum(self._begun)

    @property
    def begun_since_report(self) -> int:
        return self._begun[0]

    @property
    def is_known(self) -> bool:
        return len(self._reports) == AVERAGED_REPORTS

    @property
    def busy(self) -> float:
        seconds = self._sum("seconds")
        return self._sum("busy_s") / seconds if seconds else 0.0

    @property
    def makes_sound_all_the_time(self) -> bool:
        return self._is_measured and self._sum("sound_s") > FULL_TIME * self._sum("seconds")

    @property
    def is_in_time(self) -> bool:
        return self.is_known and all(report.late_s <= _IN_TIME_S for report in self._reports)

    @property
    def _is_measured(self) -> bool:
        return self._sum("made_s") >= _MEASURED_FROM_S

    def _sum(self, of: Literal["seconds", "busy_s", "sound_s", "made_s"]) -> float:
        total: float = sum(getattr(report, of) for report in self._reports)
        return total


class _Phase(Enum):
    """How many sessions a process admits, from the most to none."""

    OPEN = auto()  # as many as its time allows
    SLOW = auto()  # few at once, and slowly more than it had in its last overload: for `SLOWLY_S` after it
    CAREFUL = auto()  # few at once, and fewer than it had: for `CAREFUL_S`
    CLOSED = auto()  # none: it is late, or was a moment ago
    SHEDS = auto()  # none, and some leave


class Capacity:
    """The room for sessions in one process. Times are seconds of a monotonic clock; callers pass them in.

    `listeners_at_once`: how many sessions with listeners may enter a full process between two reports.
    """

    def __init__(self, listeners_at_once: int = LISTENERS_AT_ONCE) -> None:
        self._listeners_at_once = listeners_at_once
        self._let_in = 0  # sessions with listeners that entered without room since the last report
        self._load = _Load()
        self._memory = MemoryRoom()
        self._last_late_s = 0.0
        self._grown_at_s = -math.inf
        self._sheds = False
        self._shed_at_s = -math.inf
        self._closed_s = CLOSED_S
        self._closed_until_s = -math.inf
        self._full_at_s = -math.inf  # of the last overload by sessions that play, instead of those that open
        self._full_with = 0  # sessions that it had then

    def _phase(self, now_s: float) -> _Phase:
        if self._sheds:
            return _Phase.SHEDS
        if self._load.late_reports or now_s < self._closed_until_s:
            return _Phase.CLOSED
        if now_s < self._full_at_s + CAREFUL_S:
            return _Phase.CAREFUL
        return _Phase.SLOW if now_s < self._full_at_s + SLOWLY_S else _Phase.OPEN

    def began(self) -> None:
        """Notes a new session of the process, whose cost the reports do not contain yet."""
        self._load.began()
        self._memory.began()

    def take_listener(self, now_s: float) -> bool:
        """Whether a session with listeners may enter a full process that has a session without listeners. With the next
        report it would take the place of that session, so its listeners need not wait for the report. This is allowed
        for a few sessions, and not in an overload or soon after it."""
        if self._phase(now_s) not in (_Phase.OPEN, _Phase.SLOW) or self._let_in >= self._listeners_at_once:
            return False
        self._let_in += 1
        return True

    def refused(self) -> None:
        """Notes that the process had no memory for a session."""
        self._memory.refused()

    def reported(self, load: LoadReport, sessions: int, now_s: float) -> None:
        """Takes a report of the process, which has `sessions` sessions."""
        self._memory.reported(load.memory, sessions)
        self._load.reported(load)
        is_worse = load.late_s >= self._last_late_s
        self._last_late_s = load.late_s
        self._sheds, self._let_in = False, 0
        if self._load.begun > MOST_SHED * sessions:
            self._grown_at_s = now_s
        if self._load.late_reports >= LATE_REPORTS and is_worse and now_s >= self._shed_at_s + _SHED_PAUSE_S:
            if now_s < self._grown_at_s + _STARTING_S:
                self._closed_until_s = max(self._closed_until_s, now_s + _START_CLOSED_S)
            else:
                self._sheds = True
                self._close(sessions, now_s)
        elif self._load.is_known and self._load.busy < CALM:
            self._closed_until_s = -math.inf

    @property
    def is_at_ease(self) -> bool:
        """Whether the process has little work and no new sessions, so that its next report may come later."""
        is_quiet = self._load.is_known and not self._load.begun and not self._load.late_reports and not self._sheds
        return is_quiet and self._load.busy < AT_EASE and self._memory.used < AT_EASE

    @property
    def is_late(self) -> bool:
        """Whether even playing sessions have to leave, so that the others continue."""
        return self._sheds or self._memory.has_too_little

    def has_memory(self, sessions: int) -> bool:
        """Whether the process has memory for one more session. It may still lack CPU time."""
        return self._memory.room(sessions) > 0

    def room(self, sessions: int, now_s: float) -> int:
        """How many more sessions the process can take beside its `sessions`. A negative number says how many are too
        many.

        Unless `is_late`, the surplus sessions have not begun, and cannot, because all time goes to those that play.
        """
        return min(self._memory.room(sessions), self._room_in_time(sessions, self._phase(now_s)))

    def _room_in_time(self, sessions: int, phase: _Phase) -> int:
        load = self._load
        wanted = FULL_TIME / load.cost
        if phase is _Phase.SHEDS:
            least, most = math.ceil(_LEAST_SHED * sessions), math.ceil(MOST_SHED * sessions)
            return -min(max(least, math.ceil(sessions - wanted)), most)
        if phase is _Phase.CLOSED:
            return 0
        if load.busy > FULL_TIME and sessions > 1 / load.cost:
            return -math.ceil(sessions - 1 / load.cost)
        # Opening many sources takes time for a moment only, so the number of sessions may show room when the time does
        # not. This does not hold when audio takes all the time: a cost that was measured too low would admit too many.
        by_time = (FULL_TIME - load.busy) / load.cost - min(load.begun, sessions)
        by_number = 0.0 if load.makes_sound_all_the_time else (wanted - sessions) / 2
        probe = math.ceil(_PROBE * sessions) if load.is_in_time and not load.begun else 0
        room = max(math.floor(max(by_time, by_number)), probe)
        if phase is not _Phase.OPEN:
            least_late = math.floor(FULL_TIME * self._full_with)
            if sessions < least_late:
                at_once = math.ceil(_GROWTH * self._full_with) - load.begun_since_report
                room = min(room, at_once, least_late - sessions)
            else:
                room = 0 if phase is _Phase.CAREFUL and load.busy >= AT_EASE else probe
        return max(0 if sessions else 1, room)  # a lower cost can only be measured with a session

    def settled(self) -> None:
        """To be called when the surplus sessions have left."""
        self._sheds = False
        self._memory.settled()

    def _close(self, sessions: int, now_s: float) -> None:
        is_another = now_s > self._closed_until_s
        if sessions > FULL_TIME / self._load.cost / 2:  # with fewer sessions, openings take the time
            if is_another or self._full_at_s < self._shed_at_s:
                self._full_with = sessions
            self._full_at_s = now_s
        if is_another:
            was_soon = now_s - self._shed_at_s < 2 * self._closed_s
            self._closed_s = min(2 * self._closed_s, LONGEST_CLOSED_S) if was_soon else CLOSED_S
        self._shed_at_s = now_s
        self._closed_until_s = now_s + self._closed_s


def yields_s(place: int, sessions: int) -> float:
    """How far a session puts the deadlines of older sessions before its own. `place`: how many of the `sessions` of its
    process are older. If the process cannot do all work in time, only the newest sessions are late."""
    return NEWEST_YIELDS_S * place / sessions


class Entry(NamedTuple, Generic[_T]):
    """Whether a session enters a process, and which session leaves for it."""

    comes: bool
    leaves: _T | None = None


def enter(
    one: _T,
    carried: Collection[_T],
    waiting: Collection[_T],
    capacity: Capacity,
    claim: Callable[[_T], Claim],
    now_s: float,
    *,
    is_admitted: bool,
) -> Entry[_T]:
    """Whether `one`, which `settle` may have admitted, enters a process between two reports.

    A session that plays enters even without room, unless it waited. Other sessions enter in the order of their claims.
    When memory is short, a session with listeners takes the place of the newest session without listeners in `carried`.
    """
    claimed, has_waited = claim(one), one in waiting
    has_memory = capacity.has_memory(len(carried))
    if claimed.urgency is Urgency.UNHEARD and not has_memory:
        return Entry(comes=False)
    if is_admitted:
        return Entry(comes=True)
    if claimed.urgency is Urgency.PLAYS and not has_waited:
        if has_memory:
            return Entry(comes=True)
    elif has_memory and capacity.room(len(carried), now_s) > 0:
        return Entry(comes=has_waited or _is_first(claimed, waiting, claim))
    elif claimed.urgency is not Urgency.STARTS or not _is_first(claimed, waiting, claim):
        return Entry(comes=False)
    unheard = [other for other in carried if claim(other).urgency is Urgency.UNHEARD]
    if not unheard or (claimed.urgency is Urgency.STARTS and not capacity.take_listener(now_s)):
        return Entry(comes=False)
    return Entry(comes=True, leaves=None if has_memory else max(unheard, key=claim))


def _is_first(claimed: Claim, waiting: Iterable[_T], claim: Callable[[_T], Claim]) -> bool:
    return not any(claim(other) < claimed for other in waiting)


def settle(
    carried: Iterable[_T], waiting: Iterable[_T], room: int, claim: Callable[[_T], Claim], *, spares_players: bool
) -> tuple[list[_T], list[_T], list[_T]]:
    """The sessions that leave a process, the least urgent first, and the waiting sessions that enter it: those with
    listeners, and those that are `UNHEARD`.

    `room` is `Capacity.room`. A waiting session with listeners takes the place of an `UNHEARD` one in `carried`. With
    `spares_players`, no session that plays leaves. More `UNHEARD` sessions are returned than have room at once: they
    should enter one after the other, and only while there is room.
    """
    if room < 0:
        may_leave = [one for one in carried if claim(one) != ALWAYS]
        leaving = [one for one in may_leave if not (spares_players and claim(one).urgency is Urgency.PLAYS)]
        return heapq.nlargest(-room, leaving, key=claim), [], []
    heard: list[tuple[Claim, _T]] = []
    unheard: list[tuple[Claim, _T]] = []
    for one in waiting:  # thousands, of which few have listeners
        claimed = claim(one)
        (unheard if claimed.urgency is Urgency.UNHEARD else heard).append((claimed, one))
    heard.sort(key=itemgetter(0))
    in_turn = math.ceil(UNHEARD_IN_TURN * (room - len(heard)))
    unheard = heapq.nsmallest(in_turn, unheard, key=itemgetter(0))
    without_room = max(0, len(heard) - room)
    going = [one for one in carried if claim(one).urgency is Urgency.UNHEARD] if without_room else []
    leaving = heapq.nlargest(without_room, going, key=claim)
    return leaving, [one for _, one in heard[: room + len(leaving)]], [one for _, one in unheard]
