"""Finds the start of the first frame in MPEG audio and ADTS, which a station may send from any byte on.

From the middle of a frame on, libav needs up to 256 KiB to recognise MP3 and 64 KiB to recognise ADTS: seconds of a
stream that arrives in real time. From the first byte of a frame on it needs some KiB.
"""

from typing import Final

from tonearm.core.failure import PlayError
from tonearm.core.mpeg_frames import first_frame
from tonearm.worker.reading.reader import MediaReader

# The number of bytes to read before each search for a frame. libav needs about as much to recognise its input.
_SEARCHED_BYTES: Final = (1024, 2048, 4096, 8192, 12_288, 16_384, 24_576)
MOST_SEARCHED_BYTES: Final = _SEARCHED_BYTES[-1]


def from_first_frame(first: bytes, reader: MediaReader) -> tuple[int, bytes]:
    """The number of bytes before the first frame, and `first` with the reader's next bytes, from this frame on. All
    bytes are returned when no frame begins in `MOST_SEARCHED_BYTES`."""
    data = first
    for size in _SEARCHED_BYTES:
        data, at_end = _filled(data, size, reader)
        start = first_frame(data)
        if start is not None:
            return start, data[start:]
        if at_end:
            break
    return 0, data


def _filled(data: bytes, size: int, reader: MediaReader) -> tuple[bytes, bool]:
    """`data` with the next bytes, up to `size` in total, and whether no more can be read."""
    while len(data) < size:
        try:
            part = reader.read(size - len(data))
        except PlayError:  # the next read raises it again: the bytes before it are still played
            return data, True
        if not part:
            return data, True
        data += part
    return data, False
