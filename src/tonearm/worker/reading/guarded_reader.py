"""The file object that libav reads from. It limits the bytes that libav may read, and preserves errors.

The first bytes of a source are read before libav receives it. They show the container where libav would guess wrong,
and files that libav could only read without end.
"""

import io
import struct
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tonearm.core.failure import PlayError, PlayFailure
from tonearm.worker.reading import errors
from tonearm.worker.reading.reader import Dropped, MediaReader

# From the first read to the first decoded audio, so that a source with a trickle of bytes fails.
OPENING_DEADLINE_S: Final = 15.0
OPENING_BUDGET_BYTES: Final = 32 * 1024 * 1024
# In addition libav may read the index of an MP4 file: 45 MB for 60 hours of AAC.
MOST_INDEX_BYTES: Final = 64 * 1024 * 1024
_LONG_INDEX_BYTES: Final = 10 * 1024 * 1024
_LONG_S: Final = 16 * 3600
_MOVIE_HEAD_BYTES: Final = 128
# Between two audio packets of a playable file there is at most some video. This limit ends an endless stream of junk:
# libav needs up to 3 s of CPU for this many bytes, if they look like Ogg pages.
SILENT_BUDGET_BYTES: Final = 16 * 1024 * 1024

FIRST_BYTES: Final = 4096
# At 24 kbit/s, 4096 bytes take more than a second.
LIVE_FIRST_BYTES: Final = 256

# The first bytes of a container, the bytes at offset 8, and libav's name for it.
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


class TooLate(PlayError):
    """Reading has taken too long. Unlike an error of the source this is not the end of the bytes: the bytes before it
    are not played."""


