"""The figures of a node that `/v0/stats` and `/metrics` show, as values."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Literal, TypeAlias, get_args

from tonearm.core.events import PlayerState
from tonearm.core.failure import Stage
from tonearm.core.frame import ListenerKind
from tonearm.core.player_status import PlayerQuality
from tonearm.core.voice import VoiceFigures

# The upper limits of the histogram of lateness. Frames that are later than the last limit are left out.
LATENESS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
# The limits, in ms, for which late frames are shown as counts.
LATE_MS: Final = (5, 20, 100)

UnderrunCause: TypeAlias = Literal["source", "decoder"]
Way: TypeAlias = Literal["pcm", "opus", "opus_passed", "mp3"]
ProcessKind: TypeAlias = Literal["node", "decoder", "other"]


def underrun_cause(waits_in: Stage) -> UnderrunCause:
    """The cause of an underrun, by the stage in which the current source waits."""
    return "decoder" if waits_in in (Stage.DECODE, Stage.FILTER) else "source"


@dataclass(frozen=True, slots=True)
class PlayerFigures:
    """One player's part of the figures. `listeners` are counted by format."""

    state: PlayerState
    is_asleep: bool
    listeners: Mapping[ListenerKind, int]
    quality: PlayerQuality


@dataclass(frozen=True, slots=True)
class ClusterNodeFigures:
    """A node of the cluster, as the asked node sees it. `lease_age_s`: the time since its last sign of life."""

    players: int
    load: float
    lease_age_s: float
    is_alive: bool
    is_draining: bool


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """`nodes` by name, with the asked node among them. `engine_latency_s` is the latency of its last call to the
    engine."""

    nodes: Mapping[str, ClusterNodeFigures]
    reaches_engine: bool
    engine_latency_s: float


@dataclass(slots=True)
class Totals:
    """Counts since the node's start: those of deleted players, and those that players do not count themselves."""

    frames_sent: int = 0
    frames_lost: int = 0
    late_plans: int = 0
    closed_too_slow: int = 0
    closed_failed: int = 0
    players_created: int = 0
    underruns: Counter[UnderrunCause] = field(default_factory=Counter)
    track_failures: Counter[str] = field(default_factory=Counter)  # by the code of the failure

    def add(self, quality: PlayerQuality) -> None:
        self.frames_sent += quality.frames_sent
        self.frames_lost += quality.frames_lost
        self.late_plans += quality.late_plans
        self.closed_too_slow += quality.closed_too_slow
        self.closed_failed += quality.closed_failed


class Lateness:
    """A histogram of the lateness of frames: the number up to each of `LATENESS_S`, and the number above the last."""

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENESS_S) + 1)
        self.sum_s = 0.0

    def add(self, late_s: float, frames: int) -> None:
        self.counts[bisect_left(LATENESS_S, late_s)] += frames
        self.sum_s += late_s * frames

    @property
    def frames_late(self) -> dict[int, int]:
        """The number of frames that were later than each of `LATE_MS`."""
        return {limit_ms: sum(self.counts[LATENESS_S.index(limit_ms / 1000) + 1 :]) for limit_ms in LATE_MS}


@dataclass(slots=True)
class DecoderWork:
    """The work of all decoder processes since the node was started.

    `worked_s`: how long they worked. `made_s`: how much audio they made. `frames`: the number made in each way;
    frames have 20 ms, those of MP3 24 ms.
    """

    worked_s: float = 0.0
    made_s: float = 0.0
    sessions_failed: int = 0
    frames: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(get_args(Way), 0))


@dataclass(frozen=True, slots=True)
class ResolverFigures:
    """The number of pages that are being resolved (`working`), and of those that wait for a free place."""

    working: int
    waiting: int


@dataclass(frozen=True, slots=True)
class StateFigures:
    """The state file. `unsaved_answers`: the number of requests that were answered before their change was saved."""

    is_degraded: bool
    writes: int
    write_s: float
    unsaved_answers: int


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """One process of the node. `sessions`: the players that it decodes for. `slot`: see `in_slots`; 0 before it has
    one."""

    kind: ProcessKind
    pid: int
    cpu_s: float
    memory_bytes: int  # resident; shared memory counts in each process
    sessions: int = 0
    slot: int = 0


def in_slots(processes: Sequence[ProcessFigures], before: Iterable[ProcessFigures]) -> tuple[ProcessFigures, ...]:
    """The processes, each with a number from 1 on among the processes of its kind. A process that had a number `before`
    keeps it; others get the lowest free number. So the highest number is at most the highest number of processes at one
    time."""
    slots = {(process.kind, process.pid): process.slot for process in before}
    taken = {(process.kind, slots.get((process.kind, process.pid))) for process in processes}
    placed = []
    for process in processes:
        slot = slots.get((process.kind, process.pid))
        if slot is None:
            slot = next(free for free in count(1) if (process.kind, free) not in taken)
            taken.add((process.kind, slot))
        placed.append(replace(process, slot=slot))
    return tuple(placed)


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """The whole node at one moment. Counts are since its start; `totals` include all players, present and past.
    `overload_s`: for how long the node has been overloaded; 0 without an overload, and in its first moments.
    `players_waiting` wait for room in a decoder process. `times_left_out`: how often a player had frames left out,
    because the clock was late. `fetches` counts the fetches of sources for playing, by outcome; `sandboxes` are by kind
    of process. `suspended_s`: for how long the machine slept, which is not in `uptime_s`. `load`: the used share of the
    node's capacity."""

    version: str
    uptime_s: float
    suspended_s: float
    players: Mapping[PlayerState, int]
    players_asleep: int
    players_waiting: int
    overload_s: float
    listeners: Mapping[ListenerKind, int]
    totals: Totals
    times_left_out: int
    frames_left_out: int
    fetches: Mapping[str, int]
    decoder_exits: int
    decoder_work: DecoderWork
    lateness: Lateness
    sandboxes: Mapping[str, str]
    resolver: ResolverFigures | None
    state: StateFigures | None
    processes: tuple[ProcessFigures, ...]
    voice: VoiceFigures | None = None
    load: float = 0.0
