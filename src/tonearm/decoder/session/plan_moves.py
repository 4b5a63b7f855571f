"""The values of `PlanState`: its states, the table of moves between them, the program of a player, and the resulting
orders and events.

A move that is not in `MOVES` is an error of the caller, and raises `RefusedMove`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.play_queue import SourceId
from tonearm.decoder.messages import Burst, CrossfadeOrder, Flush, Grant, OpenSession, OverlayOrder, Plan


class SessionStart(NamedTuple):
    """A session in a decoder process, which may begin after buffered frames of an earlier session.

    `first_frame` is the first frame that the session renders. The sources in `begun_in_buffer` began in the buffered
    frames, so the session does not have their beginning. The overlays in `overlays_begun` sound in the buffered frames,
    and those in `overlays_over` end there.
    """

    id: int
    first_frame: int = 0
    begun_in_buffer: frozenset[SourceId] = frozenset()
    overlays_begun: frozenset[SourceId] = frozenset()
    overlays_over: frozenset[SourceId] = frozenset()


@dataclass(frozen=True, slots=True)
class Detached:
    """No session in a decoder process (yet); the buffered frames are sent meanwhile."""


@dataclass(frozen=True, slots=True)
class Resting:
    """The session and the buffered frames were given up on purpose, until `wake`."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Frames of the newest plan are being sent."""

    session: SessionStart


@dataclass(frozen=True, slots=True)
class Changing:
    """The newest plan has another next source or other filters. The buffered frames are sent until its frames arrive.

    `postponed`: how often the plan arrived too late and was made again, since the player's last change. `is_overtaken`:
    the plan has another crossfade, and the old crossfade began before the plan arrived.
    """

    session: SessionStart
    postponed: int = 0
    is_overtaken: bool = False


@dataclass(frozen=True, slots=True)
class Switching:
    """The newest plan cuts to another source; the buffer is empty until its frames arrive. `cut_fade`: how the earlier
    sound fades out. `from_silence`: there was no earlier sound, so the cut needs no tail."""

    session: SessionStart
    cut_fade: CrossfadeOrder | None
    from_silence: bool


@dataclass(frozen=True, slots=True)
class Resuming:
    """A new session goes on after the buffered frames of an earlier one, with `source` at `next_sample`."""

    session: SessionStart
    source: SourceId
    next_sample: int


Attached: TypeAlias = Steady | Changing | Switching | Resuming  # to a session
SessionState: TypeAlias = Detached | Resting | Attached


class Move(Enum):
    CUT = "cut"  # to another source, from the next frame on
    CHANGE = "change"  # another next source, other filters, or other outputs
    POSTPONE = "postpone"  # the plan arrived after its first frame had been sent
    ARRIVE = "arrive"  # the first audio of the newest plan
    OPEN = "open"  # a session is opened, with nothing to resume
    RESUME = "resume"  # a session is opened, and goes on after the buffered frames
    LOSE = "lose"  # the decoder process died, or the session was given up for another one
    REST = "rest"
    WAKE = "wake"


# Switching has no CHANGE: a plan that replaces a cut has to cut, too.
MOVES: Final[Mapping[type[SessionState], Mapping[Move, type[SessionState]]]] = {
    Detached: {
        Move.CUT: Detached,
        Move.CHANGE: Detached,
        Move.OPEN: Steady,
        Move.RESUME: Resuming,
        Move.LOSE: Detached,
        Move.REST: Resting,
    },
    Steady: {
        Move.CUT: Switching,
        Move.CHANGE: Changing,
        Move.LOSE: Detached,
        Move.REST: Resting,
    },
    Changing: {
        Move.CUT: Switching,
        Move.CHANGE: Changing,
        Move.POSTPONE: Changing,
        Move.ARRIVE: Steady,
        Move.LOSE: Detached,
        Move.REST: Resting,
    },
    Switching: {
        Move.CUT: Switching,
        Move.ARRIVE: Steady,
        Move.LOSE: Detached,
        Move.REST: Resting,
    },
    Resuming: {
        Move.CUT: Switching,
        Move.CHANGE: Resuming,
        Move.ARRIVE: Steady,
        Move.LOSE: Detached,
        Move.REST: Resting,
    },
    Resting: {
        Move.CUT: Resting,
        Move.CHANGE: Resting,
        Move.REST: Resting,
        Move.WAKE: Detached,
    },
}


class RefusedMove(Exception):
    """The state has no such move."""


class Mix(NamedTuple):
    """How sources are mixed. `crossfade` is how the next source begins, None for a join without a gap. `pauses`: the
    music stands still while `overlays` sound. `may_crossfade`: crossfades are switched on, even if none is planned
    yet."""

    filters: Filters
    crossfade: CrossfadeOrder | None = None
    overlays: tuple[OverlayOrder, ...] = ()
    pauses: bool = False
    may_crossfade: bool = False

    def differs_at_once(self, played: "Mix") -> bool:
        """Whether it differs from `played` in more than the crossfade."""
        return (self.filters, self.overlays, self.pauses) != (played.filters, played.overlays, played.pauses)

    def without_overlay(self, source: SourceId) -> "Mix":
        return self._replace(overlays=tuple(overlay for overlay in self.overlays if overlay.source != source))


class Program(NamedTuple):
    """The sources that a player plays: `current` (None: silence), and `next` after it."""

    current: SourceId | None
    next: SourceId | None
    mix: Mix


class Epoch(NamedTuple):
    number: int
    mix: Mix


class OpenSourceAt(NamedTuple):
    """Order: open this source in the session, from this sample (48 kHz) on. `resumes`: it was played up to there
    before."""

    source: SourceId
    start_sample: int
    resumes: bool


class RenewSession(NamedTuple):
    """Order: close the session, report it with `lose`, and open another one."""


Order: TypeAlias = OpenSession | Plan | Grant | Flush | Burst | OpenSourceAt | RenewSession


class SourceBegan(NamedTuple):
    """The first sample of the source is in the frame that is sent next."""

    source: SourceId


class SourceEnded(NamedTuple):
    """The last sample of the source was sent, or is in the next frame when another source joins there. `failure` is set
    when the source was interrupted. `fades`: the source goes on under the next source, until `SourceFaded`."""

    source: SourceId
    failure: PlayFailure | None
    fades: bool = False


class SourceFaded(NamedTuple):
    """A source that went on under the next source has faded out."""

    source: SourceId
