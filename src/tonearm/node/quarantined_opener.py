"""Opens sources for players and for their tags, but those that ended decoder processes."""

import time
from collections.abc import Callable
from typing import Final

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.opened_source import OpenedSource, ReportWait
from tonearm.core.play_queue import Playlist
from tonearm.core.quarantine import Quarantine
from tonearm.core.source_uri import SourceUri
from tonearm.sources.opener import SourceOpener
from tonearm.sources.shared_streams import SharingOpener

_NOT_READ_AHEAD: Final = PlayFailure(
    FailureCode.NOT_AUDIO, Stage.CONNECT, "Only files are read ahead.", "Wait until it is this track's turn."
)


class QuarantinedOpener:
    """Opens sources, except those that ended decoder processes twice."""

    def __init__(self, opener: SourceOpener) -> None:
        self._opener = opener
        self._shared = SharingOpener(opener)
        self._quarantine = Quarantine()

    def add(self, uri: SourceUri) -> None:
        """A decoder process died while it worked on `uri`."""
        self._quarantine.suspect(uri.normalised, time.monotonic())

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
        self._require_free(uri)
        return await self._shared.open(uri, report_wait)

    def is_suspect(self, uri: SourceUri) -> bool:
        """Whether a decoder process died while it worked on `uri`, in the last hour."""
        return self._quarantine.is_suspect(uri.normalised, time.monotonic())

    @property
    def for_tags(self) -> "OpenerForTags":
        return OpenerForTags(self._opener, self._require_free)

    def _require_free(self, uri: SourceUri) -> None:
        if self._quarantine.is_quarantined(uri.normalised, time.monotonic()):
            raise PlayError(
                PlayFailure(
                    FailureCode.QUARANTINED,
                    Stage.CONNECT,
                    "This source has ended a decoder process twice; it is not tried again for an hour.",
                    "Check the file with another program: it is damaged or made to do harm.",
                )
            )
        self._quarantine.note_open(uri.normalised)


class OpenerForTags:
    """Opens files only: nothing is resolved ahead, and nothing live is connected to."""

    def __init__(self, opener: SourceOpener, require_free: Callable[[SourceUri], None]) -> None:
        self._opener = opener
        self._require_free = require_free

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
        self._require_free(uri)
        opened = await self._opener.open_direct(uri)
        if opened is None or isinstance(opened, Playlist) or opened.is_live:
            if isinstance(opened, OpenedSource):
                await opened.close()
            raise PlayError(_NOT_READ_AHEAD)
        return opened
