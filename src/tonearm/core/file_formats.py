"""Formats of files that both the node and its decoder processes read: the length of an ID3 tag, frames without a
container, kinds of pictures, the pages of Ogg (RFC 3533, section 6).
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final, NamedTuple

ID3_HEADER_BYTES: Final = 10
OGG_PATTERN: Final = b"OggS"

MAX_PICTURE_BYTES: Final = 8 * 1024 * 1024

# Formats that browsers show. SVG is not among them: it may contain a program.
_BY_FIRST_BYTES: Final = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def id3_tag_bytes(first: bytes) -> int:
    """The size in bytes of the ID3v2 tag that `first` begins with, with its header; 0 without a whole header.

    Such a tag may stand before any audio (ID3v2.4 structure, 3.1).
    """
    if len(first) < ID3_HEADER_BYTES or not first.startswith(b"ID3"):
        return 0
    size = 0
    for seven_bits in first[6:ID3_HEADER_BYTES]:
        size = size << 7 | seven_bits & 0x7F
    return ID3_HEADER_BYTES + size


# The media types that servers send for MPEG audio and ADTS.
_FRAMES_TYPES: Final = frozenset({"audio/mpeg", "audio/mp3", "audio/aac", "audio/aacp", "audio/x-aac", "audio/x-mpeg"})
# Containers with a head. The media types that servers send for them are not reliable.
_HEADS: Final = (OGG_PATTERN, b"\x1aE\xdf\xa3", b"fLaC", b"RIFF", b"RF64", b"FORM", b"FLV", b".snd", b"caff")
RECOGNISED_BYTES: Final = 12


def has_head(first: bytes) -> bool:
    """Whether these first `RECOGNISED_BYTES` begin a container that can only be read from its head on."""
    return first.startswith(_HEADS) or first[4:8] == b"ftyp"


def is_in_frames(first: bytes, media_type: str) -> bool:
    """Whether this is MPEG audio or ADTS without a container, by its first `RECOGNISED_BYTES` and the media type from
    the server. Such a source may begin in the middle of a frame."""
    if has_head(first):
        return False
    is_frame = len(first) > 1 and first[0] == 0xFF and first[1] & 0xE0 == 0xE0
    return media_type in _FRAMES_TYPES or is_frame or first.startswith(b"ID3")


@dataclass(frozen=True, slots=True)
class Picture:
    """A cover. `media_type` is a result of `picture_type`; `version` is a name that changes with the bytes."""

    data: bytes
    media_type: str
    version: str


def picture_type(data: bytes) -> str | None:
    """The media type of a picture, by its first bytes; None for a format that clients do not get."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for first, media_type in _BY_FIRST_BYTES if data.startswith(first)), None)


OGG_CONTINUED: Final = 0x01  # the page begins in the middle of a packet
OGG_FIRST: Final = 0x02  # the page begins a logical stream
OGG_LAST: Final = 0x04  # the page ends a logical stream
OGG_CHECKSUM_AT: Final = 22  # in the page, 4 bytes
WHOLE_SEGMENT: Final = 255  # after a segment of this size, the packet continues in the next one
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


def page_head(raw: bytes | bytearray) -> PageHead | None:
    """The header of the page that `raw` begins with; None without one, or when it is cut off."""
    if len(raw) < _HEADER.size or not raw.startswith(OGG_PATTERN):
        return None
    _, version, flags, granule, serial, sequence, _, segments = _HEADER.unpack_from(raw)
    lacing = bytes(raw[_HEADER.size : _HEADER.size + segments])
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
