"""Live streams, each decoded once in a process for all its sessions that play the stream.

A session without listeners, the carrier, decodes the stream. The sessions that play the stream join the carrier. So the
stream goes on when any one of these sessions ends.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tonearm.core.admission import ALWAYS
from tonearm.core.filters import Filters
from tonearm.core.opened_source import OpenedSource, SharedStream, Wait
from tonearm.core.source_uri import SourceUri
from tonearm.decoder.messages import (
    SHARED_SOURCE,
    Decoded,
    Failed,
    FromDecoder,
    NoRoom,
    OpenSession,
    OpenSource,
    ReadRequest,
    SessionFailed,
)
from tonearm.decoder.opening.source_feed import SourceFeed
from tonearm.decoder.pool.pool import PoolSession


class LiveCarriers:
    """The carriers in all processes of a node. `suspect` records a source that a process worked on when it died."""

    def __init__(self, suspect: Callable[[SourceUri], None]) -> None:
        self.suspect: Final = suspect
        self._carriers: dict[tuple[SharedStream, int], Carrier] = {}

    def join(self, opened: OpenedSource, uri: SourceUri, link: PoolSession) -> "Carrier | None":
        """The carrier of a live stream in the process of a session, until the caller leaves it. None for a source that
        is not live or has no stream to share."""
        stream = opened.reader.stream
        if stream is None or not opened.is_live:
            return None
        key = stream, link.process_id
        carrier = self._carriers.get(key)
        if carrier is None or carrier.is_over:
            alone = replace(opened, reader=stream.new_reader())
            carrier = self._carriers[key] = Carrier(alone, uri, link, self)
        carrier.members += 1
        return carrier

    def forget(self, carrier: "Carrier") -> None:
        for key in [key for key, known in self._carriers.items() if known is carrier]:
            del self._carriers[key]


class Carrier:
    """Feeds a live stream to the process of the session `link`. Owns `opened` and its own session."""

    frames_ahead = 0
    claim = ALWAYS  # instead of the carrier, the sessions that play the stream wait for room, or are closed
    is_silent = False

    def __init__(self, opened: OpenedSource, uri: SourceUri, link: PoolSession, carriers: LiveCarriers) -> None:
        self.members = 0
        self.is_over = False  # no session may join any more
        self._uri = uri
        self._carriers = carriers
        self._session = link.beside(self)
        self.session_id = self._session.id
        self._feed = SourceFeed(opened, self._session.send)
        self._session.send(OpenSession(self.session_id, epoch=1, first_frame=0, filters=Filters()))
        self._session.send(
            OpenSource(
                session=self.session_id,
                source=SHARED_SOURCE,
                name=opened.name,
                size_bytes=opened.size_bytes,
                is_seekable=False,
                is_live=True,
                content_type=opened.content_type,
                start_sample=0,
                has_descriptor=False,
                is_shared=True,
                audio=uri.audio if opened.choice is None else "",
            )
        )

    @property
    def waiting_for(self) -> Wait:
        return self._feed.waiting_for

    async def leave(self) -> None:
        """A session does not play the stream any more. When the last session leaves, the stream is closed."""
        self.members -= 1
        if not self.members:
            self._end()
            self._session.close()
            await self._feed.close()

    # From the pool

    def receive(self, message: FromDecoder) -> None:
        match message:
            case ReadRequest():
                self._feed.request_read(message)
            case Failed() | Decoded() | SessionFailed() | NoRoom():
                self._end()  # the sessions that joined get their own messages

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """The owners of the sessions that play the stream move these themselves."""
        if suspect_sources:
            self._carriers.suspect(self._uri)
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self._carriers.forget(self)
