"""Repairs the checksums of damaged Ogg pages, so that libav does not drop them.

An Ogg page (RFC 3533) contains up to a second of audio under one checksum, and libav drops a page with a wrong
checksum. A flipped bit is at most a click, so a page with intact boundaries gets a new checksum.
"""

from typing import Final

from tonearm.core.file_formats import MOST_HEAD_BYTES, OGG_CHECKSUM_AT, OGG_PATTERN, PageHead, ogg_checksum, page_head
from tonearm.worker.reading.reader import MediaReader

_READ_BYTES: Final = 16 * 1024
# After this many false pages in a row the bytes only look like Ogg, and the rest passes unchanged.
_MAX_FALSE_PAGES: Final = 1000


class OggRepairer:
    """Passes on the bytes of a `MediaReader`, unchanged except for the checksums of damaged pages."""

    def __init__(self, reader: MediaReader) -> None:
        self._reader = reader
        self._raw = bytearray()
        self._ready = bytearray()
        self._raw_ended = False
        self._false_pages = 0
        self._serial: int | None = None

    def read(self, n: int) -> bytes:
        while not self._ready and not (self._raw_ended and not self._raw):
            self._repair_next()
        data = bytes(self._ready[:n])
        del self._ready[:n]
        return data

    def seek(self, offset: int) -> int:
        self._raw.clear()
        self._ready.clear()
        self._raw_ended = False
        self._false_pages = 0
        return self._reader.seek(offset)

    def seekable(self) -> bool:
        return self._reader.seekable()

    def _repair_next(self) -> None:
        """Moves the next page, or the bytes before it, from raw to ready."""
        if not self._has_raw(len(OGG_PATTERN)) or self._false_pages > _MAX_FALSE_PAGES:
            self._pass_on(len(self._raw))
            return
        start = self._raw.find(OGG_PATTERN)
        if start != 0:
            # The last bytes may be the start of a page.
            self._pass_on(start if start > 0 else len(self._raw) - len(OGG_PATTERN) + 1)
            return
        head = self._whole_page()
        if head is None:
            self._false_pages += 1
            self._pass_on(len(OGG_PATTERN))
            return
        self._repair_checksum(head)
        self._pass_on(head.page_bytes)

    def _repair_checksum(self, head: PageHead) -> None:
        page_bytes, serial = head.page_bytes, head.serial
        place = slice(OGG_CHECKSUM_AT, OGG_CHECKSUM_AT + 4)
        stored_checksum = self._raw[place]
        self._raw[place] = bytes(4)
        true_checksum = ogg_checksum(self._raw[:page_bytes])
        is_whole = true_checksum == stored_checksum
        # A wrong serial number would make libav begin another stream.
        is_usable = is_whole or (serial == self._serial and self._page_follows(page_bytes))
        if is_whole:
            self._serial = serial
        self._false_pages = 0 if is_usable else self._false_pages + 1
        self._raw[place] = true_checksum if is_usable else stored_checksum

    def _whole_page(self) -> PageHead | None:
        """The page at the start of raw; None when there is no whole page."""
        self._has_raw(MOST_HEAD_BYTES)
        head = page_head(self._raw)
        return head if head is not None and self._has_raw(head.page_bytes) else None

    def _page_follows(self, position: int) -> bool:
        if not self._has_raw(position + len(OGG_PATTERN)):
            return len(self._raw) == position
        return self._raw[position : position + len(OGG_PATTERN)] == OGG_PATTERN

    def _has_raw(self, count: int) -> bool:
        while len(self._raw) < count and not self._raw_ended:
            data = self._reader.read(_READ_BYTES)
            self._raw += data
            self._raw_ended = not data
        return len(self._raw) >= count

    def _pass_on(self, count: int) -> None:
        self._ready += self._raw[:count]
        del self._raw[:count]
