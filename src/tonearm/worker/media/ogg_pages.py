"""The packets of a plain Ogg Opus file, page by page, without libav: a third of the work for each.

Only ordinary pages are read so: whole pages of one logical stream in order (RFC 3533, section 6), with packets of 20 ms
that may be passed through, and positions without gaps. libav reads all other pages, and the last one: it handles
trimming, chained streams and damage.
"""

from itertools import pairwise
from typing import Final

from tonearm.core.failure import PlayError
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.ogg_page import MOST_HEAD_BYTES, OGG_CONTINUED, OGG_PATTERN, WHOLE_SEGMENT, PageHead, page_head
from tonearm.worker.media.opus_format import can_pass_through
from tonearm.worker.reading.reader import MediaReader

_READ_BYTES: Final = 16 * 1024
_MOST_BEGUN_BYTES: Final = 64 * 1024  # of a packet that goes on on the next page


class OggPages:
    """Reads on in a file from a packet that libav has read. `reader` is for it alone."""

    @classmethod
    def behind(cls, reader: MediaReader, position: int | None, packet: bytes) -> "OggPages | None":
        """The packets behind `packet`, which is on the page at `position`. None where that page is not ordinary."""
        if position is None or position < 0:
            return None
        pages = cls(reader, position)
        packets = pages.next_packets()
        if packets is None or packets.count(packet) != 1:
            return None
        pages._rest = packets[packets.index(packet) + 1 :]
        return pages

    def __init__(self, reader: MediaReader, position: int) -> None:
        self._reader = reader
        self._raw = bytearray()
        self._at = 0  # in `_raw`, the page that comes next
        self._rest: list[bytes] = []
        self._begun = b""
        self._before: PageHead | None = None
        reader.seek(position)

    def next_packets(self) -> list[bytes] | None:
        """The packets of the next page, one or more. None where libav has to go on."""
        if self._rest:
            rest, self._rest = self._rest, []
            return rest
        try:
            return self._packets_of_page()
        except PlayError:
            return None  # libav finds the same

    def _packets_of_page(self) -> list[bytes] | None:
        self._has(MOST_HEAD_BYTES)
        head, before = page_head(self._raw, self._at), self._before
        if head is None:
            return None
        is_next = before is None or (before.serial, before.sequence + 1) == (head.serial, head.sequence)
        if head.flags & ~OGG_CONTINUED or head.granule < 0 or not is_next:
            return None
        is_continued = bool(head.flags & OGG_CONTINUED)
        if before is not None and is_continued != bool(self._begun):
            return None
        places, place = [0], 0
        for size in head.lacing:
            place += size
            if size < WHOLE_SEGMENT:
                places.append(place)
        # Where another page follows, this one's sizes are right.
        if not self._has(head.page_bytes + len(OGG_PATTERN)):
            return None
        body = self._at + head.bytes_before_content
        if not self._raw.startswith(OGG_PATTERN, body + place):
            return None
        sound = bytes(self._raw[body : body + place])
        packets = [sound[start:end] for start, end in pairwise(places)]
        if packets and is_continued:
            packets[0] = self._begun + packets[0]
        if before is not None and head.granule - before.granule != len(packets) * FRAME_SAMPLES:
            return None
        if before is None and is_continued:
            del packets[:1]  # its beginning was not read
        self._begun = sound[places[-1] :]
        self._before = head
        self._at = body + place
        is_ordinary = bool(packets) and len(self._begun) <= _MOST_BEGUN_BYTES and all(map(can_pass_through, packets))
        return packets if is_ordinary else None

    def _has(self, count: int) -> bool:
        """Whether so many bytes are there from the next page on."""
        while len(self._raw) - self._at < count:
            del self._raw[: self._at]
            self._at = 0
            data = self._reader.read(_READ_BYTES)
            if not data:
                return False
            self._raw += data
        return True
