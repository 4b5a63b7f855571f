"""Reads and writes the pages of Ogg (RFC 3533, section 6)."""

import struct
import zlib
from typing import Final, NamedTuple

OGG_PATTERN: Final = b"OggS"
OGG_CONTINUED: Final = 0x01  # the page begins in the middle of a packet
OGG_FIRST: Final = 0x02  # the page begins a logical stream
OGG_LAST: Final = 0x04  # the page ends a logical stream
OGG_CHECKSUM_AT: Final = 22  # in the page, 4 bytes
WHOLE_SEGMENT: Final = 255  # a packet goes on in the next segment after one of this size
MOST_SEGMENTS: Final = 255

# Pattern, version, flags, granule, serial, sequence, checksum, number of segments.
_HEADER: Final = struct.Struct("<4sBBqIIIB")
MOST_HEAD_BYTES: Final = _HEADER.size + MOST_SEGMENTS
_BITS_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class PageHead(NamedTuple):
    """The header of a page without its checksum. `lacing` has the size of each segment, a byte each."""

    flags: int
    granule: int
    serial: int
    sequence: int
    lacing: bytes

    @property
    def bytes_before_content(self) -> int:
        return _HEADER.size + len(self.lacing)

    @property
    def page_bytes(self) -> int:
        return self.bytes_before_content + sum(self.lacing)


def page_head(raw: bytes | bytearray, at: int = 0) -> PageHead | None:
    """The header of the page that begins at byte `at` of `raw`; None without a page there, or when its header is cut
    off."""
    if len(raw) - at < _HEADER.size or not raw.startswith(OGG_PATTERN, at):
        return None
    _, version, flags, granule, serial, sequence, _, segments = _HEADER.unpack_from(raw, at)
    lacing = bytes(raw[at + _HEADER.size : at + _HEADER.size + segments])
    return None if version or len(lacing) < segments else PageHead(flags, granule, serial, sequence, lacing)


def ogg_page(head: PageHead, content: bytes | memoryview) -> bytes:
    """The page with this header and content, and its checksum."""
    flags, granule, serial, sequence, lacing = head
    header = _HEADER.pack(OGG_PATTERN, 0, flags, granule, serial, sequence, 0, len(lacing))
    page = bytearray(b"".join((header, lacing, content)))
    page[OGG_CHECKSUM_AT : OGG_CHECKSUM_AT + 4] = ogg_checksum(page)
    return bytes(page)


def ogg_checksum(page: bytes | bytearray) -> bytes:
    """The four bytes of a page's checksum, CRC-32 with Ogg's polynomial. `page` has four zeros in their place.

    Ogg's CRC begins with 0 and takes the highest bit of each byte first. zlib's CRC inverts before and after, and takes
    the lowest bit first. On bytes with reversed bits zlib computes Ogg's CRC, much faster than Python could.
    """
    reversed_bits = zlib.crc32(page.translate(_BITS_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return reversed_bits.to_bytes(4, "big").translate(_BITS_REVERSED)
