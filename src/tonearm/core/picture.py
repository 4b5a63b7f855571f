"""Pictures inside of audio files: which are shown, by their own first bytes and not by what the file says of them."""

from dataclasses import dataclass
from typing import Final

MAX_PICTURE_BYTES: Final = 8 * 1024 * 1024

# Only what browsers show and what cannot hold a program, as SVG can.
_BY_FIRST_BYTES: Final = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """`media_type` is one of those above or `image/webp`; `version` is a name of these very bytes."""

    data: bytes
    media_type: str
    version: str


def picture_type(data: bytes) -> str | None:
    """The media type of a picture; None for anything that is not shown."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for first, media_type in _BY_FIRST_BYTES if data.startswith(first)), None)
