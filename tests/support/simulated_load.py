"""A node's decoder processes in driven time: sessions that cost something, earliest deadline first, and the rule of who
is carried. Nothing of it waits, so minutes pass in a moment."""

import bisect
import itertools
import math
from dataclasses import dataclass, field

from tonearm.core.admission import NEWEST_YIELDS_S, Capacity, Claim, LoadReport, Urgency, enter, settle, yields_s
from tonearm.player.sleep import SLEEP_AFTER_S

TICK_S = 0.05
REPORT_S = 0.5
CHUNK_S = 0.4  # of sound, decoded in one slot
MOST_AHEAD_S = 2.0  # 1.2 decoded, 0.8 rendered
RENDERED_S = 0.6  # of these, when a source is at its deadline
ENOUGH_S = 0.2
START_WORK_S = 0.01
LATE_FOR_OPENINGS_S = 0.05


@dataclass(eq=False)
class Player:
    """`cost`: seconds of work for a second of its sound. `sleeps`: it has no session while nobody hears it; a live
    stream keeps its own."""

    number: int
    cost: float
    is_heard: bool = True
    sleeps: bool = True
    is_asleep: bool = False
    left_s: float = -math.inf  # when its last listener left
    ahead_s: float = 0.0
    is_open: bool = False
    is_sounding: bool = False
    has_sounded: bool = False
    due_since_s: float = 0.0
    yields_s: float = NEWEST_YIELDS_S
    asked_s: float = 0.0
    heard_s: float = 0.0
    first_heard_s: float | None = None
    interruptions: int = 0
    underruns: int = 0

    def claim(self, now_s: float) -> Claim:
        claim = Claim(Urgency.PLAYS if self.has_sounded else Urgency.STARTS, self.number)
        return claim if self.is_heard else claim.unheard(now_s - self.left_s)


@dataclass(eq=False)
class Process:
    speed: float = 1.0  # of its processor
    capacity: Capacity = field(default_factory=Capacity)
    players: list[Player] = field(default_factory=list)
    coming: list[Player] = field(default_factory=list)  # until the next report, evenly: nobody hears them
    come_at_once: int = 0
    debt_s: float = 0.0
    busy_s: float = 0.0
    sound_s: float = 0.0
    made_s: float = 0.0
    late_s: float = 0.0
    worked_s: float = 0.0  # from the first moment on


