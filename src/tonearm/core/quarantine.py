"""Sources that ended a decoder process twice are not tried again for a while."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

STRIKES_TO_QUARANTINE: Final = 2
QUARANTINE_S: Final = 3600.0
MAX_REMEMBERED: Final = 1000
# A process may have worked on one source for several players: that is one death, not two. The next process needs
# longer than this to start.
SAME_DEATH_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Record:
    strikes: int
    last_strike_s: float


class Quarantine:
    """Counts strikes by source. Times are seconds of any clock that only goes forward; they are passed in.

    A strike is forgotten after `QUARANTINE_S`, and earlier when `MAX_REMEMBERED` other sources got one later.
    """

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def strike(self, source: str, now_s: float) -> None:
        """`source` has just ended a decoder process."""
        record = self._records.get(source)
        if record is not None and now_s - record.last_strike_s < SAME_DEATH_S:
            return
        self._records[source] = _Record(self._strikes(source, now_s) + 1, now_s)
        self._records.move_to_end(source)
        if len(self._records) > MAX_REMEMBERED:
            self._records.popitem(last=False)

    def is_quarantined(self, source: str, now_s: float) -> bool:
        return self._strikes(source, now_s) >= STRIKES_TO_QUARANTINE

    def _strikes(self, source: str, now_s: float) -> int:
        record = self._records.get(source)
        if record is None or now_s - record.last_strike_s >= QUARANTINE_S:
            return 0
        return record.strikes
