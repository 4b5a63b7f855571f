"""Formats of files that both the node and its decoder processes read: the length of an ID3 tag, kinds of pictures."""

from dataclasses import dataclass
from typing import Final

ID3_HEADER_BYTES: Final = 10

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


@dataclass(frozen=True, slots=True)
class Picture:
    """A cover. `media_type` is one that `picture_type` returns; `version` is a name that changes with the bytes."""

    data: bytes
    media_type: str
    version: str


def picture_type(data: bytes) -> str | None:
    """The media type of a picture, by its first bytes; None for a format that is not shown."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for first, media_type in _BY_FIRST_BYTES if data.startswith(first)), None)
