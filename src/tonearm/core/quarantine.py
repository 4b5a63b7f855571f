"""Sources that ended a decoder process twice are not opened for a while."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

DEATHS_TO_QUARANTINE: Final = 2
QUARANTINE_S: Final = 3600.0
MAX_SUSPECTS: Final = 1000
# A process that dies may have worked on one source for several players: that is one death, not two. The next process
# needs longer than this to start.
SAME_DEATH_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Suspect:
    deaths: int
    last_death_s: float


class Quarantine:
    """Counts, for each suspect source, the decoder processes that died while they worked on it.

    Times are seconds of a monotonic clock; callers pass them in. A death is forgotten after `QUARANTINE_S`, and earlier
    when `MAX_SUSPECTS` other sources became suspects later.
    """

    def __init__(self) -> None:
        self._suspects: OrderedDict[str, _Suspect] = OrderedDict()

    def suspect(self, source: str, now_s: float) -> None:
        """A decoder process died while it worked on `source`."""
        known = self._suspects.get(source)
        if known is not None and now_s - known.last_death_s < SAME_DEATH_S:
            return
        self._suspects[source] = _Suspect(self._deaths(source, now_s) + 1, now_s)
        self._suspects.move_to_end(source)
        if len(self._suspects) > MAX_SUSPECTS:
            self._suspects.popitem(last=False)

    def is_quarantined(self, source: str, now_s: float) -> bool:
        return self._deaths(source, now_s) >= DEATHS_TO_QUARANTINE

    def _deaths(self, source: str, now_s: float) -> int:
        suspect = self._suspects.get(source)
        if suspect is None or now_s - suspect.last_death_s >= QUARANTINE_S:
            return 0
        return suspect.deaths
