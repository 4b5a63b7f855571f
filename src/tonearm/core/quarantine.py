"""Sources that ended a decoder process twice are not opened for a while."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

DEATHS_TO_QUARANTINE: Final = 2
QUARANTINE_S: Final = 3600.0
MAX_SUSPECTS: Final = 1000


@dataclass(frozen=True, slots=True)
class _Suspect:
    deaths: int
    last_death_s: float
    was_opened_since: bool = False


class Quarantine:
    """Counts, for each suspect source, the decoder processes that died while they worked on it.

    A process may have worked on one source for several players: that is one death. So a further one counts only when
    the source was opened again since the last one.

    Times are seconds of a monotonic clock; callers pass them in. A death is forgotten after `QUARANTINE_S`, and earlier
    when `MAX_SUSPECTS` other sources became suspects later.
    """

    def __init__(self) -> None:
        self._suspects: OrderedDict[str, _Suspect] = OrderedDict()

    def suspect(self, source: str, now_s: float) -> None:
        """A decoder process died while it worked on `source`."""
        deaths = self._deaths(source, now_s)
        if deaths and not self._suspects[source].was_opened_since:
            return
        self._suspects[source] = _Suspect(deaths + 1, now_s)
        self._suspects.move_to_end(source)
        if len(self._suspects) > MAX_SUSPECTS:
            self._suspects.popitem(last=False)

    def note_open(self, source: str) -> None:
        """`source` is about to be opened in a decoder process."""
        suspect = self._suspects.get(source)
        if suspect is not None:
            self._suspects[source] = replace(suspect, was_opened_since=True)

    def is_suspect(self, source: str, now_s: float) -> bool:
        return bool(self._deaths(source, now_s))

    def is_quarantined(self, source: str, now_s: float) -> bool:
        return self._deaths(source, now_s) >= DEATHS_TO_QUARANTINE

    def _deaths(self, source: str, now_s: float) -> int:
        suspect = self._suspects.get(source)
        if suspect is None or now_s - suspect.last_death_s >= QUARANTINE_S:
            return 0
        return suspect.deaths
