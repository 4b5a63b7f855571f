"""What is known of local files, so that a length that has to be counted is counted once, until the file changes."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final

from tonearm.core.failure import FAULTS_OF_BYTES, FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.opened_source import FileVersion, OpenedSource, ReportWait
from tonearm.core.source_uri import SourceUri
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.opening.source_input import OpenUri

MAX_KNOWN_FILES: Final = 5000  # some hundred bytes each
COUNT_AGAIN_S: Final = 60.0  # after a count failed that may succeed another time

_CHANGED: Final = PlayFailure(
    FailureCode.FILE_MISSING, Stage.CONNECT, "There is another file by now.", "Play the track again."
)


class KnownFiles:
    """Facts of local files, for all players of a node; the files used last are kept. `count` opens a file for its facts
    in a decoder process, and counts its length where the file does not state it. It does so for one file after the
    other."""

    def __init__(
        self,
        open_source: OpenUri,
        count: Callable[[SourceUri, OpenUri], Awaitable[SourceFacts]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_source = open_source
        self._count = count
        self._now_s = now_s
        # A number: the length could not be counted, and it is not tried again before that time.
        self._known: OrderedDict[FileVersion, SourceFacts | float] = OrderedDict()
        self._counting = asyncio.Lock()

    def completed(self, version: FileVersion | None, facts: SourceFacts) -> SourceFacts:
        """The facts, with the exact length if it was counted before. Keeps facts that have an exact length."""
        if version is None:
            return facts
        if facts.is_length_exact:
            self._note(version, facts)
            return facts
        known = self._known.get(version)
        if not isinstance(known, SourceFacts):
            return facts
        return replace(facts, length_ms=known.length_ms, is_length_exact=True)

    def count_in_s(self, version: FileVersion) -> float:
        """How long it takes until `counted` may find the length of a file: 0 now, infinite for what cannot be
        counted."""
        known = self._known.get(version, 0.0)
        return 0.0 if isinstance(known, SourceFacts) else max(0.0, known - self._now_s())

    async def counted(self, uri: SourceUri, version: FileVersion) -> SourceFacts | None:
        """The facts of a file, with an exact length, when all files are counted that were asked for before. None when
        it cannot be counted, for a while or as long as the file stays as it is."""
        async with self._counting:
            known = self._known.get(version, 0.0)
            if not isinstance(known, SourceFacts) and known <= self._now_s():
                known = await self._try_to_count(uri, version)
                self._note(version, known)
        return known if isinstance(known, SourceFacts) else None

    async def _try_to_count(self, uri: SourceUri, version: FileVersion) -> SourceFacts | float:
        """The facts with an exact length, or the time from which on another try is worth it."""
        try:
            facts = await self._count(uri, partial(self._open_unchanged, version))
        except PlayError as error:
            is_final = error.failure.code in FAULTS_OF_BYTES
        except (OSError, TimeoutError):
            is_final = False
        else:
            if facts.is_length_exact:
                return facts
            is_final = True
        return math.inf if is_final else self._now_s() + COUNT_AGAIN_S

    async def _open_unchanged(self, version: FileVersion, uri: SourceUri, report_wait: ReportWait) -> OpenedSource:
        opened = await self._open_source(uri, report_wait)
        if not isinstance(opened, OpenedSource):
            raise PlayError(_CHANGED)
        if opened.version != version:
            await opened.close()
            raise PlayError(_CHANGED)
        return opened

    def _note(self, version: FileVersion, known: SourceFacts | float) -> None:
        self._known[version] = known
        self._known.move_to_end(version)
        if len(self._known) > MAX_KNOWN_FILES:
            self._known.popitem(last=False)
