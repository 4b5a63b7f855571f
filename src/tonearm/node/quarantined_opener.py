"""Opens sources for players and for reading tags, except sources that end decoder processes."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.opened_source import OpenedSource, ReportWait, Wait
from tonearm.core.play_queue import Playlist
from tonearm.core.quarantine import Quarantine
from tonearm.core.source_uri import SourceUri
from tonearm.sources.opener import SourceOpener
from tonearm.sources.shared_streams import SharingOpener

_ON_TRIAL: Final = Wait(
    "decoder processes ended while they worked on the source, so it is tried alone first",
    Stage.DECODE,
    counts=False,
    is_told=True,
)
_NOT_READ_AHEAD: Final = PlayFailure(
    FailureCode.NOT_AUDIO, Stage.CONNECT, "Only files are read ahead.", "Wait until it is this track's turn."
)
_QUARANTINED: Final = PlayFailure(
    FailureCode.QUARANTINED,
    Stage.CONNECT,
    "This source has ended decoder processes again and again; it is not tried again for an hour.",
    "Check the file with another program: it is damaged or made to do harm.",
)


class QuarantinedOpener:
    """Opens sources, except those that end decoder processes.

    `ends_its_process` tries a source alone in a process, and returns whether the process died.
    """

    def __init__(self, opener: SourceOpener, ends_its_process: Callable[[SourceUri], Awaitable[bool]]) -> None:
        self._opener = opener
        self._shared = SharingOpener(opener)
        self._ends_its_process = ends_its_process
        self._quarantine = Quarantine()
        self.fetches: Counter[str] = Counter()  # of players' sources: "opened", or the code of the failure
        self._trials: dict[str, asyncio.Task[None]] = {}

    def add(self, uri: SourceUri) -> None:
        """A decoder process died while it worked on `uri`."""
        self._quarantine.suspect(uri.normalised, time.monotonic())

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
        try:
            await self._require_free(uri, report_wait)
            opened = await self._shared.open(uri, report_wait)
        except PlayError as error:
            self.fetches[error.failure.code] += 1
            raise
        self.fetches["opened"] += 1
        return opened

    def is_suspect(self, uri: SourceUri) -> bool:
        """Whether a decoder process died while it worked on `uri`, in the last hour."""
        return self._quarantine.is_suspect(uri.normalised, time.monotonic())

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
        if self._quarantine.needs_trial(source, time.monotonic()):
            report_wait(_ON_TRIAL)
            trial = self._trials.get(source)
            if trial is None:
                trial = self._trials[source] = asyncio.get_running_loop().create_task(self._try(uri))
            await asyncio.shield(trial)
        if self._quarantine.is_quarantined(source, time.monotonic()):
            raise PlayError(_QUARANTINED)
        self._quarantine.note_open(source)

    async def _try(self, uri: SourceUri) -> None:
        try:
            ended = await self._ends_its_process(uri)
            self._quarantine.tried(uri.normalised, time.monotonic(), ended_its_process=ended)
        finally:
            del self._trials[uri.normalised]
