"""Opens a player's sources and brings each to its decoder session, as a descriptor or as a feed of bytes."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tonearm.audio.playlist_tracks import playlist_tracks
from tonearm.audio.source_feed import DECODER_BUSY, SourceFeed
from tonearm.core.byte_source import ByteSource, LocalFile, MeasuredSource, PacedSource, SourceFromPage, Station
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.outcome import SourceId
from tonearm.core.playlist import Playlist
from tonearm.core.text_for_logs import text_for_logs
from tonearm.core.track import Track
from tonearm.core.track_info import PageFacts, SourceFacts
from tonearm.decoder.messages import Data, DataFailed, DropSource, OpenSource, TitleAt, Want

log = logging.getLogger(__name__)


class Opener(Protocol):
    """Turns a URI into something that can be read."""

    async def open(self, uri: str) -> LocalFile | ByteSource | Playlist:
        """What comes back belongs to the caller. Raises `PlayError`."""
        ...


class SessionLink(Protocol):
    """The way to the decoder session that a source is opened for."""

    @property
    def id(self) -> int: ...

    def send(
        self, message: OpenSource | DropSource | Data | DataFailed | TitleAt, descriptor: int | None = None
    ) -> None: ...


class SourceOpening:
    """One source on its way into one session: being opened, then fed until it is dropped.

    `failed` is called when the URI cannot be opened, `expanded` when it is a list of others. A re-opened source starts
    at `start_sample` where that is possible; a live one starts where it is now. A probe is only opened, to see what it
    is.
    """

    def __init__(
        self,
        source: SourceId,
        uri: str,
        delay_s: float,
        start_sample: int,
        opener: Opener,
        link: SessionLink,
        failed: Callable[[SourceId, PlayFailure], None],
        expanded: Callable[[SourceId, tuple[Track, ...]], None],
        *,
        is_probe: bool = False,
    ) -> None:
        self._source = source
        self._uri = uri
        self._start_sample = start_sample
        self._is_probe = is_probe
        self._link = link
        self._failed = failed
        self._expanded = expanded
        self._feed: SourceFeed | None = None
        self._page: PageFacts | None = None
        self._length_ms = 0
        self._station_name: str | None = None
        self._paced: PacedSource | None = None
        self._closing: asyncio.Task[None] | None = None
        self._opening = asyncio.get_running_loop().create_task(self._open(opener, delay_s))

    def want(self, order: Want) -> None:
        if self._feed is not None:
            self._feed.want(order)

    @property
    def waiting_for(self) -> str:
        """What the source is waiting for when it gives nothing, in a few words."""
        if not self._opening.done():
            return "the source is being opened"
        return DECODER_BUSY if self._feed is None else self._feed.waiting_for

    def completed(self, facts: SourceFacts) -> SourceFacts:
        """What the decoder found, and what the source and the page that led to it told beyond it."""
        if self._length_ms and not facts.is_stream:
            facts = replace(facts, length_ms=self._length_ms)
        if self._station_name is not None:
            facts = facts.of_station(self._station_name)
        if self._paced is not None and facts.length_ms:
            self._paced.played_in(facts.length_ms)
        return facts if self._page is None else facts.completed_by(self._page)

    def drop(self) -> asyncio.Task[None]:
        """Stops whatever goes on. The task ends when everything is given back."""
        if self._closing is None:
            self._opening.cancel()
            self._link.send(DropSource(self._link.id, self._source))
            self._closing = asyncio.get_running_loop().create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        await asyncio.wait([self._opening])
        if self._feed is not None:
            await self._feed.close()

    async def _open(self, opener: Opener, delay_s: float) -> None:
        if delay_s:
            await asyncio.sleep(delay_s)
        try:
            opened = await opener.open(self._uri)
        except PlayError as error:
            self._failed(self._source, error.failure)
        except Exception as error:
            # A library's surprise ends this track with a reason instead of leaving it loading for ever.
            log.exception("opening %s failed unexpectedly", text_for_logs(self._uri))
            self._failed(
                self._source,
                PlayFailure(
                    FailureCode.CONNECT_FAILED,
                    Stage.CONNECT,
                    f"Opening the source failed unexpectedly ({type(error).__name__}: {error}).",
                    "Try again; report it when it happens again with this source.",
                ),
            )
        else:
            if isinstance(opened, Playlist):
                # In a thread: what is made for hundreds of tracks takes some ms.
                self._expanded(self._source, await asyncio.to_thread(playlist_tracks, opened, {}))
            else:
                self._begin(opened)

    def _begin(self, opened: LocalFile | ByteSource) -> None:
        if isinstance(opened, LocalFile):
            order = OpenSource(
                session=self._link.id,
                source=self._source,
                name=opened.name,
                size_bytes=opened.size_bytes,
                is_seekable=True,
                is_live=False,
                content_type=None,
                start_sample=self._start_sample,
                has_descriptor=True,
                is_probe=self._is_probe,
            )
            self._link.send(order, opened.descriptor)
            return
        if isinstance(opened, SourceFromPage):
            self._page = opened.page
        source = opened.source if isinstance(opened, SourceFromPage) else opened
        if isinstance(source, MeasuredSource):
            self._length_ms = source.length_ms
        if isinstance(source, PacedSource):
            self._paced = source
        if isinstance(source, Station):
            self._station_name = source.station_name
        order = OpenSource(
            session=self._link.id,
            source=self._source,
            name=opened.name,
            size_bytes=opened.size_bytes,
            is_seekable=opened.is_seekable,
            is_live=opened.is_live,
            content_type=opened.content_type,
            start_sample=self._start_sample,
            has_descriptor=False,
            is_probe=self._is_probe,
        )
        self._feed = SourceFeed(opened, self._link.send)
        self._link.send(order)
