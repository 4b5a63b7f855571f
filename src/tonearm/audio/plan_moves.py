"""The states of `PlanState` as a table: what leads from where to where.

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
from typing import Final


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
