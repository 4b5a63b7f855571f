"""Pictures, and audio files with pictures in them."""

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Final

from tests.support.audio_files import Signal, flac, id3, m4a, mp3, opus
from tests.support.pieces import Mp4, box


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(side: int = 8, *, filler: int = 0) -> bytes:
    """A black square; `filler` bytes of a private chunk make it larger."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(side * (3 * side + 1)))
    private = _chunk(b"teSt", bytes(filler)) if filler else b""
    parts = (_chunk(b"IHDR", header), private, _chunk(b"IDAT", rows), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


# Nobody here decodes them: their first bytes are what counts.
JPEG: Final = b"\xff\xd8\xff\xe0" + bytes(range(200)) + b"\xff\xd9"
WEBP: Final = b"RIFF" + struct.pack("<I", 104) + b"WEBPVP8 " + bytes(92)
GIF: Final = b"GIF89a" + bytes(60)
SVG: Final = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


def picture_block(picture: bytes, media_type: str = "image/png") -> bytes:
    """FLAC's METADATA_BLOCK_PICTURE, without its header (RFC 9639, 8.8); Ogg has the same in base64."""
    mime = media_type.encode()
    kind_and_type = struct.pack(">II", 3, len(mime)) + mime
    return kind_and_type + struct.pack(">IIIII", 0, 8, 8, 24, 0) + struct.pack(">I", len(picture)) + picture


def flac_block(kind: int, data: bytes) -> bytes:
    """A block of metadata; of a longer one than it can say its size has the lowest bits."""
    return bytes([kind]) + (len(data) & 0xFFFFFF).to_bytes(3, "big") + data


def flac_with(
    signal: Signal, picture: bytes, media_type: str = "image/png", *, more_pictures: Sequence[bytes] = ()
) -> bytes:
    file = flac(signal)
    blocks = [flac_block(6, picture_block(one, media_type)) for one in (picture, *more_pictures)]
    return file[:42] + b"".join(blocks) + file[42:]


def opus_with(signal: Signal, picture: bytes) -> bytes:
    return opus(signal, tags={"METADATA_BLOCK_PICTURE": base64.b64encode(picture_block(picture)).decode()})


def mp3_with(signal: Signal, picture: bytes) -> bytes:
    return id3(texts={}, picture=picture) + mp3(signal)


def m4a_with(signal: Signal, picture: bytes) -> bytes:
    """An iTunes `covr` item in a file whose index is at its end, so that no offset changes. 14 is PNG."""
    data = box(b"data", struct.pack(">II", 14, 0) + picture)
    return Mp4(m4a(signal, index_first=False)).with_tags(box(b"covr", data))
