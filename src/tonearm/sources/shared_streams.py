"""Live streams that are fetched once for all their readers.

The fastest reader has bytes fetched, which are kept for a while for the others. A reader that falls behind the kept
bytes, and a reader that comes later, begins where a demuxer can begin.
"""

import asyncio
import contextlib
import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from tonearm.core.failure import PlayError, PlayFailure
from tonearm.core.opened_source import (
    OpenedSource,
    ReportWait,
    SharedStream,
    SourceReader,
    StreamEntry,
    TitleAtByte,
    Wait,
    ignore_wait,
)
from tonearm.core.play_queue import Playlist
from tonearm.core.source_uri import SourceUri
from tonearm.sources.http.errors import read_error
from tonearm.sources.stream_entries import BURST_BYTES, StreamEntries

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 64 * 1024
MOST_HELD_BYTES: Final = 4 * 1024 * 1024  # a segment of a stream with video has some MiB
MOST_WITHOUT_ENTRY_BYTES: Final = 512 * 1024  # after these a later reader stops waiting for an entry
MOST_TITLES: Final = 100

_Key: TypeAlias = tuple[str, str, bool]


class UriOpener(Protocol):
    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
        """Opens `uri`; the caller owns the opened source. Raises `PlayError`."""
        ...


class SharingOpener:
    """Opens URIs by `opener`, but a live stream only once, as long as it has readers.

    When a remote URI is opened several times at once, only the first call opens it, since it may be a live stream. If
    it is a file, the other calls open the URI for themselves.
    """

    def __init__(self, opener: UriOpener) -> None:
        self._opener = opener
        self._openings: dict[_Key, _Opening] = {}
        self._streams: dict[_Key, LiveStream] = {}

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
        if uri.is_here:
            return await self._opener.open(uri, report_wait)
        key = (uri.normalised, uri.audio, uri.came_through_proxy)
        stream = self._streams.get(key)
        if stream is not None:
            return stream.opened_again(report_wait)
        opening = self._openings.get(key)
        if opening is None or opening.is_given_up:
            opening = self._openings[key] = _Opening(uri, self._opener)
        try:
            opened = await opening.wait(report_wait)
        finally:
            if opening.is_over and self._openings.get(key) is opening:
                del self._openings[key]
        if isinstance(opened, OpenedSource) and opened.is_live:
            stream = self._streams[key] = LiveStream(
                opened, partial(self._opener.open, uri), lambda over: self._forget(key, over)
            )
            return stream.opened_again(report_wait)
        if opened is not None:
            return opened
        stream = self._streams.get(key)
        return await self._opener.open(uri, report_wait) if stream is None else stream.opened_again(report_wait)

    def _forget(self, key: _Key, stream: "LiveStream") -> None:
        if self._streams.get(key) is stream:
            del self._streams[key]


class _Opening:
    """An attempt to open a URI, for all callers that wait for it. It is cancelled when no caller waits any more."""

    def __init__(self, uri: SourceUri, opener: UriOpener) -> None:
        self._reports: list[ReportWait] = []
        self._last_wait: Wait | None = None
        self._opened: OpenedSource | Playlist | None = None
        self._failure: PlayFailure | None = None
        self._waiting = 0
        self.is_given_up = False
        self._task = asyncio.get_running_loop().create_task(self._open(uri, opener))

    @property
    def is_over(self) -> bool:
        return self.is_given_up or self._task.done()

    async def wait(self, report_wait: ReportWait) -> OpenedSource | Playlist | None:
        """The opened stream, which the caller then owns; None when another caller has got it. Raises `PlayError`."""
        self._waiting += 1
        self._reports.append(report_wait)
        if self._last_wait is not None:
            report_wait(self._last_wait)
        try:
            await asyncio.wait((self._task,))
        except asyncio.CancelledError:
            if self._waiting == 1:
                await self._give_up()
            raise
        finally:
            self._waiting -= 1
            self._reports.remove(report_wait)
        opened, self._opened = self._opened, None
        if isinstance(opened, Playlist):
            self._opened = opened  # other callers may have the playlist, too
        if opened is None:
            self._task.result()
            if self._failure is not None:
                raise PlayError(self._failure)
        return opened

    async def _give_up(self) -> None:
        self.is_given_up = True
        self._task.cancel()
        await asyncio.wait((self._task,))
        if self._task.cancelled():
            with contextlib.suppress(asyncio.CancelledError):
                self._task.result()  # otherwise the task keeps the error, whose traceback keeps this object
        opened, self._opened = self._opened, None
        if isinstance(opened, OpenedSource):
            await opened.close()

    async def _open(self, uri: SourceUri, opener: UriOpener) -> None:
        try:
            self._opened = await opener.open(uri, self._report)
        except PlayError as error:  # the task would keep it, and its traceback this object
            self._failure = error.failure

    def _report(self, wait: Wait) -> None:
        self._last_wait = wait
        for report in self._reports:
            report(wait)


