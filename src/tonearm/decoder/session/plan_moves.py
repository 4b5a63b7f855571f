"""What `PlanState` knows of: its states with what is true in each, as a table of what leads from where to where, the
program that a player wants, and the orders and events that follow.

Anything that `MOVES` does not have is refused with `RefusedMove`: a fault of the caller.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.play_queue import SourceId
from tonearm.decoder.messages import Crossfade, Flush, Grant, OpenSession, Overlay, Plan, Recall


class SessionStart(NamedTuple):
    """A session in a decoder process, and with which of the sources it began in their middle.

    `first_frame` is the first one that it renders. Of the sources in `begun_in_buffer` it has no beginning, or nothing:
    that is in the frames that were buffered before. The overlays in `overlays_begun` sounded in these; of those in
    `overlays_over` the last frame is there, too.
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
    """Everything was given up on purpose, the buffered frames too; `wake` ends it."""


@dataclass(frozen=True, slots=True)
class Steady:
    """The newest plan is the played one."""

    session: SessionStart


@dataclass(frozen=True, slots=True)
class Changing:
    """The newest plan has another next source or other filters; the buffered frames are good until it arrives.

    `postponed`: how often it arrived too late and was made again, since the player changed its mind. `is_overtaken`: it
    has the crossfade elsewhere, and that has begun before the plan arrived.
    """

    session: SessionStart
    postponed: int = 0
    is_overtaken: bool = False


@dataclass(frozen=True, slots=True)
class Switching:
    """The newest plan cuts to another source; the buffer is empty until it arrives. `cut_fade`: how the sound before
    goes out."""

    session: SessionStart
    cut_fade: Crossfade | None = None


@dataclass(frozen=True, slots=True)
class Resuming:
    """The newest plan goes on after the buffered frames, in a session that knows nothing of them: with `source`, from
    `at_frame` on, whose sample `next_sample` is heard next."""

    session: SessionStart
    source: SourceId
    at_frame: int
    next_sample: int


Attached: TypeAlias = Steady | Changing | Switching | Resuming  # to a session
State: TypeAlias = Detached | Resting | Attached


class Move(Enum):
    CUT = "cut"  # to another source, from the next frame on
    CHANGE = "change"  # another next source, other filters, or frames with sound in them for a new listener
    POSTPONE = "postpone"  # the plan arrived after its first frame had been sent
    ARRIVE = "arrive"  # the first audio of the newest plan
    OPEN = "open"  # a session, with nothing to go on with
    RESUME = "resume"  # a session, going on after the buffered frames
    LOSE = "lose"  # the decoder process, or the session given up for another one
    REST = "rest"
    WAKE = "wake"


# A change while switching is a cut as well: a cut that did not arrive belongs to every plan that replaces it.
MOVES: Final[Mapping[type[State], Mapping[Move, type[State]]]] = {
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
    """An input that cannot come in this state."""


class Mix(NamedTuple):
    """What is made of the sources that play: `crossfade` is how the next one begins, None for a join without a gap.
    `overlays` sound over all of it; while they do and it `holds`, the music stands still. `may_crossfade`: crossfades
    are wanted where they are possible, of which nothing may be known yet."""

    filters: Filters
    crossfade: Crossfade | None = None
    overlays: tuple[Overlay, ...] = ()
    holds: bool = False
    may_crossfade: bool = False

    def differs_at_once(self, played: "Mix") -> bool:
        """Whether it differs in more than how the next source begins."""
        return (self.filters, self.overlays, self.holds) != (played.filters, played.overlays, played.holds)

    def without_overlay(self, source: SourceId) -> "Mix":
        return self._replace(overlays=tuple(overlay for overlay in self.overlays if overlay.source != source))


class Program(NamedTuple):
    """What a player wants to be played: `next` comes behind `current`, which is None for silence."""

    current: SourceId | None
    next: SourceId | None
    mix: Mix


class Epoch(NamedTuple):
    """The number of a plan, and the mix that it was made with."""

    number: int
    mix: Mix


class OpenSourceAt(NamedTuple):
    """Order: open this source in the session, from this sample (48 kHz) on. `resumes`: it was played up to there."""

    source: SourceId
    start_sample: int
    resumes: bool


class RenewSession(NamedTuple):
    """Order: close the session, report it with `lose`, and open another one."""


Order: TypeAlias = OpenSession | Plan | Grant | Flush | Recall | OpenSourceAt | RenewSession


class SourceBegan(NamedTuple):
    """The first sample of the source is in the frame that is sent next."""

    source: SourceId


class SourceEnded(NamedTuple):
    """The last sample of the source was sent, or is in the next frame when another source joins there. `failure` says
    why, when the source was interrupted. `fades`: it goes on under the one that begins there, until `SourceFaded`."""

    source: SourceId
    failure: PlayFailure | None
    fades: bool = False


class SourceFaded(NamedTuple):
    """A source that went on under another one has faded out."""

    source: SourceId
