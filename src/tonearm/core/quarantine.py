"""Sources that ended decoder processes. They are tried alone, and not opened for a while if that ends a process,
too."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

DEATHS_TO_TRIAL: Final = 2
QUARANTINE_S: Final = 3600.0
MAX_SUSPECTS: Final = 1000
# After so many trials that it passed, a source with further deaths is guilty all the same: the bytes that end a process
# may come late in it.
MOST_ACQUITTALS: Final = 3


@dataclass(frozen=True, slots=True)
class _Suspect:
    deaths: int = 0  # since the last trial
    last_death_s: float = 0.0
    was_opened_since: bool = False
    acquittals: int = 0
    is_guilty: bool = False


class Quarantine:
    """Counts, for each suspect source, the decoder processes that died while they worked on it.

    A process may have worked on one source for several players, and that is one death. So a further death counts only
    when the source was opened again since the last one. A process may also have worked on several sources, most of them
    innocent. So after `DEATHS_TO_TRIAL` a source is tried alone before clients are told that it is bad.

    Times are seconds of a monotonic clock; callers pass them in. A death is forgotten after `QUARANTINE_S`, and earlier
    when `MAX_SUSPECTS` other sources became suspects later.
    """

    def __init__(self) -> None:
        self._suspects: OrderedDict[str, _Suspect] = OrderedDict()

    def suspect(self, source: str, now_s: float) -> None:
        """A decoder process died while it worked on `source`."""
        before = self._known(source, now_s)
        if before.deaths and not before.was_opened_since:
            return
        self._suspects[source] = replace(before, deaths=before.deaths + 1, last_death_s=now_s, was_opened_since=False)
        self._suspects.move_to_end(source)
        if len(self._suspects) > MAX_SUSPECTS:
            self._suspects.popitem(last=False)

    def note_open(self, source: str) -> None:
        """`source` is about to be opened in a decoder process."""
        suspect = self._suspects.get(source)
        if suspect is not None:
            self._suspects[source] = replace(suspect, was_opened_since=True)

    def tried(self, source: str, now_s: float, *, ended_its_process: bool) -> None:
        before = self._known(source, now_s)
        if ended_its_process:
            self._suspects[source] = replace(before, is_guilty=True, last_death_s=now_s)
        else:
            self._suspects[source] = replace(before, deaths=0, acquittals=before.acquittals + 1)

    def is_suspect(self, source: str, now_s: float) -> bool:
        return bool(self._known(source, now_s).deaths)

    def needs_trial(self, source: str, now_s: float) -> bool:
        """Whether `source` has to be tried before it is opened again."""
        return self._known(source, now_s).deaths >= DEATHS_TO_TRIAL and not self.is_quarantined(source, now_s)

    def is_quarantined(self, source: str, now_s: float) -> bool:
        known = self._known(source, now_s)
        return known.is_guilty or (known.acquittals >= MOST_ACQUITTALS and known.deaths >= DEATHS_TO_TRIAL)

    def _known(self, source: str, now_s: float) -> _Suspect:
        suspect = self._suspects.get(source)
        return _Suspect() if suspect is None or now_s - suspect.last_death_s >= QUARANTINE_S else suspect