class LiveStream(SharedStream):
    """A live stream and its last bytes. `over` is called when no reader may join any more.

    `open_alone` opens the same stream again, for a later reader of a format that can only be read from its beginning.
    """

    def __init__(
        self,
        opened: OpenedSource,
        open_alone: Callable[[ReportWait], Coroutine[Any, Any, OpenedSource | Playlist]],
        over: Callable[["LiveStream"], None],
    ) -> None:
        self._opened = opened
        self.name: Final = opened.name
        self._source = opened.reader
        self.open_alone = open_alone
        self._over = over
        self.held = _Held()
        self.entries = StreamEntries(opened)
        self._titles: deque[TitleAtByte] = deque(maxlen=MOST_TITLES)
        self._readers: list[SharedReader] = []
        self._reading: asyncio.Task[None] | None = None
        self._is_over = False
        self.error: Exception | None = None
        self.is_complete = False
        self.is_closed = False

    def opened_again(self, report_wait: ReportWait) -> OpenedSource:
        return replace(self._opened, reader=self.new_reader(report_wait))

    def new_reader(self, report_wait: ReportWait = ignore_wait) -> "SharedReader":
        reader = SharedReader(self, report_wait)
        self._readers.append(reader)
        return reader

    @property
    def is_reconnecting(self) -> bool:
        return self._source.is_reconnecting

    def entry(self) -> StreamEntry | None:
        """Where a new reader should begin, with enough bytes ahead of it for a quick start. None when it cannot begin
        yet, or not at all."""
        if self.is_closed:
            return None
        offset = self.held.end - max(BURST_BYTES - self._source.waiting_bytes, 0)
        return self.entries.entry_before(offset, self.held.start)

    def titles_from(self, offset: int) -> list[TitleAtByte]:
        """The title that applies at `offset`, and the later titles."""
        titles = list(self._titles)
        first = bisect_right([title.offset for title in titles], offset)
        return [replace(title, offset=max(title.offset, offset)) for title in titles[max(first - 1, 0) :]]

    async def more(self) -> None:
        """Waits until the source has returned more bytes, the end of a part, the end of the stream, or an error."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read())
        # A waiting reader may be cancelled; the read goes on for the others.
        await asyncio.wait((self._reading,))

    async def _read(self) -> None:
        try:
            data = await self._source.read_at(self.held.end, CHUNK_BYTES)
        except Exception as error:  # noqa: BLE001 - raised again by each reader
            self.error = error
            self._end()
        else:
            if data:
                self._take(data)
            elif self.held.is_at_part_end:
                self.is_complete = True
                self._end()
            else:
                self.held.end_part()
                self.entries.begin_part()
        finally:
            self._reading = None

    def _take(self, data: bytes) -> None:
        self.held.append(data)
        self.entries.feed(data)
        for title in self._source.take_titles(self.held.end):
            self._titles.append(title)
            for reader in self._readers:
                reader.expect(title)
        entry = self.entries.entry_before(self.held.end - BURST_BYTES, self.held.start)
        needed = [reader.at for reader in self._readers if reader.at is not None]
        if entry is not None:
            needed.append(entry.offset)
        self.held.drop_before(max(min(needed, default=0), self.held.end - MOST_HELD_BYTES))
        self.entries.forget_before(self.held.start)

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._over(self)

    async def leave(self, reader: "SharedReader") -> None:
        """Removes a reader that was closed, or that reads from a connection of its own. The stream is closed when no
        other reader has begun and none can begin."""
        if reader in self._readers:
            self._readers.remove(reader)
        can_begin = self.entries.are_possible or self.entry() is not None
        if any(can_begin or other.at is not None for other in self._readers):
            return
        self._end()
        self.is_closed = True
        reading = self._reading
        await self._source.close()
        if reading is not None:
            await asyncio.wait((reading,))


@dataclass
class _Held:
    """The kept bytes of a stream, from `start` to `end`, and the ends of its parts."""

    start: int = 0
    _bytes: bytearray = field(default_factory=bytearray)
    _part_ends: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self._bytes)

    @property
    def is_at_part_end(self) -> bool:
        return bool(self._part_ends) and self._part_ends[-1] == self.end

    def append(self, data: bytes) -> None:
        self._bytes += data

    def end_part(self) -> None:
        self._part_ends.append(self.end)

    def part_end_from(self, offset: int) -> int | None:
        """The end of the part with `offset` in it; None when that end was not read yet."""
        return next((end for end in self._part_ends if end >= offset), None)

    def read(self, offset: int, most: int) -> bytes:
        """Up to `most` bytes from `offset` on."""
        first = offset - self.start
        with memoryview(self._bytes) as held:
            return bytes(held[first : first + most])

    def drop_before(self, offset: int) -> None:
        if offset > self.start:
            del self._bytes[: offset - self.start]
            self.start = offset
            self._part_ends = [end for end in self._part_ends if end >= self.start]


class SharedReader(SourceReader):
    """Reads a live stream that other readers read, too. Offsets count the bytes that this reader got. `report_wait` is
    called when the reader waits while it opens the stream for itself."""

    def __init__(self, stream: LiveStream, report_wait: ReportWait) -> None:
        self._stream = stream
        self._report_wait = report_wait
        self._position = 0
        self.at: int | None = None  # in the stream; None before it begins
        self._head = b""
        self._told_part_end = -1
        self._titles: deque[TitleAtByte] = deque(maxlen=MOST_TITLES)
        self._last_title = ""
        self._alone: OpenedSource | None = None
        self._alone_from = 0  # the offset at which it began
        self._is_closed = False

    @property
    def stream(self) -> SharedStream:
        return self._stream

    @property
    def is_reconnecting(self) -> bool:
        return self._stream.is_reconnecting if self._alone is None else self._alone.reader.is_reconnecting

    def expect(self, title: TitleAtByte) -> None:
        if self.at is not None:
            self._titles.append(title)

    def take_titles(self, up_to_offset: int) -> list[TitleAtByte]:
        if self._alone is not None:
            titles = self._alone.reader.take_titles(up_to_offset - self._alone_from)
            return [replace(title, offset=title.offset + self._alone_from) for title in titles]
        taken: list[TitleAtByte] = []
        shift = self._position + len(self._head) - (self.at or 0)
        while self._titles and self._titles[0].offset + shift < up_to_offset:
            title = self._titles.popleft()
            if title.title != self._last_title:
                self._last_title = title.title
                taken.append(replace(title, offset=max(title.offset + shift, 0)))
        return taken

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        if self._alone is not None:
            return await self._alone.reader.read_at(offset - self._alone_from, max_bytes)
        if self._is_closed or offset != self._position:
            raise read_error(ConnectionAbortedError(), self._stream.name)
        while True:
            if self.at is not None and self.at < self._stream.held.start and not self._head:
                behind, self.at = self.at, None  # the reader begins again
                if not self._stream.entries.are_anywhere_from(behind):
                    return b""  # ends a part: the demuxer begins again, too
            if self.at is None and not await self._begin():
                return await self.read_at(offset, max_bytes)
            data = self._take_held(max_bytes)
            if data is not None:
                return data
            if self._stream.error is not None:
                raise _again(self._stream.error)
            if self._stream.is_complete:
                return b""
            await self._stream.more()
            if self._is_closed:
                raise read_error(ConnectionAbortedError(), self._stream.name)

    async def close(self) -> None:
        self._is_closed = True
        if self._alone is not None:
            await self._alone.close()
        await self._stream.leave(self)

    async def _begin(self) -> bool:
        """Finds where to begin. Returns False when the stream is opened again instead."""
        stream = self._stream
        give_up_at = stream.held.end + MOST_WITHOUT_ENTRY_BYTES
        while (entry := stream.entry()) is None:
            if stream.error is not None and not stream.is_closed:
                raise _again(stream.error)
            can_wait = stream.entries.are_possible and not (stream.is_closed or stream.is_complete)
            if not can_wait or stream.held.end > give_up_at:
                await self._open_alone()
                return False
            await stream.more()
        self.at, self._head = entry.offset, entry.head
        self._told_part_end = entry.offset  # the end of the part before, of which this reader got nothing
        self._titles = deque(stream.titles_from(entry.offset), maxlen=MOST_TITLES)
        return True

    async def _open_alone(self) -> None:
        opened = await self._stream.open_alone(self._report_wait)
        if isinstance(opened, Playlist):
            raise read_error(ConnectionAbortedError(), self._stream.name)
        self._alone, self._alone_from = opened, self._position
        if self._is_closed:
            await opened.close()
        await self._stream.leave(self)

    def _take_held(self, max_bytes: int) -> bytes | None:
        """The next bytes; b"" at the end of a part; None when no more bytes were read yet."""
        assert self.at is not None
        held = self._stream.held
        if self._head:
            data, self._head = self._head[:max_bytes], self._head[max_bytes:]
            self._position += len(data)
            return data
        part_end = held.part_end_from(self.at + (self._told_part_end == self.at))
        if part_end == self.at:
            self._told_part_end = part_end
            return b""
        data = held.read(self.at, max_bytes if part_end is None else min(max_bytes, part_end - self.at))
        self.at += len(data)
        self._position += len(data)
        return data or None


def _again(error: Exception) -> Exception:
    return PlayError(error.failure) if isinstance(error, PlayError) else error