class SimulatedNode:
    """Each of its two processes has a processor for itself."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.processes = [Process() for _ in range(2)]
        self.players: list[Player] = []
        self.waiting: dict[Player, None] = {}
        self._numbers = itertools.count()
        self._report_at_s = REPORT_S

    # What clients do

    def create(self, cost: float, *, is_heard: bool = True, sleeps: bool = True) -> Player:
        player = Player(next(self._numbers), cost, is_heard, sleeps, asked_s=self.now_s)
        self.players.append(player)
        self._open(player)
        return player

    def delete(self, player: Player) -> None:
        self.players.remove(player)
        self._take_out(player)

    def leave(self, player: Player) -> None:
        """Nobody hears the player any more."""
        if player.is_heard:
            player.is_heard, player.left_s = False, self.now_s

    def come(self, player: Player) -> None:
        """Somebody hears the player, which wakes."""
        was_away = self._claim_of(player).urgency is Urgency.UNHEARD
        player.is_heard = True
        if player.has_sounded and was_away:
            player.number, player.has_sounded = next(self._numbers), False
        if player.is_asleep:
            player.is_asleep = False
            player.asked_s, player.first_heard_s = self.now_s, None
            self._open(player)

    @property
    def worked_s(self) -> float:
        return sum(process.worked_s for process in self.processes)

    def pass_s(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK_S)):
            self._tick()

    # The pool

    def _claim_of(self, player: Player) -> Claim:
        return player.claim(self.now_s)

    def _open(self, player: Player, *, is_admitted: bool = False) -> None:
        process = max(self.processes, key=lambda process: (self._room(process) > 0, -len(process.players)))
        waiting, capacity = self.waiting, process.capacity
        entry = enter(player, process.players, waiting, capacity, self._claim_of, self.now_s, is_admitted=is_admitted)
        if not entry.comes:
            self.waiting[player] = None
            return
        self.waiting.pop(player, None)
        process.players.append(player)
        process.capacity.began()
        player.ahead_s, player.is_open, player.due_since_s = 0.0, False, self.now_s

    def _room(self, process: Process) -> int:
        return process.capacity.room(len(process.players), self.now_s)

    def _take_out(self, player: Player) -> None:
        self.waiting.pop(player, None)
        for process in self.processes:
            if player in process.players:
                process.players.remove(player)
        player.is_sounding = False

    def _settle(self, process: Process) -> None:
        room, spares_players = self._room(process), not process.capacity.is_late
        leaving, heard, process.coming = settle(
            process.players, self.waiting, room, self._claim_of, spares_players=spares_players
        )
        process.capacity.settled()
        for player in leaving:
            self._take_out(player)
            self.waiting[player] = None
            player.interruptions += player.has_sounded
        for player in heard:
            self._open(player, is_admitted=True)
        for player in leaving:
            self._open(player)
        process.come_at_once = math.ceil(len(process.coming) * TICK_S / REPORT_S)

    # Time

    def _tick(self) -> None:
        self.now_s += TICK_S
        for process in self.processes:
            for player in process.coming[: process.come_at_once]:
                if player in self.waiting and self._room(process) > 0:
                    self._open(player, is_admitted=True)
            del process.coming[: process.come_at_once]
            self._work(process)
            self._play(process)
        if self.now_s >= self._report_at_s:
            self._report_at_s += REPORT_S
            for process in self.processes:
                late_s = max([process.late_s, *(self._late_s(player) for player in self._due(process))])
                load = LoadReport(REPORT_S, process.busy_s, process.sound_s, process.made_s, late_s)
                process.capacity.reported(load, len(process.players), self.now_s)
                process.busy_s = process.sound_s = process.made_s = process.late_s = 0.0
                self._settle(process)
                for place, player in enumerate(sorted(process.players, key=lambda player: player.number)):
                    player.yields_s = yields_s(place, len(process.players))

    def _work(self, process: Process) -> None:
        now_s, time_s, opening_s = self.now_s, TICK_S - process.debt_s, 0.0
        is_turn = False
        due = sorted(self._due(process), key=self._place_s)
        opening = [player for player in process.players if not player.is_open]
        opening.sort(key=lambda player: (not player.is_heard, self._claim_of(player)))
        too_late = sum(
            [
                self._late_s(player) > LATE_FOR_OPENINGS_S
                for player in due
                if now_s - player.due_since_s > LATE_FOR_OPENINGS_S
            ]
        )
        while time_s > 0 and (due or opening):
            is_turn = not is_turn  # threads that open and one that decodes share the processor
            if due and (not opening or too_late or is_turn):
                player = due.pop(0)
                late_s = self._late_s(player)
                too_late -= late_s > LATE_FOR_OPENINGS_S
                process.late_s = max(process.late_s, late_s)
                work_s = CHUNK_S * player.cost / process.speed
                player.ahead_s += CHUNK_S
                player.due_since_s = self.now_s
                process.made_s += CHUNK_S
            else:
                player = opening.pop(0)
                player.is_open = True
                player.due_since_s = self.now_s
                work_s = START_WORK_S / process.speed
                opening_s += work_s
                bisect.insort(due, player, key=self._place_s)
            time_s -= work_s
        process.busy_s += TICK_S - max(0.0, time_s)
        process.worked_s += TICK_S - max(0.0, time_s)
        process.sound_s += max(0.0, TICK_S - max(0.0, time_s) - opening_s)
        process.debt_s = max(0.0, -time_s)

    def _due(self, process: Process) -> list[Player]:
        return [player for player in process.players if player.is_open and player.ahead_s + CHUNK_S <= MOST_AHEAD_S]

    def _place_s(self, player: Player) -> float:
        """Its deadline, and by how much it yields."""
        return self.now_s + player.ahead_s - RENDERED_S + (0.0 if player.is_heard else 30.0) + player.yields_s

    def _late_s(self, player: Player) -> float:
        deadline_s = self.now_s + player.ahead_s - RENDERED_S + (0.0 if player.is_heard else 30.0)
        return max(0.0, self.now_s - max(deadline_s, player.due_since_s))

    def _play(self, process: Process) -> None:
        now_s = self.now_s
        for player in tuple(process.players):
            if not player.is_sounding:
                if player.ahead_s < ENOUGH_S:
                    continue
                player.is_sounding = player.has_sounded = True
                if player.first_heard_s is None:
                    player.first_heard_s = now_s
            player.has_sounded = True
            if player.ahead_s < TICK_S:
                player.is_sounding = False
                player.underruns += 1
                continue
            was_full = player.ahead_s + CHUNK_S > MOST_AHEAD_S
            player.ahead_s -= TICK_S
            player.heard_s += TICK_S
            if was_full and player.ahead_s + CHUNK_S <= MOST_AHEAD_S:
                player.due_since_s = now_s
            if not player.is_heard and player.sleeps and now_s >= player.left_s + SLEEP_AFTER_S:
                self._take_out(player)
                player.is_asleep = True
