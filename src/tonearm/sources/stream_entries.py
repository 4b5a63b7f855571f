"""Finds where a demuxer can begin in a live stream that has already begun: the bytes that it needs first, and the
offset.
"""

from collections import deque
from typing import Final

from tonearm.core.file_formats import (
    MOST_HEAD_BYTES,
    OGG_CONTINUED,
    OGG_FIRST,
    OGG_PATTERN,
    RECOGNISED_BYTES,
    PageHead,
    has_head,
    is_in_frames,
    page_head,
)
from tonearm.core.opened_source import OpenedSource, StreamEntry, media_type

# At most this much of the past is sent to a new reader of a shared station, as Icecast does for every listener.
BURST_BYTES: Final = 64 * 1024

_MOST_HEAD_PAGES_BYTES: Final = 256 * 1024  # with a picture in the comments


class StreamEntries:
    """Finds the entries of a stream. `feed` gets the bytes of the stream in order."""

    def __init__(self, opened: OpenedSource) -> None:
        self._reader = opened.reader
        self._media_type = media_type(opened.content_type)
        self._first = b""
        self._ogg: _OggEntries | None = None
        self._are_anywhere = False  # a demuxer can begin with any byte
        self._found: deque[StreamEntry] = deque()
        self._part_start = self._end = 0

    def feed(self, data: bytes) -> None:
        if len(self._first) < RECOGNISED_BYTES:
            self._first += data[: RECOGNISED_BYTES - len(self._first)]
            if not self._reader.has_entries:
                self._are_anywhere = _begins_anywhere(self._first, self._media_type)
            if self._ogg is None and self._first.startswith(OGG_PATTERN):
                self._ogg = _OggEntries(self._found, self._end)
        if self._ogg is not None:
            self._ogg.feed(data)
        self._end += len(data)
        self._found.extend(self._reader.take_entries(self._end))

    def begin_part(self) -> None:
        """The next bytes begin a part, which may have another format."""
        if not self._reader.has_entries:
            self._found.clear()
            self._first, self._ogg, self._are_anywhere = b"", None, False
            self._part_start = self._end

    def forget_before(self, offset: int) -> None:
        """Removes the entries before `offset`, whose bytes are no longer kept."""
        while self._found and self._found[0].offset < offset:
            self._found.popleft()

    def entry_before(self, offset: int, oldest: int) -> StreamEntry | None:
        """The last entry at or before `offset`, else the first entry after it, else None. The stream keeps the bytes
        from `oldest` on."""
        start = self._part_start
        if oldest <= start and (offset <= start or start == self._end):
            return StreamEntry(start, b"")
        if self._are_anywhere:
            return StreamEntry(max(offset, oldest), b"")
        before = [entry for entry in self._found if entry.offset <= offset]
        if before:
            return before[-1]
        return self._found[0] if self._found else None

    def are_anywhere_from(self, offset: int) -> bool:
        """Whether a demuxer that has read up to `offset` can go on with any later byte."""
        return self._are_anywhere and offset >= self._part_start

    @property
    def are_possible(self) -> bool:
        """Whether a reader can begin elsewhere than at the first byte."""
        return self._are_anywhere or self._ogg is not None or self._reader.has_entries


class _OggEntries:
    """Finds the Ogg pages at which a packet begins, after the header pages of their logical stream.

    Header pages have position 0 or no position, and precede the first page with audio (RFC 7845, 4; Vorbis I, A.2).
    """

    def __init__(self, found: deque[StreamEntry], offset: int) -> None:
        self._found = found
        self._raw = bytearray()
        self._offset = offset  # of the first byte in `_raw`
        self._head = b""
        self._is_head = False

    def feed(self, data: bytes) -> None:
        self._raw += data
        while (head := self._next_page()) is not None:
            self._take_page(head, bytes(self._raw[: head.page_bytes]))
            self._drop(head.page_bytes)

    def _next_page(self) -> PageHead | None:
        """The next page; None while it has not arrived as a whole."""
        while True:
            start = self._raw.find(OGG_PATTERN)
            self._drop(start if start >= 0 else max(len(self._raw) - len(OGG_PATTERN) + 1, 0))
            head = page_head(self._raw)
            if head is not None or len(self._raw) < MOST_HEAD_BYTES:
                return head if head is not None and len(self._raw) >= head.page_bytes else None
            self._drop(len(OGG_PATTERN))  # the pattern is not the beginning of a page

    def _take_page(self, head: PageHead, page: bytes) -> None:
        flags, granule = head.flags, head.granule
        if flags & OGG_FIRST:
            if not self._is_head:
                self._head, self._is_head = b"", True
                self._found.append(StreamEntry(self._offset, b""))
        elif self._is_head and granule > 0:
            self._is_head = False
        if self._is_head:
            self._head += page if len(self._head) <= _MOST_HEAD_PAGES_BYTES else b""
        elif not flags & OGG_CONTINUED and 0 < len(self._head) <= _MOST_HEAD_PAGES_BYTES:
            self._found.append(StreamEntry(self._offset, self._head))

    def _drop(self, count: int) -> None:
        del self._raw[:count]
        self._offset += count


def _begins_anywhere(first: bytes, media_type: str) -> bool:
    """Whether a demuxer looks for the next frame or packet, or a decoder process does so for it."""
    return is_in_frames(first, media_type) or (media_type == "video/mp2t" and not has_head(first))