class TimedReader:
    """Passes reads on up to a deadline, at first `OPENING_DEADLINE_S` from now.

    It is next to the source, because a reader above it may read many pieces to answer one read. `now_s` is a monotonic
    clock.
    """

    def __init__(self, reader: MediaReader, source_name: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._now_s = now_s
        self.limit(OPENING_DEADLINE_S, errors.opening_took_too_long(source_name, OPENING_DEADLINE_S))

    def limit(self, limit_s: float, too_late: PlayFailure) -> None:
        """Limits the time to read from now on. After it, reads raise `TooLate` with this failure."""
        self._deadline_s: float | None = self._now_s() + limit_s
        self._too_late = too_late

    def unlimit(self) -> None:
        self._deadline_s = None

    def read(self, n: int) -> bytes:
        if self._deadline_s is not None and self._now_s() > self._deadline_s:
            raise TooLate(self._too_late)
        return self._reader.read(n)

    def seek(self, offset: int) -> int:
        return self._reader.seek(offset)

    def seekable(self) -> bool:
        return self._reader.seekable()


class Mp4Index(NamedTuple):
    """The index of an MP4 file: its size, 0 for other files, and whether the file has so many hours that frames make
    the index large, not a picture."""

    size_bytes: int = 0
    is_long: bool = False


NO_INDEX: Final = Mp4Index()


class GuardedReader:
    """Passes reads on to a `MediaReader` within the limits.

    It has no `name`, `mode`, `write` or `close` on purpose: PyAV looks for these, and a name would be a path for libav.

    `failure` stores the first error, because libav may swallow an exception of a callback or take it for the end of the
    file. After it every read returns the end, so that libav returns soon. `interruption` stores the error of a reader
    without further bytes: libav sees the end of the file there, so that everything before it is still decoded.

    `source_name` and the server's `content_type` are for messages. `index`: see `mp4_index`.
    """

    def __init__(
        self,
        reader: MediaReader,
        *,
        source_name: str,
        content_type: str | None = None,
        size_bytes: int | None,
        index: Mp4Index = NO_INDEX,
    ) -> None:
        self.index = index
        self.failure: Exception | None = None
        self.interruption: PlayError | None = None
        self._reader = reader
        self.source_name = source_name
        self.content_type = content_type
        self._size_bytes = size_bytes
        self._budget_bytes = self._budget_left = OPENING_BUDGET_BYTES + min(index.size_bytes, MOST_INDEX_BYTES)
        self._is_seekable = reader.seekable()
        self._position = 0

    def begin_playing(self) -> None:
        """The source is open: from now on the byte budget applies to each packet."""
        self._budget_bytes = SILENT_BUDGET_BYTES
        self.packet_came()

    def begin_seeking(self) -> None:
        """Sets a budget for the whole file: a container without an index is read up to the position."""
        self._budget_left = SILENT_BUDGET_BYTES + 2 * (self._size_bytes or 0)

    def allow(self, more_bytes: int) -> None:
        """Allows this many bytes more before the next packet."""
        self._budget_left += more_bytes

    def packet_came(self) -> None:
        self._budget_left = self._budget_bytes

    def raise_failure(self) -> None:
        """Raises the error that made the source unusable, if there was one."""
        if self.failure is not None:
            raise self.failure

    def raise_cause(self) -> None:
        """Raises the error, if any, that ended the bytes. Call this at the end, and after an error of libav."""
        self.raise_failure()
        if self.interruption is not None:
            raise self.interruption

    # Called by PyAV. An error must be an `Exception`: PyAV drops a `BaseException` and continues decoding.

    def read(self, n: int) -> bytes:
        if self.failure is not None or self.interruption is not None:
            return b""
        try:
            self._check_limits()
            # Cut and converted, because PyAV copies the whole object unchecked into a buffer of n bytes.
            data = bytes(self._read_source(n)[:n])
        except Exception as error:
            self.failure = error
            raise
        self._budget_left -= len(data)
        self._position += len(data)
        return data

    def _read_source(self, n: int) -> bytes:
        try:
            return self._reader.read(n)
        except (Dropped, TooLate):
            raise
        except PlayError as error:
            self.interruption = error
            return b""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Returns the new position; -1 where it is unknown."""
        if self.failure is not None:
            return self._position
        if whence == io.SEEK_END:
            if self._size_bytes is None:
                return -1
            offset += self._size_bytes
        elif whence == io.SEEK_CUR:
            offset += self._position
        offset = max(offset, 0)
        if offset != self._position:
            self._position = self._reader.seek(offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return self._is_seekable

    def readable(self) -> bool:
        return True

    def _check_limits(self) -> None:
        if self._budget_left <= 0:
            mebibytes = self._budget_bytes // (1024 * 1024)
            raise errors.limit_exceeded(self.source_name, f"no audio in {mebibytes} MiB of data")


class RewoundReader:
    """Returns already read bytes again, then those of the reader. Without `keeps_offsets` it begins at another offset
    than the reader did, so one cannot seek in it."""

    def __init__(self, first: bytes, reader: MediaReader, *, keeps_offsets: bool = True) -> None:
        self._first = first
        self._reader = reader
        self._keeps_offsets = keeps_offsets

    def read(self, n: int) -> bytes:
        if self._first:
            data, self._first = self._first[:n], self._first[n:]
            return data
        return self._reader.read(n)

    def seek(self, offset: int) -> int:
        self._first = b""
        return self._reader.seek(offset)

    def seekable(self) -> bool:
        return self._keeps_offsets and self._reader.seekable()


def read_first_bytes(reader: MediaReader, *, is_live: bool = False) -> bytes:
    """The first `FIRST_BYTES`, or fewer from a shorter source; `LIVE_FIRST_BYTES` of a live source."""
    parts: list[bytes] = []
    missing = LIVE_FIRST_BYTES if is_live else FIRST_BYTES
    while missing > 0 and (part := reader.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def pcm_container(first: bytes) -> str | None:
    """libav's name of a container for plain samples; None for all other containers, which libav recognises itself.

    libav detects a container by all the bytes, and samples can look like anything. For example, it takes a tone of 10
    kHz in a WAV file for an MPEG transport stream, because every 192nd byte has the right value.
    """
    for start, kind, container in _PCM_CONTAINERS:
        if first.startswith(start) and first[8 : 8 + len(kind)] == kind:
            return container
    return None


def is_transport_stream(first: bytes) -> bool:
    """Whether this is MPEG-TS (ISO 13818-1, 2.4.3.2): packets of 188 bytes that all begin with the same byte."""
    return first[0:1] == first[188:189] == b"G"


def is_fragmented_mp4(first: bytes) -> bool:
    """Whether this is MP4 in fragments (ISO 14496-12, 8.8), where each fragment gives only its own length."""
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
    """Whether this is an MP4 file whose media data comes before its index."""
    return any(kind == b"mdat" for kind, _, _ in _boxes_up_to_media(first))


def mp4_index(first: bytes, size_bytes: int | None, reader: MediaReader) -> Mp4Index:
    """The index according to the file's first boxes, at most as large as the file. `reader` has read `first`, and is at
    the same position again afterwards."""
    for kind, start, size in _boxes_up_to_media(first):
        if kind == b"mdat":
            start, size = start + size, (size_bytes or 0) - start - size if size else 0
        if kind in (b"moov", b"mdat"):
            index_bytes = max(min(size, size_bytes or 0), 0)
            if index_bytes < _LONG_INDEX_BYTES:
                return Mp4Index(index_bytes)
            head = first[start:]
            if not head and reader.seekable():
                reader.seek(start)
                head = reader.read(_MOVIE_HEAD_BYTES)
                reader.seek(len(first))
            return Mp4Index(index_bytes, _movie_s(head) > _LONG_S)
    return NO_INDEX


def _movie_s(index: bytes) -> float:
    """The length in the movie header (ISO 14496-12, 8.2.2) at the beginning of an index; 0 without one."""
    at = index.find(b"mvhd", 0, _MOVIE_HEAD_BYTES)
    if at < 0 or len(index) < at + 36:
        return 0.0
    layout = ">QQIQ" if index[at + 4] else ">IIII"
    _, _, rate_hz, duration = struct.unpack_from(layout, index, at + 8)
    return float(duration / max(rate_hz, 1))


def _boxes_up_to_media(first: bytes) -> Iterator[tuple[bytes, int, int]]:
    """The boxes of an MP4 file (ISO 14496-12, 4.2) up to the first with media or an index: kind, offset and size."""
    position = 0
    while first[4:8] == b"ftyp" and position + 16 <= len(first):
        size, kind, long_size = struct.unpack_from(">I4sQ", first, position)
        size = long_size if size == 1 else size
        yield kind, position, size
        if kind in (b"moov", b"moof", b"mdat") or size < 8:
            return
        position += size
