"""A look at the first bytes of a source before libav gets it: what would end in a useless or endless read."""

import io
import struct
import time
from collections.abc import Callable
from typing import Final

from tonearm.decoder import play_errors
from tonearm.decoder.media_reader import MediaReader

# From here on, up to the first decoded sound. Bytes that only trickle would hold the player for ever.
OPENING_DEADLINE_S: Final = 15.0

FIRST_BYTES: Final = 4096
# At 24 kbit/s the larger number takes more than a second to come.
LIVE_FIRST_BYTES: Final = 256
_ID3_HEADER_BYTES: Final = 10

# How files begin, what stands 8 bytes further on, and libav's name for them.
_PCM_CONTAINERS: Final = (
    (b"RIFF", b"WAVE", "wav"),
    (b"RF64", b"WAVE", "wav"),
    (b"BW64", b"WAVE", "wav"),
    (b"FORM", b"AIFF", "aiff"),
    (b"FORM", b"AIFC", "aiff"),
    (b".snd", b"", "au"),
    (b"caff", b"desc", "caf"),
    (b"riff\x2e\x91\xcf\x11", b"\xa5\xd6\x28\xdb", "w64"),
)


class RewoundReader:
    """Gives bytes that were read already once more, then goes on with the reader: for sources that cannot jump."""

    def __init__(self, first: bytes, reader: MediaReader) -> None:
        self._first = first
        self._reader = reader

    def read(self, n: int) -> bytes:
        if self._first:
            data, self._first = self._first[:n], self._first[n:]
            return data
        return self._reader.read(n)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._first = b""
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell() - len(self._first)

    def seekable(self) -> bool:
        return self._reader.seekable()


def read_first_bytes(
    reader: MediaReader,
    *,
    name: str,
    deadline_s: float,
    is_live: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> bytes:
    """The first `FIRST_BYTES`, or fewer from a shorter source. Of a live one only those that tell its kind.

    Raises PlayError when they have not come at `deadline_s` by the clock.
    """
    parts: list[bytes] = []
    missing = LIVE_FIRST_BYTES if is_live else FIRST_BYTES
    while missing > 0 and (part := reader.read(missing)):
        parts.append(part)
        missing -= len(part)
        if missing > 0 and clock() > deadline_s:
            raise play_errors.opening_took_too_long(name, OPENING_DEADLINE_S)
    return b"".join(parts)


def id3_tag_bytes(first: bytes) -> int:
    """The size of the ID3v2 tag (ID3v2.4 structure, 3.1) before the sound, with its header; 0 without one."""
    if len(first) < _ID3_HEADER_BYTES or not first.startswith(b"ID3"):
        return 0
    size = 0
    for seven_bits in first[6:_ID3_HEADER_BYTES]:
        size = size << 7 | seven_bits & 0x7F
    return _ID3_HEADER_BYTES + size


def pcm_container(first: bytes) -> str | None:
    """libav's name of the container when it is one for plain samples; None for all others, which libav tells apart.

    libav weighs what all the bytes look like, and samples can look like anything: it takes a tone of 10 kHz in a WAV
    file for an MPEG transport stream, because every 192nd byte is the right one.
    """
    for start, kind, container in _PCM_CONTAINERS:
        if first.startswith(start) and first[8 : 8 + len(kind)] == kind:
            return container
    return None


def is_transport_stream(first: bytes) -> bool:
    """Whether this is MPEG-TS (ISO 13818-1, 2.4.3.2): packets of 188 bytes that begin with one and the same byte."""
    return first[0:1] == first[188:189] == b"G"


def is_fragmented_mp4(first: bytes) -> bool:
    """Whether this is MP4 in fragments (ISO 14496-12, 8.8), of which each one tells its own length only."""
    position = 0
    while position + 8 <= len(first):
        size, kind = struct.unpack_from(">I4s", first, position)
        if kind == b"moof" or (kind == b"moov" and b"mvex" in first[position : position + size]):
            return True
        if kind not in (b"ftyp", b"styp", b"moov", b"sidx", b"free") or size < 8:
            return False
        position += size
    return False


def has_mp4_index_at_end(first: bytes) -> bool:
    """Whether this is an MP4 file (ISO 14496-12) whose media data comes before its index."""
    if first[4:8] != b"ftyp":
        return False
    position = 0
    while position + 8 <= len(first):
        size, kind = struct.unpack_from(">I4s", first, position)
        if kind == b"mdat":
            return True
        if kind in (b"moov", b"moof") or size < 8:
            return False
        position += size
    return False
