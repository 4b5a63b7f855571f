"""How many sessions a decoder process has memory for, as a test says."""

import math

from tonearm.core.admission import Capacity


class MemoryForSessions:
    """`capacity` is for a pool. No session leaves a process that has more than `most`."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most

    def capacity(self) -> Capacity:
        memory = self

        class Limited(Capacity):
            def has_memory(self, sessions: int) -> bool:
                return sessions < memory.most and super().has_memory(sessions)

            def room(self, sessions: int, now_s: float) -> int:
                return super().room(sessions, now_s) if sessions < memory.most else 0

        return Limited()
