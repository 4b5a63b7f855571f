"""An HLS stream as a source of bytes: its segments one after another.

The bytes of one HLS segment, taken up again where a transfer breaks off.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.source_uri import SourceUri
from tonearm.core.text_for_logs import text_for_logs
from tonearm.sources import playlist_errors
from tonearm.sources.hls.follow import SegmentFollower, parse_in_thread, read_media_playlist
from tonearm.sources.hls.playlist import ByteRange, MasterPlaylist, MediaPlaylist, Piece, Segment, best_audio
from tonearm.sources.http.errors import PassingError, read_error
from tonearm.sources.linked_files import LinkedFiles, PlaylistFile
from tonearm.sources.read_ahead import ReadWindow, RetryBudget

log = logging.getLogger(__name__)

_ID3_HEADER_BYTES: Final = 10


async def segment_bytes(
    files: LinkedFiles, uri: SourceUri, byte_range: ByteRange | None, retries: RetryBudget
) -> AsyncGenerator[bytes, None]:
    """Raises `PlayError` when the transfer breaks off more often than `retries` has tries."""
    received = 0
    while True:
        try:
            body = await files.open(uri, byte_range, skip_bytes=received)
            try:
                while chunk := await body.read():
                    received += len(chunk)
                    yield chunk
                return
            finally:
                await body.close()
        except PlayError as error:
            if byte_range is not None and received == byte_range.length:
                return  # all was there before the end was seen
            if not isinstance(error, PassingError) and error.failure.code is not FailureCode.TIMEOUT:
                raise
            delay_s = retries.next_delay_s(asyncio.get_running_loop().time())
            if delay_s is None:
                raise
            await asyncio.sleep(delay_s)


class Id3Stripper:
    """Takes the ID3v2 tag (ID3v2.4 structure, 3.1) off the beginning of a segment.

    In packed audio it holds a timestamp (RFC 8216, 3.4), which the demuxers take for damage.
    """

    def __init__(self) -> None:
        self._begun: bytes | None = b""  # None once it is known how much to skip
        self._skip_bytes = 0

    def strip(self, chunk: bytes) -> bytes:
        """What is left of the next bytes of the segment."""
        if self._begun is not None:
            self._begun += chunk
            if self._begun.startswith(b"ID3") and len(self._begun) < _ID3_HEADER_BYTES:
                return b""
            if len(self._begun) < 3 and b"ID3".startswith(self._begun):
                return b""
            chunk, self._begun = self._begun, None
            if chunk.startswith(b"ID3"):
                for seven_bits in chunk[6:_ID3_HEADER_BYTES]:
                    self._skip_bytes = self._skip_bytes << 7 | seven_bits & 0x7F
                self._skip_bytes += _ID3_HEADER_BYTES
        skipped = min(self._skip_bytes, len(chunk))
        self._skip_bytes -= skipped
        return chunk[skipped:]

    def rest(self) -> bytes:
        """What was held back when the segment ended before it was clear."""
        begun, self._begun = self._begun, None
        return begun or b""


_KEEP_BEHIND_BYTES: Final = 64 * 1024
_LOST_SEGMENTS_IN_A_ROW: Final = 3


class HlsSource:
    """A `ByteSource` in parts, for one reader that reads on. Memory is bounded by its window.

    MPEG transport streams, packed AAC and MP3, and fragments of MP4 behind their initialization section all go on when
    the next segment is put behind the last one. Where the encoding or the timestamps change a part ends, and the next
    one begins with all that a demuxer needs.
    """

    def __init__(self, files: LinkedFiles, file: PlaylistFile, playlist: MediaPlaylist) -> None:
        self._files = files
        self._playlist = playlist
        self._name = file.uri.path.rpartition("/")[2]
        self._follower = SegmentFollower(files, file, playlist)
        self._retries = RetryBudget(files.settings.resume_delays_s)
        self._window = ReadWindow(0, behind_bytes=_KEEP_BEHIND_BYTES, ahead_bytes=files.settings.read_ahead_bytes)
        self._part_ends: deque[int] = deque()
        self._part_start = 0
        self._before: Segment | None = None
        self._failure: PlayError | None = None
        self._is_complete = False
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._filling = asyncio.create_task(self._fill())

    @classmethod
    async def open(cls, files: LinkedFiles, file: PlaylistFile) -> "HlsSource":
        """The stream behind a playlist, or behind the one of a master playlist that sounds best. Raises `PlayError`."""
        parsed = await parse_in_thread(file.data)
        if isinstance(parsed, MasterPlaylist):
            inner = await files.playlist(files.linked(file.uri, best_audio(parsed)))
            assert inner is not None, "nothing was known of it before"
            file, parsed = inner, await read_media_playlist(inner)
        if parsed.is_complete and not any(not segment.is_gap for segment in parsed.segments):
            raise playlist_errors.nothing_to_play("names no segment")
        return cls(files, file, parsed)

    @property
    def size_bytes(self) -> int | None:
        return None

    @property
    def is_seekable(self) -> bool:
        return False

    @property
    def is_live(self) -> bool:
        return not self._playlist.is_complete

    @property
    def length_ms(self) -> int:
        return self._playlist.length_ms if self._playlist.is_complete else 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def content_type(self) -> str | None:
        return None  # the playlist's says nothing about the segments

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` from `offset`, at least one; `b""` once at the end of each part, and at the end for ever.

        Raises `PlayError`.
        """
        if not self._window.start <= offset <= self._window.end:
            raise read_error(ConnectionAbortedError(), self._name)
        self._window.move_to(offset)
        self._room.set()
        while True:
            if self._part_ends and offset == self._part_ends[0]:
                self._part_ends.popleft()
                return b""
            data = self._window.take(min(max_bytes, self._part_ends[0] - offset) if self._part_ends else max_bytes)
            if data:
                self._room.set()
                return data
            if self._failure is not None:
                raise self._failure
            if self._is_complete:
                return b""
            if self._filling.done():
                self._filling.result()  # raises what nobody foresaw
            self._arrived.clear()
            await self._arrived.wait()

    async def close(self) -> None:
        """Cuts the connection, whatever is under way. A waiting `read_at` raises `PlayError`."""
        self._failure = self._failure or read_error(ConnectionAbortedError(), self._name)
        self._arrived.set()
        self._filling.cancel()
        await asyncio.wait((self._filling,))

    async def _fill(self) -> None:
        lost_in_a_row = 0
        try:
            async with contextlib.aclosing(self._follower.segments()) as segments:
                async for segment in segments:
                    try:
                        await self._pour_segment(segment)
                    except PlayError as error:
                        lost_in_a_row += 1
                        if self._playlist.is_complete or lost_in_a_row >= _LOST_SEGMENTS_IN_A_ROW:
                            raise
                        # A live stream goes on without it; the reader has had enough of waiting already.
                        log.info("a segment of a live stream is lost: %s", text_for_logs(error.failure.message))
                    else:
                        lost_in_a_row = 0
            self._is_complete = True
        except PlayError as error:
            self._failure = error
        finally:
            self._arrived.set()

    async def _pour_segment(self, segment: Segment) -> None:
        if segment.is_gap:
            return
        before, self._before = self._before, segment
        # Between numbers that do not follow each other something was lost that may have told of a change.
        follows = before is not None and segment.number == before.number + 1
        if not follows or segment.breaks or before is None or segment.init != before.init:
            self._end_part()
            if segment.init is not None:
                await self._pour(segment.init)
        await self._pour(segment.piece)

    def _end_part(self) -> None:
        if self._window.end > self._part_start:
            self._part_start = self._window.end
            self._part_ends.append(self._window.end)
            self._arrived.set()

    async def _pour(self, piece: Piece) -> None:
        uri = self._files.linked(self._follower.base, piece.reference)
        stripper = Id3Stripper()
        async with contextlib.aclosing(segment_bytes(self._files, uri, piece.byte_range, self._retries)) as chunks:
            async for chunk in chunks:
                await self._append(stripper.strip(chunk))
        await self._append(stripper.rest())

    async def _append(self, data: bytes) -> None:
        if data:
            self._window.append(data)
            self._arrived.set()
        while self._window.is_full:
            self._room.clear()
            await self._room.wait()
