"""An HLS stream as a source: its segments one after the other, in parts; at each part a demuxer begins again."""

import asyncio
import contextlib
import logging
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from tonearm.core.failure import REFUSALS, PlayError
from tonearm.core.file_formats import ID3_HEADER_BYTES, id3_tag_bytes
from tonearm.core.opened_source import OpenedSource, Place, SourceReader, StreamEntry
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import SourceUri
from tonearm.sources.hls.decryption import Decryptor
from tonearm.sources.hls.files import HlsFiles, PlaylistFile
from tonearm.sources.hls.follow import SegmentFollower, Stream, find_stream
from tonearm.sources.hls.playlist import ByteRange, Key, MediaSegment, Piece
from tonearm.sources.http.errors import may_pass, read_error
from tonearm.sources.playlist import nothing_to_play
from tonearm.sources.read_ahead import ReadAhead, RetryBudget

log = logging.getLogger(__name__)

# Offsets have 63 bits. A part of a stream has less than a tebibyte.
_INDEX_SHIFT: Final = 40
# Codecs depend on earlier audio: a position just after a segment's start is reached from the segment before it.
_PREROLL_MS: Final = 100
_KEEP_BEHIND_BYTES: Final = 64 * 1024
_MAX_LOST_IN_A_ROW: Final = 3
_MOST_ENTRIES: Final = 100  # those of segments that are read ahead
_MOST_INIT_BYTES: Final = 256 * 1024


async def open_hls(files: HlsFiles, file: PlaylistFile) -> OpenedSource:
    """The stream of a playlist; of a master playlist the stream with the best sound. Raises `PlayError`."""
    stream = await find_stream(files, file)
    playlist = stream.playlist
    if playlist.is_complete and not any(not segment.is_gap for segment in playlist.segments):
        raise nothing_to_play("names no segment")
    name = stream.base.path.rpartition("/")[2]
    return OpenedSource(
        uri=stream.base,
        reader=HlsReader(files, stream, name),
        name=name,
        is_live=not playlist.is_complete,
        length_ms=playlist.length_ms,
        choice=stream.choice,
    )


