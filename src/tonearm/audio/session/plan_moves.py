"""What `PlanState` knows of: its states as a table of what leads from where to where, the program that a player wants,
and the orders and events that follow.

  DETACHED    no session in a decoder process (yet); the buffered frames are sent meanwhile
  STEADY      the newest plan is the played one
  CHANGING    the newest plan has another next source or other filters; the buffered frames are good until it arrives
  SWITCHING   the newest plan cuts to another source; the buffer is empty until it arrives
  RESUMING    the newest plan goes on after the buffered frames, in a session that knows nothing of them
  RESTING     everything was given up on purpose, the buffered frames too; `wake` ends it

Anything that `MOVES` does not have is refused with `RefusedMove`: a fault of the caller.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.play_queue import SourceId
from tonearm.decoding.messages import Crossfade, Flush, Grant, OpenSession, Overlay, Plan, Recall


class State(Enum):
    DETACHED = "detached"
    STEADY = "steady"
    CHANGING = "changing"
    SWITCHING = "switching"
    RESUMING = "resuming"
    RESTING = "resting"


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
MOVES: Final[Mapping[State, Mapping[Move, State]]] = {
    State.DETACHED: {
        Move.CUT: State.DETACHED,
        Move.CHANGE: State.DETACHED,
        Move.OPEN: State.STEADY,
        Move.RESUME: State.RESUMING,
        Move.LOSE: State.DETACHED,
        Move.REST: State.RESTING,
    },
    State.STEADY: {
        Move.CUT: State.SWITCHING,
        Move.CHANGE: State.CHANGING,
        Move.LOSE: State.DETACHED,
        Move.REST: State.RESTING,
    },
    State.CHANGING: {
        Move.CUT: State.SWITCHING,
        Move.CHANGE: State.CHANGING,
        Move.POSTPONE: State.CHANGING,
        Move.ARRIVE: State.STEADY,
        Move.LOSE: State.DETACHED,
        Move.REST: State.RESTING,
    },
    State.SWITCHING: {
        Move.CUT: State.SWITCHING,
        Move.ARRIVE: State.STEADY,
        Move.LOSE: State.DETACHED,
        Move.REST: State.RESTING,
    },
    State.RESUMING: {
        Move.CUT: State.SWITCHING,
        Move.CHANGE: State.RESUMING,
        Move.ARRIVE: State.STEADY,
        Move.LOSE: State.DETACHED,
        Move.REST: State.RESTING,
    },
    State.RESTING: {
        Move.CUT: State.RESTING,
        Move.CHANGE: State.RESTING,
        Move.REST: State.RESTING,
        Move.WAKE: State.DETACHED,
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
