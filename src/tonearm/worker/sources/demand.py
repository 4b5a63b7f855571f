"""How far ahead a source is decoded, and how urgent it is."""

from typing import Final

from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.core.memory_budget import LESS_AHEAD_FROM, ahead
from tonearm.worker.memory import MemoryBudget
from tonearm.worker.sources.source_content import STEP_SAMPLES

AHEAD_SAMPLES: Final = 6 * SAMPLE_RATE_HZ // 5
# How far ahead packets are read that are not decoded. They take so little time that a slot itself would cost more.
PACKETS_AHEAD_SAMPLES: Final = 4 * SAMPLE_RATE_HZ
PACKETS_STEP_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
FIRST_STEP_SAMPLES: Final = SAMPLE_RATE_HZ // 10  # of PCM one block, whatever its length
NEXT_SOURCE_SLACK_S: Final = 5.0  # a source that only waits to come next is less urgent by so much
UNHEARD_SLACK_S: Final = 30.0  # and one of a session to which nobody listens by so much


class Demand:
    """How much a session wants of a source. The rendering thread changes it, any thread may read it.

    `reads_only`: packets are kept, and their PCM is not read. `left`: decoded samples that were not used yet.
    """

    def __init__(self, memory: MemoryBudget) -> None:
        """The less `memory` there is, the less is decoded ahead."""
        self._memory = memory
        self._is_current = False
        self._is_heard = True
        self._rate = 1.0  # of its samples to those heard, at least 1

    def change(self, *, is_current: bool, is_heard: bool, rate: float) -> bool:
        """Notes how the source is used. True when its session has listeners now and had none before."""
        was_heard, self._is_heard = self._is_heard, is_heard
        self._is_current = is_current
        self._rate = max(rate, 1.0)
        return is_heard and not was_heard

    def needs_more(self, left: int, *, reads_only: bool) -> bool:
        """Whether there is room for a whole step."""
        return left <= self.ahead_samples(reads_only=reads_only) - step_samples(reads_only=reads_only)

    def has_room(self, left: int, *, reads_only: bool) -> bool:
        """Whether there is room for half a step."""
        return left <= self.ahead_samples(reads_only=reads_only) - step_samples(reads_only=reads_only) // 2

    def ahead_samples(self, *, reads_only: bool) -> int:
        """How far ahead is decoded: what is heard in 1.2 s, or in 4 s when packets are only read. Hardly more than a
        step without listeners, since it may never be heard, and when memory is short."""
        # More than a step: whole frames are used, and part of a frame must not delay the next step.
        least = step_samples(reads_only=reads_only) + FIRST_STEP_SAMPLES
        if not self._is_heard:
            return least
        usual = int((PACKETS_AHEAD_SAMPLES if reads_only else AHEAD_SAMPLES) * self._rate)
        used = self._memory.used
        return usual if used <= LESS_AHEAD_FROM else ahead(usual, least, used)

    def deadline_s(self, now_s: float, left: int) -> float:
        """When the samples that are left will be used up; later for a source that is not current or has no listeners.

        It is a point in time, so that a source becomes more urgent while it waits. Ordered by `left` alone, later
        requests with a little less left would always come first, and in a busy process the source would starve.
        """
        slack_s = (0.0 if self._is_current else NEXT_SOURCE_SLACK_S) + (0.0 if self._is_heard else UNHEARD_SLACK_S)
        return now_s + int(left / self._rate) / SAMPLE_RATE_HZ + slack_s


def step_samples(*, reads_only: bool) -> int:
    return PACKETS_STEP_SAMPLES if reads_only else STEP_SAMPLES
