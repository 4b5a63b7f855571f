"""How well a node does, as values: what `/v0/stats` and `/metrics` show."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from tonearm.core.events import PlayerState
from tonearm.core.failure import Stage
from tonearm.core.outputs import OutputFormat
from tonearm.core.player_status import PlayerQuality

# Frames whose tick began so much after it was due are counted, each at every limit that it passed.
LATE_MS: Final = (5, 20, 100)

UnderrunCause: TypeAlias = Literal["source", "decoder"]
ProcessKind: TypeAlias = Literal["node", "decoder", "other"]


def underrun_cause(waits_in: Stage) -> UnderrunCause:
    """What an underrun is put down to, by the stage in which the current source waits."""
    return "decoder" if waits_in in (Stage.DECODE, Stage.FILTER) else "source"


@dataclass(frozen=True, slots=True)
class PlayerFigures:
    """One player's share. `listeners` are counted by format."""

    state: PlayerState
    is_asleep: bool
    listeners: Mapping[OutputFormat, int]
    quality: PlayerQuality


@dataclass(slots=True)
class Totals:
    """What is counted beside the players there are, since the node was started: the frames of those that were deleted,
    and what players do not count each for itself."""

    frames_sent: int = 0
    frames_lost: int = 0
    late_plans: int = 0
    closed_too_slow: int = 0
    closed_failed: int = 0
    players_created: int = 0
    underruns: Counter[UnderrunCause] = field(default_factory=Counter)
    track_failures: Counter[str] = field(default_factory=Counter)  # by the code of the failure

    def add_deleted(self, quality: PlayerQuality) -> None:
        """Keeps what a player has counted that is deleted now."""
        self.frames_sent += quality.frames_sent
        self.frames_lost += quality.frames_lost
        self.late_plans += quality.late_plans
        self.closed_too_slow += quality.closed_too_slow
        self.closed_failed += quality.closed_failed


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """One process of the node. `sessions`: players that it decodes for."""

    kind: ProcessKind
    pid: int
    cpu_s: float
    memory_bytes: int  # resident; what several processes share counts in each
    sessions: int = 0


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """The whole node at one moment. Counts are since its start, `frames_late` by `LATE_MS`."""

    version: str
    uptime_s: float
    players: Mapping[PlayerState, int]
    players_asleep: int
    listeners: Mapping[OutputFormat, int]
    players_created: int
    frames_sent: int
    frames_lost: int
    frames_left_out: int
    frames_late: Mapping[int, int]
    late_plans: int
    closed_too_slow: int
    closed_failed: int
    underruns: Mapping[UnderrunCause, int]
    track_failures: Mapping[str, int]
    decoder_exits: int
    processes: tuple[ProcessFigures, ...]


def node_figures(
    players: list[PlayerFigures],
    totals: Totals,
    *,
    version: str,
    uptime_s: float,
    frames_left_out: int,
    frames_late: Mapping[int, int],
    decoder_exits: int,
    processes: tuple[ProcessFigures, ...],
) -> NodeFigures:
    """Sums the players up."""
    states: Counter[PlayerState] = Counter(dict.fromkeys(PlayerState, 0))
    listeners: Counter[OutputFormat] = Counter()
    for player in players:
        states[player.state] += 1
        listeners.update(player.listeners)
    return NodeFigures(
        version=version,
        uptime_s=uptime_s,
        players=states,
        players_asleep=sum(player.is_asleep for player in players),
        listeners=listeners,
        players_created=totals.players_created,
        frames_sent=totals.frames_sent + sum(player.quality.frames_sent for player in players),
        frames_lost=totals.frames_lost + sum(player.quality.frames_lost for player in players),
        frames_left_out=frames_left_out,
        frames_late=dict(frames_late),
        late_plans=totals.late_plans + sum(player.quality.late_plans for player in players),
        closed_too_slow=totals.closed_too_slow + sum(player.quality.closed_too_slow for player in players),
        closed_failed=totals.closed_failed + sum(player.quality.closed_failed for player in players),
        underruns={"source": totals.underruns["source"], "decoder": totals.underruns["decoder"]},
        track_failures=dict(totals.track_failures),
        decoder_exits=decoder_exits,
        processes=processes,
    )
