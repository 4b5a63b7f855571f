"""Which session is rendered next: the one whose listeners have frames for the shortest time.

When there is more to render than can be, the newest sessions are late, and not all together.
"""

import math
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tonearm.core.frame import FRAME_S
from tonearm.worker.sources.cursor import UNHEARD_SLACK_S
from tonearm.worker.sources.scheduler import UrgencyQueue

RESERVE_S: Final = 0.2  # frames are to be rendered so long before the node runs out of frames


class Turn(NamedTuple):
    """A session that is rendered next, and when the node runs out of its frames."""

    session: int
    runs_out_s: float


class _Wait(NamedTuple):
    due_s: float
    urgency_s: float
    runs_out_s: float


_NO_WAIT: Final = _Wait(math.inf, math.inf, math.inf)


class RenderOrder:
    """The sessions that may have something to render."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._sessions: UrgencyQueue[int] = UrgencyQueue()
        self._waits: dict[int, _Wait] = {}
        self._late_s = 0.0

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(
        self, session: int, sent_at_s: float, frames_ahead: int, yields_s: float = 0.0, *, is_heard: bool = True
    ) -> None:
        """At `sent_at_s` the node had `frames_ahead` rendered frames that it had not sent. Sessions that are due less
        than `yields_s` later go first. Of several calls before its turn the most urgent one counts."""
        now_s = self._now_s()
        runs_out_s = sent_at_s + max(frames_ahead, 0) * FRAME_S
        # What is late is due now: else one that has waited for its source, however long, would go before all others.
        from_s, slack_s = max(now_s, runs_out_s), 0.0 if is_heard else UNHEARD_SLACK_S
        due_s, urgency_s = max(now_s, runs_out_s - RESERVE_S) + slack_s, from_s + slack_s + yields_s
        before = self._waits.get(session, _NO_WAIT)
        wait = _Wait(min(before.due_s, due_s), min(before.urgency_s, urgency_s), runs_out_s)
        self._waits[session] = wait
        if wait.urgency_s < before.urgency_s:
            self._sessions.add(session, wait.urgency_s)

    def take(self) -> Turn:
        """Removes and returns the session that comes next. Raises IndexError when there is none."""
        session = self._sessions.take()
        wait = self._waits.pop(session)
        self._late_s = max(self._late_s, self._now_s() - wait.due_s)
        return Turn(session, wait.runs_out_s)

    def take_late_s(self) -> float:
        """How late the latest session was since the last call, with those that are late now."""
        late_s = max(self._late_s, self._now_s() - min((wait.due_s for wait in self._waits.values()), default=math.inf))
        self._late_s = 0.0
        return max(0.0, late_s)
