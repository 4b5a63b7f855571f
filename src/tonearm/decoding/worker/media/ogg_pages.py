"""The packets of a plain Ogg Opus file, page by page, without libav: a third of the work for each.

Only what is ordinary is read so: whole pages of one logical stream that follow each other (RFC 3533, section 6), with
packets of 20 ms that may be passed through, whose positions follow each other, too. At anything else, and at the last
page, libav goes on: it knows about trimming, chains and damage.
"""

import struct
from itertools import pairwise
from typing import Final, NamedTuple

from tonearm.core.failure import PlayError
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.decoding.worker.media.opus_format import can_pass_through
from tonearm.decoding.worker.reading.reader import MediaReader

_CAPTURE_PATTERN: Final = b"OggS"
_HEADER: Final = struct.Struct("<4xBBqIIxxxxB")  # version, flags, granule, serial, sequence, number of segments
_HEADER_BYTES: Final = 27
_CONTINUED: Final = 1  # the only flag of an ordinary page: its first packet began on the page before
_WHOLE_SEGMENT: Final = 255
_READ_BYTES: Final = 16 * 1024
_MOST_BEGUN_BYTES: Final = 64 * 1024  # of a packet that goes on on the next page


class _Page(NamedTuple):
    serial: int
    sequence: int
    granule: int


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
        self._before: _Page | None = None
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
        if not self._has(_HEADER_BYTES) or not self._raw.startswith(_CAPTURE_PATTERN, self._at):
            return None
        version, flags, granule, serial, sequence, segments = _HEADER.unpack_from(self._raw, self._at)
        before = self._before
        is_next = before is None or (before.serial, before.sequence + 1) == (serial, sequence)
        if version or flags & ~_CONTINUED or granule < 0 or not is_next or not self._has(_HEADER_BYTES + segments):
            return None
        if before is not None and bool(flags & _CONTINUED) != bool(self._begun):
            return None
        body = self._at + _HEADER_BYTES + segments
        places, place = [0], 0
        for size in self._raw[self._at + _HEADER_BYTES : body]:
            place += size
            if size < _WHOLE_SEGMENT:
                places.append(place)
        # Where another page follows, this one's sizes are right.
        if not self._has(body - self._at + place + len(_CAPTURE_PATTERN)):
            return None
        body = self._at + _HEADER_BYTES + segments
        if not self._raw.startswith(_CAPTURE_PATTERN, body + place):
            return None
        sound = bytes(self._raw[body : body + place])
        packets = [sound[start:end] for start, end in pairwise(places)]
        if packets and flags & _CONTINUED:
            packets[0] = self._begun + packets[0]
        if before is not None and granule - before.granule != len(packets) * FRAME_SAMPLES:
            return None
        if before is None and flags & _CONTINUED:
            del packets[:1]  # its beginning was not read
        self._begun = sound[places[-1] :]
        self._before = _Page(serial, sequence, granule)
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
