"""Decides which session is rendered next: the session whose listeners have the fewest frames left.

Under overload the newest sessions are late, and not all sessions together.
"""

import math
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tonearm.core.frame import FRAME_S
from tonearm.worker.sources.cursor import UNHEARD_SLACK_S
from tonearm.worker.sources.scheduler import UrgencyQueue

RESERVE_S: Final = 0.2  # a session is due this long before the node runs out of its frames
_NO_WAIT: Final = (math.inf, math.inf, math.inf)


class Turn(NamedTuple):
    """The session that is rendered next, and when the node runs out of its frames."""

    session: int
    runs_out_s: float


class RenderOrder:
    """The sessions that may have something to render."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._sessions: UrgencyQueue[int] = UrgencyQueue()
        self._waits: dict[int, tuple[float, float, float]] = {}  # when due, the urgency, when frames run out
        self._late_s = 0.0

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(
        self, session: int, sent_at_s: float, frames_ahead: int, yields_s: float = 0.0, *, is_heard: bool = True
    ) -> None:
        """Adds a session. At `sent_at_s` the node had `frames_ahead` rendered frames that it had not sent. Sessions
        that are due less than `yields_s` later go first. Of several calls before the session's turn the most urgent
        counts."""
        now_s = self._now_s()
        runs_out_s = sent_at_s + frames_ahead * FRAME_S if frames_ahead > 0 else sent_at_s
        # A late session is due now: otherwise a session that waited long for its source would go before all others.
        from_s = max(now_s, runs_out_s)
        due_s = max(now_s, runs_out_s - RESERVE_S)
        if not is_heard:
            from_s, due_s = from_s + UNHEARD_SLACK_S, due_s + UNHEARD_SLACK_S
        urgency_s = from_s + yields_s
        earlier_due_s, earlier_urgency_s, _ = self._waits.get(session, _NO_WAIT)
        self._waits[session] = (min(earlier_due_s, due_s), min(earlier_urgency_s, urgency_s), runs_out_s)
        if urgency_s < earlier_urgency_s:
            self._sessions.add(session, urgency_s)

    def take(self) -> Turn:
        """Removes and returns the next session. Raises IndexError when there is none."""
        session = self._sessions.take()
        due_s, _, runs_out_s = self._waits.pop(session)
        self._late_s = max(self._late_s, self._now_s() - due_s)
        return Turn(session, runs_out_s)

    def take_late_s(self) -> float:
        """The longest delay of a session since the last call, with sessions that are late now."""
        late_s = max(self._late_s, self._now_s() - min((due_s for due_s, *_ in self._waits.values()), default=math.inf))
        self._late_s = 0.0
        return max(0.0, late_s)
