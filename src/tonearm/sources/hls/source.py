"""An HLS stream as a source: its segments one after the other, in parts; at each part a demuxer begins again."""

import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from tonearm.core.failure import PlayError
from tonearm.core.file_formats import ID3_HEADER_BYTES, id3_tag_bytes
from tonearm.core.opened_source import OpenedSource, SourceReader, StreamEntry
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import SourceUri
from tonearm.sources.hls.files import HlsFiles, PlaylistFile
from tonearm.sources.hls.follow import SegmentFollower, parse_in_thread, read_media_playlist
from tonearm.sources.hls.playlist import ByteRange, MasterPlaylist, MediaPlaylist, MediaSegment, Piece, best_audio
from tonearm.sources.http.errors import may_pass, read_error
from tonearm.sources.playlist import nothing_to_play
from tonearm.sources.read_ahead import ReadAhead, RetryBudget

log = logging.getLogger(__name__)

_KEEP_BEHIND_BYTES: Final = 64 * 1024
_MAX_LOST_IN_A_ROW: Final = 3
_MOST_ENTRIES: Final = 100  # those of segments that are read ahead
_MOST_INIT_BYTES: Final = 256 * 1024


async def open_hls(files: HlsFiles, file: PlaylistFile) -> OpenedSource:
    """The stream of a playlist; of a master playlist the stream with the best sound. Raises `PlayError`."""
    parsed = await parse_in_thread(file.data)
    if isinstance(parsed, MasterPlaylist):
        file = await files.playlist(files.linked(file.uri, best_audio(parsed)))
        parsed = await read_media_playlist(file)
    if parsed.is_complete and not any(not segment.is_gap for segment in parsed.segments):
        raise nothing_to_play("names no segment")
    name = file.uri.path.rpartition("/")[2]
    return OpenedSource(
        uri=file.uri,
        reader=HlsReader(files, file, parsed, name),
        name=name,
        is_live=not parsed.is_complete,
        length_ms=parsed.length_ms if parsed.is_complete else 0,
    )


class HlsReader(SourceReader):
    """Reads a stream in parts.

    MPEG transport streams, packed AAC and MP3, and fragments of MP4 after their initialization section go on when the
    next segment follows the last one's bytes. Where the encoding or the timestamps change a part ends, and the next one
    begins with everything that a demuxer needs.
    """

    def __init__(self, files: HlsFiles, file: PlaylistFile, playlist: MediaPlaylist, name: str) -> None:
        self._files = files
        self._playlist = playlist
        self._name = name
        self._follower = SegmentFollower(files, file, playlist)
        self._retries = RetryBudget(files.settings.resume_delays_s)
        self._before: MediaSegment | None = None
        self._init = b""  # of the part: what a demuxer that begins with a later segment needs first
        self._entries: deque[StreamEntry] = deque(maxlen=_MOST_ENTRIES)
        self._ahead = ReadAhead(
            self._fill, host=name, behind_bytes=_KEEP_BEHIND_BYTES, ahead_bytes=files.settings.read_ahead_bytes
        )

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        if not self._ahead.start <= offset <= self._ahead.end:
            raise read_error(ConnectionAbortedError(), self._name)
        return await self._ahead.read_at(offset, max_bytes)

    @property
    def has_entries(self) -> bool:
        return True

    def take_entries(self, up_to_offset: int) -> list[StreamEntry]:
        taken: list[StreamEntry] = []
        while self._entries and self._entries[0].offset < up_to_offset:
            taken.append(self._entries.popleft())
        return taken

    async def close(self) -> None:
        await self._ahead.close()

    async def _fill(self) -> None:
        lost_in_a_row = 0
        async with contextlib.aclosing(self._follower.segments()) as segments:
            async for segment in segments:
                try:
                    await self._append_segment(segment)
                except PlayError as error:
                    lost_in_a_row += 1
                    if self._playlist.is_complete or lost_in_a_row >= _MAX_LOST_IN_A_ROW:
                        raise
                    # A live stream goes on without it: the listener has waited long enough.
                    log.info("a segment of a live stream is lost: %s", text_for_logs(error.failure.message))
                else:
                    lost_in_a_row = 0

    async def _append_segment(self, segment: MediaSegment) -> None:
        if segment.is_gap:
            return
        before, self._before = self._before, segment
        # Where numbers are missing a change may have been announced in what was lost.
        follows = before is not None and segment.number == before.number + 1
        if not follows or segment.breaks or before is None or segment.init != before.init:
            self._ahead.end_part()
            self._entries.append(StreamEntry(self._ahead.end, b""))
            self._init = b""
            if segment.init is not None:
                self._init = await self._append_piece(segment.init, kept_bytes=_MOST_INIT_BYTES)
        elif segment.init is None or 0 < len(self._init) < _MOST_INIT_BYTES:
            self._entries.append(StreamEntry(self._ahead.end, self._init))
        await self._append_piece(segment.piece)

    async def _append_piece(self, piece: Piece, kept_bytes: int = 0) -> bytes:
        """Returns the first bytes of it, up to so many."""
        kept = b""
        uri = self._files.linked(self._follower.base, piece.reference)
        stripper = Id3Stripper()
        async with contextlib.aclosing(segment_bytes(self._files, uri, piece.byte_range, self._retries)) as chunks:
            async for chunk in chunks:
                self._retries.earn(len(chunk))
                self._follower.retries.earn(len(chunk))
                kept += chunk[: kept_bytes - len(kept)]
                self._ahead.append(stripper.strip(chunk))
                await self._ahead.wait_for_room()
        self._ahead.append(stripper.remaining())
        await self._ahead.wait_for_room()
        return kept


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
        """The bytes that were kept back when the segment ended before a tag could be told."""
        begun, self._begun = self._begun, None
        return begun or b""
