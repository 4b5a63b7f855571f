"""Sources that ended decoder processes: they are tried alone, and not opened for a while if that ends a process,
too.
"""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.opened_source import OpenedSource, ReportWait, Wait
from tonearm.core.play_queue import Playlist
from tonearm.core.source_uri import SourceUri, uri_for_logs
from tonearm.sources.opener import SourceOpener
from tonearm.sources.shared_streams import SharingOpener

log = logging.getLogger(__name__)

DEATHS_TO_TRIAL: Final = 2
QUARANTINE_S: Final = 3600.0
MAX_SUSPECTS: Final = 1000
# After so many trials that it passed, a source with further deaths rests before the next trial: the bytes that end a
# process may come late in it, or end one only beside others. So it ends few processes an hour.
MOST_ACQUITTALS: Final = 3
REST_S: Final = 300.0


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
        known = self._known(source, now_s)
        return known.deaths >= DEATHS_TO_TRIAL and not known.is_guilty and not self.rests(source, now_s)

    def rests(self, source: str, now_s: float) -> bool:
        """Whether `source` waits for its next trial, since it ended processes though it passed others."""
        known = self._known(source, now_s)
        is_due = now_s - known.last_death_s >= REST_S
        return known.acquittals >= MOST_ACQUITTALS and known.deaths >= DEATHS_TO_TRIAL and not is_due

    def is_quarantined(self, source: str, now_s: float) -> bool:
        """Whether `source` ended a process in which it was alone."""
        return self._known(source, now_s).is_guilty

    def _known(self, source: str, now_s: float) -> _Suspect:
        suspect = self._suspects.get(source)
        return _Suspect() if suspect is None or now_s - suspect.last_death_s >= QUARANTINE_S else suspect


_ON_TRIAL: Final = Wait(
    "decoder processes ended while they worked on the source, so it is tried alone first",
    Stage.DECODE,
    counts=False,
    is_told=True,
)
_NOT_READ_AHEAD: Final = PlayFailure(
    FailureCode.NOT_AUDIO, Stage.CONNECT, "Only files are read ahead.", "Wait for this track's turn."
)
_QUARANTINED: Final = PlayFailure(
    FailureCode.QUARANTINED,
    Stage.CONNECT,
    "This source has crashed decoder processes again and again, even alone; it is not tried again for an hour.",
    "Check the file with another program: the file is damaged or malicious.",
)
_RESTS: Final = PlayFailure(
    FailureCode.QUARANTINED,
    Stage.CONNECT,
    "Decoder processes crashed again and again with this source, though not when it was alone; it is "
    f"tried again {REST_S / 60:.0f} minutes after the last one.",
    "Play it again then. The cause may be late in the source, or a source played beside it.",
)


class QuarantinedOpener:
    """Opens sources, except those that end decoder processes.

    `ends_its_process` tries a source alone in a process, and returns whether the process died. `now_s` is a monotonic
    clock.
    """

    def __init__(
        self,
        opener: SourceOpener,
        ends_its_process: Callable[[SourceUri], Awaitable[bool]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now_s = now_s
        self._opener = opener
        self._shared = SharingOpener(opener)
        self._ends_its_process = ends_its_process
        self._quarantine = Quarantine()
        self.fetches: Counter[str] = Counter()  # of what `open` opened: "opened", or the code of the failure
        self._trials: dict[str, asyncio.Task[None]] = {}

    def add(self, uri: SourceUri) -> None:
        """A decoder process died while it worked on `uri`."""
        self._quarantine.suspect(uri.normalised, self._now_s())

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
        """Opens a source that a player plays, and counts it in `fetches`."""
        try:
            opened = await self.open_uncounted(uri, report_wait)
        except PlayError as error:
            self.fetches[error.failure.code] += 1
            raise
        self.fetches["opened"] += 1
        return opened

    async def open_uncounted(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
        """Opens a source that no player plays: for a lookup, a picture, or a length that has to be measured."""
        await self._require_free(uri, report_wait)
        return await self._shared.open(uri, report_wait)

    def is_suspect(self, uri: SourceUri) -> bool:
        """Whether a decoder process died while it worked on `uri`, in the last hour."""
        return self._quarantine.is_suspect(uri.normalised, self._now_s())

    async def open_for_tags(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource:
        """Opens files only. It resolves no page, and connects to no live stream."""
        await self._require_free(uri, report_wait)
        opened = await self._opener.open_direct(uri)
        if opened is None or isinstance(opened, Playlist) or opened.is_live:
            if isinstance(opened, OpenedSource):
                await opened.close()
            raise PlayError(_NOT_READ_AHEAD)
        return opened

    async def stop(self) -> None:
        """Ends all trials."""
        trials = list(self._trials.values())
        for trial in trials:
            trial.cancel()
        if trials:
            await asyncio.wait(trials)

    async def _require_free(self, uri: SourceUri, report_wait: ReportWait) -> None:
        source = uri.normalised
        if self._quarantine.needs_trial(source, self._now_s()):
            report_wait(_ON_TRIAL)
            trial = self._trials.get(source)
            if trial is None:
                trial = self._trials[source] = asyncio.get_running_loop().create_task(self._try(uri))
            await asyncio.shield(trial)
        if self._quarantine.rests(source, self._now_s()):
            raise PlayError(_RESTS)
        if self._quarantine.is_quarantined(source, self._now_s()):
            raise PlayError(_QUARANTINED)
        self._quarantine.note_open(source)

    async def _try(self, uri: SourceUri) -> None:
        """An error in a trial counts as a passed trial, because most suspects are innocent."""
        ended = False
        try:
            ended = await self._ends_its_process(uri)
        except Exception:
            # The callers may be gone, so the error is logged here.
            log.exception("the trial of %s went wrong", uri_for_logs(uri.given))
        finally:
            del self._trials[uri.normalised]
        self._quarantine.tried(uri.normalised, self._now_s(), ended_its_process=ended)
