"""All sources of a player that are open or being opened, for the decoder session that it has."""

import asyncio
import logging
from typing import Final, Protocol

from tonearm.audio.source_opening import Opener, SessionLink, SourceOpening
from tonearm.core.failure import PlayFailure
from tonearm.core.outcome import SourceId
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import Want

WAITING_FOR_PROCESS: Final = "waiting for a decoder process"

log = logging.getLogger(__name__)


class OpeningsOwner(Protocol):
    """Who is told what cannot be played as it is."""

    def source_failed(self, source: SourceId, failure: PlayFailure) -> None: ...

    def source_expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None: ...

    def went_wrong(self) -> None: ...


class SourceOpenings:
    """`close` waits for all that was ever begun; a dropped source takes a moment to give everything back."""

    def __init__(self, owner: OpeningsOwner, opener: Opener) -> None:
        self._owner = owner
        self._opener = opener
        self._openings: dict[SourceId, SourceOpening] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def start(self, source: SourceId, uri: str, delay_s: float, start_sample: int, session: SessionLink) -> None:
        self._openings[source] = SourceOpening(
            source, uri, delay_s, start_sample, self._opener, session, self._failed, self._expanded
        )

    def want(self, order: Want) -> None:
        opening = self._openings.get(order.source)
        if opening is not None:
            opening.want(order)

    def completed(self, source: SourceId, facts: SourceFacts) -> SourceFacts:
        """What the decoder found, and what was told about the source beside it."""
        opening = self._openings.get(source)
        return facts if opening is None else opening.completed(facts)

    def waiting_for(self, source: SourceId) -> str:
        """What a source is waiting for that gives nothing, in a few words."""
        opening = self._openings.get(source)
        return WAITING_FOR_PROCESS if opening is None else opening.waiting_for

    def drop(self, source: SourceId) -> None:
        opening = self._openings.pop(source, None)
        if opening is not None:
            task = opening.drop()
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def drop_all(self) -> None:
        for source in tuple(self._openings):
            self.drop(source)

    async def close(self) -> None:
        self.drop_all()
        if self._closing:
            await asyncio.wait(self._closing)

    def _failed(self, source: SourceId, failure: PlayFailure) -> None:
        try:
            self._owner.source_failed(source, failure)
        except Exception:
            log.exception("the failure of a source could not be taken in")
            self._owner.went_wrong()

    def _expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None:
        try:
            self._owner.source_expanded(source, tracks)
        except Exception:
            log.exception("the entries of a playlist could not be taken in")
            self._owner.went_wrong()
