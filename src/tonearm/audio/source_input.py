"""All sources of a player that are open or being opened, for the decoder session that it has.

The entries of a playlist as tracks.

Hands the bytes of a fetched source to its decoder process, chunk by chunk, as they are asked for.

Opens a player's sources and brings each to its decoder session, as a descriptor or as a feed of bytes.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

from tonearm.core.byte_source import ByteSource, LocalFile, MeasuredSource, PacedSource, SourceFromPage, Station
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.json_value import Json
from tonearm.core.play_queue import Playlist, PlaylistEntry, SourceId
from tonearm.core.source_uri import initial_track_info, parse_source_uri
from tonearm.core.text_for_logs import text_for_logs
from tonearm.core.track import Track
from tonearm.core.track_info import PageFacts, SourceFacts
from tonearm.decoding.messages import DATA_CHUNK_BYTES, Data, DataFailed, DropSource, OpenSource, ReadRequest, TitleAt

log = logging.getLogger(__name__)


def playlist_tracks(playlist: Playlist, metadata: Json) -> tuple[Track, ...]:
    """A track with a new id for each entry. What the playlist calls it is its title until it is opened."""
    return tuple(_track(entry, metadata) for entry in playlist.entries)


def _track(entry: PlaylistEntry, metadata: Json) -> Track:
    info = initial_track_info(parse_source_uri(entry.uri))
    if entry.title is not None:
        info = replace(info, title=entry.title)
    return Track.create(str(uuid.uuid4()), info, metadata, is_playlist_entry=True)


DECODER_BUSY: Final = "the decoder is busy"

Send: TypeAlias = "Callable[[Data | DataFailed | TitleAt], None]"

_LENGTH_LIMIT: Final = DATA_CHUNK_BYTES


class SourceFeed:
    """Answers one `ReadRequest` at a time; a newer one replaces an older one that is still being answered."""

    def __init__(self, source: ByteSource, send: Send) -> None:
        self._source = source
        self._send = send
        inner = source.source if isinstance(source, SourceFromPage) else source
        self._station = inner if isinstance(inner, Station) else None
        self._answering: asyncio.Task[None] | None = None

    @property
    def waiting_for(self) -> str:
        """What is waited for when the source gives nothing, in a few words."""
        if self._answering is None or self._answering.done():
            return DECODER_BUSY
        if self._station is not None and self._station.is_connecting:
            return "the connection is being made again"
        return "the source sends nothing"

    def request_read(self, order: ReadRequest) -> None:
        before = self._answering
        if before is not None:
            before.cancel()
        self._answering = asyncio.get_running_loop().create_task(self._answer(order, before))

    async def close(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait([self._answering])
        await self._source.close()

    async def _answer(self, order: ReadRequest, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        try:
            data = await self._source.read_at(order.offset, min(order.length, _LENGTH_LIMIT))
        except PlayError as error:
            self._send(DataFailed(order.session, order.source, order.offset, error.failure))
        except Exception as error:
            # Whatever a server makes a library raise must end this track, not the node's task unseen.
            log.exception("reading %s failed unexpectedly", text_for_logs(self._source.name))
            failure = PlayFailure(
                FailureCode.CONNECTION_LOST,
                Stage.READ,
                f"Reading the source failed unexpectedly ({type(error).__name__}).",
                "Try again; report it when it happens again with this source.",
            )
            self._send(DataFailed(order.session, order.source, order.offset, failure))
        else:
            for title in self._station.take_titles(order.offset + len(data)) if self._station is not None else ():
                self._send(TitleAt(order.session, order.source, title.offset, title.title))
            self._send(Data(order.session, order.source, order.offset, data))


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

    def request_read(self, order: ReadRequest) -> None:
        if self._feed is not None:
            self._feed.request_read(order)

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


WAITING_FOR_PROCESS: Final = "waiting for a decoder process"


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

    def request_read(self, order: ReadRequest) -> None:
        opening = self._openings.get(order.source)
        if opening is not None:
            opening.request_read(order)

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
