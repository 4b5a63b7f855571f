"""What both the node and its decoder processes know of the bytes of files: ID3 tags, pictures."""

from dataclasses import dataclass
from typing import Final

ID3_HEADER_BYTES: Final = 10

MAX_PICTURE_BYTES: Final = 8 * 1024 * 1024

# Only what browsers show and what cannot hold a program, as SVG can.
_BY_FIRST_BYTES: Final = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def id3_tag_bytes(first: bytes) -> int:
    """How many bytes the ID3v2 tag at the start has, with its header; 0 without one, or where the header is not whole.

    It may stand before any audio (ID3v2.4 structure, 3.1).
    """
    if len(first) < ID3_HEADER_BYTES or not first.startswith(b"ID3"):
        return 0
    size = 0
    for seven_bits in first[6:ID3_HEADER_BYTES]:
        size = size << 7 | seven_bits & 0x7F
    return ID3_HEADER_BYTES + size


@dataclass(frozen=True, slots=True)
class Picture:
    """`media_type` is one of those above or `image/webp`; `version` is a name of these very bytes."""

    data: bytes
    media_type: str
    version: str


def picture_type(data: bytes) -> str | None:
    """The media type of a picture, by its own first bytes; None for anything that is not shown."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for first, media_type in _BY_FIRST_BYTES if data.startswith(first)), None)