class HlsReader(SourceReader):
    """Reads a stream in parts.

    Segments of MPEG transport streams, packed AAC and MP3, and fragments of MP4 after their initialization section can
    be concatenated. A part ends where the encoding or the timestamps change. The next part begins with everything that
    a demuxer needs.

    The number of bytes before a segment is not known. When reading begins at a segment, the offset of its first byte is
    the segment's index shifted by `_INDEX_SHIFT`. Later offsets are counted from there.
    """

    def __init__(self, files: HlsFiles, stream: Stream, name: str) -> None:
        self._files = files
        self._name = name
        self._follower = SegmentFollower(files, stream)
        self._is_complete = stream.playlist.is_complete
        self._retries = RetryBudget(files.settings.resume_delays_s)
        self._entries: deque[StreamEntry] = deque(maxlen=_MOST_ENTRIES)
        self._key: tuple[SourceUri, bytes] | None = None  # the last one
        self._is_closed = False
        self._begin_at_segment(0)

    def _begin_at_segment(self, index: int) -> None:
        self._before: MediaSegment | None = None
        self._init = b""  # of the part: what a demuxer that begins with a later segment needs first
        self._ahead = ReadAhead(
            lambda: self._fill(index),
            host=self._name,
            offset=index << _INDEX_SHIFT,
            behind_bytes=_KEEP_BEHIND_BYTES,
            ahead_bytes=self._files.settings.read_ahead_bytes,
        )

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        index, is_within = divmod(offset, 1 << _INDEX_SHIFT)
        is_segment = self._is_complete and not is_within and index < len(self._follower.playlist.segments)
        if is_segment and offset != self._ahead.position and not self._is_closed:
            left = self._ahead
            self._begin_at_segment(index)
            await left.close()
        if not self._ahead.start <= offset <= self._ahead.end:
            raise read_error(ConnectionAbortedError(), self._name)
        return await self._ahead.read_at(offset, max_bytes)

    @property
    def finds_positions(self) -> bool:
        return self._is_complete

    def place_before(self, position_ms: int) -> Place:
        starts_s = self._follower.playlist.starts_s
        wanted_s = max(position_ms - _PREROLL_MS, 0) / 1000
        index = bisect_right(starts_s, wanted_s, hi=len(starts_s) - 1) - 1
        return Place(index << _INDEX_SHIFT, round(starts_s[index] * 1000))

    @property
    def has_entries(self) -> bool:
        return True

    def take_entries(self, up_to_offset: int) -> list[StreamEntry]:
        taken: list[StreamEntry] = []
        while self._entries and self._entries[0].offset < up_to_offset:
            taken.append(self._entries.popleft())
        return taken

    async def close(self) -> None:
        self._is_closed = True
        await self._ahead.close()

    async def _fill(self, index: int) -> None:
        lost: PlayError | None = None
        lost_in_a_row = 0
        begun_at = self._ahead.end
        async with contextlib.aclosing(self._follower.segments(index)) as segments:
            async for segment in segments:
                lost = await self._append_or_lose(segment)
                lost_in_a_row = lost_in_a_row + 1 if lost else 0
                if lost is not None and lost_in_a_row >= _MAX_LOST_IN_A_ROW:
                    raise lost
        if lost is not None and self._ahead.end == begun_at:
            raise lost

    async def _append_or_lose(self, segment: MediaSegment) -> PlayError | None:
        """The error by which the segment was lost, or None. The stream goes on without a lost segment, since the
        listener has waited long enough. Raises `PlayError` for a file that the node may not open."""
        end, before = self._ahead.end, self._before
        try:
            try:
                await self._append_segment(segment)
            except PlayError:
                # Links may have expired while the stream played. After the first bytes it is too late.
                may_renew = self._is_complete and self._ahead.end == end
                again = await self._follower.renewed(segment) if may_renew else None
                if again is None:
                    raise
                self._before = before
                await self._append_segment(again)
        except PlayError as error:
            if error.failure.code in REFUSALS:
                raise
            log.info("a segment of a stream is lost: %s", text_for_logs(error.failure.message))
            return error
        return None

    async def _append_segment(self, segment: MediaSegment) -> None:
        if segment.is_gap:
            return
        before, self._before = self._before, None
        # If numbers are missing, a lost segment may have announced a change.
        follows = before is not None and segment.number == before.number + 1
        if not follows or segment.breaks or before is None or segment.init != before.init:
            self._ahead.end_part()
            self._entries.append(StreamEntry(self._ahead.end, b""))
            self._init = b""
            if segment.init is not None:
                self._init = await self._append_piece(segment.init, kept_bytes=_MOST_INIT_BYTES)
        elif segment.init is None or 0 < len(self._init) < _MOST_INIT_BYTES:
            self._entries.append(StreamEntry(self._ahead.end, self._init))
        self._before = segment
        begun_at = self._ahead.end
        try:
            await self._append_piece(segment.piece)
        except PlayError:
            if segment.init is not None and self._ahead.end > begun_at:
                self._before = None  # a demuxer of MP4 would take the next segment for the rest of this one
            raise

    async def _append_piece(self, piece: Piece, kept_bytes: int = 0) -> bytes:
        """Appends the bytes of `piece`, and returns up to `kept_bytes` of its first bytes."""
        kept = b""
        uri = self._files.linked(self._follower.base, piece.reference)
        decryptor = None if piece.key is None else await self._decryptor(piece.key)
        stripper = Id3Stripper()
        async with contextlib.aclosing(segment_bytes(self._files, uri, piece.byte_range, self._retries)) as chunks:
            async for chunk in chunks:
                self._retries.earn(len(chunk))
                self._follower.retries.earn(len(chunk))
                plain = chunk if decryptor is None else decryptor.update(chunk)
                kept += plain[: kept_bytes - len(kept)]
                self._ahead.append(stripper.strip(plain))
                await self._ahead.wait_for_room()
        last = b"" if decryptor is None else decryptor.finish()
        self._ahead.append(stripper.strip(last) + stripper.remaining())
        await self._ahead.wait_for_room()
        return kept + last[: kept_bytes - len(kept)]

    async def _decryptor(self, key: Key) -> Decryptor:
        uri = self._files.linked(self._follower.base, key.reference)
        if self._key is None or self._key[0] != uri:
            self._key = uri, await self._files.key(uri)
        return await asyncio.to_thread(Decryptor, self._key[1], key.iv)


async def segment_bytes(
    files: HlsFiles, uri: SourceUri, byte_range: ByteRange | None, retries: RetryBudget
) -> AsyncGenerator[bytes, None]:
    """The bytes of a segment, resumed when the transfer is lost. Raises `PlayError` when no retry is left."""
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
                return  # everything had arrived before the loss
            if not may_pass(error) or not await retries.wait():
                raise


class Id3Stripper:
    """Takes the ID3v2 tag (ID3v2.4 structure, 3.1) off the beginning of a segment.

    In packed audio the tag has a timestamp (RFC 8216, 3.4), which demuxers take for damage.
    """

    def __init__(self) -> None:
        self._begun: bytes | None = b""  # None once it is known how much to skip
        self._skip_bytes = 0

    def strip(self, chunk: bytes) -> bytes:
        """The segment's next bytes, without those of the tag."""
        if self._begun is not None:
            self._begun += chunk
            if self._begun.startswith(b"ID3") and len(self._begun) < ID3_HEADER_BYTES:
                return b""
            if len(self._begun) < 3 and b"ID3".startswith(self._begun):
                return b""
            chunk, self._begun = self._begun, None
            self._skip_bytes = id3_tag_bytes(chunk)
        skipped = min(self._skip_bytes, len(chunk))
        self._skip_bytes -= skipped
        return chunk[skipped:]

    def remaining(self) -> bytes:
        """The bytes that were kept back because the segment ended before a tag could be recognised."""
        begun, self._begun = self._begun, None
        return begun or b""
