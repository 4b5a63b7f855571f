"""Repairs the checksums of damaged Ogg pages, so that libav does not drop them.

An Ogg page (RFC 3533) contains up to a second of audio under one checksum, and libav drops a page with a wrong
checksum. A flipped bit is at most a click, so a page with intact boundaries gets a new checksum.

libav follows a chained stream (RFC 3533, 4) only into links of the same codec, rate and number of channels. So the
bytes end before any other link, for a demuxer that begins again there.
"""

from typing import Final

from tonearm.core.file_formats import (
    MOST_HEAD_BYTES,
    OGG_CHECKSUM_AT,
    OGG_FIRST,
    OGG_PATTERN,
    PageHead,
    ogg_checksum,
    page_head,
)
from tonearm.worker.reading.reader import MediaReader

_READ_BYTES: Final = 16 * 1024
# After this many false pages in a row the bytes only look like Ogg, and the rest passes unchanged.
_MAX_FALSE_PAGES: Final = 1000
_MOST_SEARCHED_BYTES: Final = 1024 * 1024  # of false pages, for others within them, beyond what was passed on since


class OggRepairer:
    """Passes on the bytes of a `MediaReader` up to a link of another form, unchanged but for the checksums of damaged
    pages. `is_chained`: a page of a further link was read, of whatever form.
    """

    def __init__(self, reader: MediaReader, *, is_live: bool = False) -> None:
        self._reader = reader
        self._is_live = is_live
        self._forms: set[bytes] = set()  # of the link's streams
        self._serials: set[int] = set()
        self._is_in_first_pages = True
        self._has_changed = False
        self.is_chained = False
        self._raw = bytearray()
        self._ready = bytearray()
        self._raw_ended = False
        self._false_pages = self._searched_bytes = 0
        self._serial: int | None = None

    def read(self, n: int) -> bytes:
        while not self._ready and not self._has_changed and not (self._raw_ended and not self._raw):
            self._repair_next()
        data = bytes(self._ready[:n])
        del self._ready[:n]
        return data

    @property
    def next_link(self) -> bytes:
        """The bytes that were read behind the end, from the first page of a link of another form on."""
        return bytes(self._raw) if self._has_changed else b""

    def seek(self, offset: int) -> int:
        self._raw.clear()
        self._ready.clear()
        self._raw_ended = False
        self._false_pages = 0
        self._is_in_first_pages, self._has_changed = not offset, False
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
        is_whole, is_usable = self._repair_checksum(head)
        self._has_changed = is_whole and self._begins_change(head)
        if self._has_changed:
            return
        if self._is_live and not is_usable and self._searched_bytes < _MOST_SEARCHED_BYTES:
            # A stream that broke off within a page goes on with another page, which the size of the first one covers.
            self._searched_bytes += head.page_bytes
            self._pass_on(len(OGG_PATTERN))
        else:
            self._pass_on(head.page_bytes)

    def _begins_change(self, head: PageHead) -> bool:
        """Whether this whole page begins a link of another form. All streams of a link begin before its other pages."""
        is_first = bool(head.flags & OGG_FIRST)
        self._is_in_first_pages &= is_first
        is_of_other = bool(self._serials) and not self._is_in_first_pages and head.serial not in self._serials
        self.is_chained |= is_of_other
        if not is_first:
            return False
        form = _form_of(bytes(self._raw[head.bytes_before_content : head.page_bytes]))
        if self._forms and not self._is_in_first_pages and form not in self._forms:
            return True
        if is_of_other:
            self._forms.clear()
            self._serials.clear()
        self._forms.add(form)
        self._serials.add(head.serial)
        self._is_in_first_pages = True
        return False

    def _repair_checksum(self, head: PageHead) -> tuple[bool, bool]:
        """Returns whether the checksum was right, and whether it is now."""
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
        return is_whole, is_usable

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
        self._searched_bytes = max(0, self._searched_bytes - count)
        self._ready += self._raw[:count]
        del self._raw[:count]


def _form_of(header: bytes) -> bytes:
    """The codec, the rate, and the channels with their gain, from the first packet of a stream (Vorbis I, 4.2.2;
    RFC 7845, 5.1; RFC 9639, 10.1)."""
    if header.startswith(b"\x01vorbis"):
        return header[:16]
    if header.startswith(b"OpusHead"):
        return header[:8] + header[9:10] + header[16:]
    return header[:5] + header[27:30] if header.startswith(b"\x7fFLAC") else header[:8]
