"""Finds where the first frame begins in MPEG audio and ADTS, which a station may send from any byte on.

From the middle of a frame on, libav takes up to 256 KiB to recognise MP3 and 64 KiB to recognise ADTS: seconds of a
stream that comes in real time. From the first byte of a frame on it takes some KiB.
"""

import re
from typing import Final, NamedTuple

from tonearm.core.failure import PlayError
from tonearm.worker.reading.reader import MediaReader

# So many headers must follow each other, each where the frame before it ends. Three would not come by chance, but libav
# recognises MP3 by seven whole frames (mp3_read_probe in libavformat/mp3dec.c): a cut in them is passed over, too.
_BELIEVED_HEADERS: Final = 8
# So much is read before a frame is looked for again. libav needs about as much to recognise what it gets.
_SEARCHED_BYTES: Final = (1024, 2048, 4096, 8192, 12_288, 16_384, 24_576)
MOST_SEARCHED_BYTES: Final = _SEARCHED_BYTES[-1]

# What could be a header, so that Python need not look at each byte of a filling with ones.
_MAYBE_HEADER: Final = re.compile(rb"\xff(?=[\xe2-\xe7\xf0-\xff][^\xf0-\xff])", re.DOTALL)
_HEADER_BYTES: Final = 6
_LEAST_ADTS_BYTES: Final = 7
_ADTS_RATES: Final = 13

# ISO 11172-3, 2.4.2.3, and ISO 13818-3, 2.4.2.3; versions and layers as the header has them. The bitrates begin with
# index 1: index 0, free format, does not tell the frame's length.
_LAYER_1, _LAYER_2, _LAYER_3 = 3, 2, 1
_MPEG_1, _MPEG_2, _MPEG_2_5 = 3, 2, 0
_KBIT_S: Final = {  # by whether it is MPEG 1, and layer
    (True, _LAYER_1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, _LAYER_2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, _LAYER_3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, _LAYER_1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, _LAYER_2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, _LAYER_3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES_HZ: Final = {
    _MPEG_1: (44_100, 48_000, 32_000),
    _MPEG_2: (22_050, 24_000, 16_000),
    _MPEG_2_5: (11_025, 12_000, 8000),
}


def from_first_frame(first: bytes, reader: MediaReader) -> tuple[int, bytes]:
    """`first` and what `reader` gives next, from the first frame on, and how many bytes were before it. All of it is
    returned when no frame begins in `MOST_SEARCHED_BYTES`."""
    data = first
    for size in _SEARCHED_BYTES:
        data, at_end = _filled(data, size, reader)
        start = _first_frame(data)
        if start is not None:
            return start, data[start:]
        if at_end:
            break
    return 0, data


def _filled(data: bytes, size: int, reader: MediaReader) -> tuple[bytes, bool]:
    """`data` and the next bytes, up to `size` together, and whether no more can be read."""
    while len(data) < size:
        try:
            part = reader.read(size - len(data))
        except PlayError:  # the next read raises it again: what came before it is still played
            return data, True
        if not part:
            return data, True
        data += part
    return data, False


class _Frame(NamedTuple):
    """What a header says: the frame's length, and what is the same in all headers of a stream."""

    length_bytes: int
    fixed: int


def _first_frame(data: bytes) -> int | None:
    return next((found.start() for found in _MAYBE_HEADER.finditer(data) if _frames_follow(data, found.start())), None)


def _frames_follow(data: bytes, at: int) -> bool:
    fixed: int | None = None
    for _ in range(_BELIEVED_HEADERS):
        frame = _frame_at(data, at)
        if frame is None or fixed not in (None, frame.fixed):
            return False
        fixed = frame.fixed
        at += frame.length_bytes
    return True


def _frame_at(data: bytes, at: int) -> _Frame | None:
    """None without a header there, also when it is cut off."""
    header = data[at : at + _HEADER_BYTES]
    if len(header) < _HEADER_BYTES or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return None
    return _adts_frame(header) if header[1] & 0xF6 == 0xF0 else _mpeg_frame(header)


def _adts_frame(header: bytes) -> _Frame | None:
    """ISO 14496-3, 1.A.2.2: 28 bits are fixed; the length is that of header and content."""
    length_bytes = int.from_bytes(header[3:6], "big") >> 5 & 0x1FFF
    if length_bytes < _LEAST_ADTS_BYTES or header[2] >> 2 & 0xF >= _ADTS_RATES:
        return None
    return _Frame(length_bytes, int.from_bytes(header[:4], "big") >> 4)


def _mpeg_frame(header: bytes) -> _Frame | None:
    """ISO 11172-3, 2.4.1.3. MPEG 2.5 is MPEG 2 with a bit less to recognise it by, and half its sample rates."""
    version, layer = header[1] >> 3 & 3, header[1] >> 1 & 3
    bit_rate, sample_rate = header[2] >> 4, header[2] >> 2 & 3
    kbit_s, rates_hz = _KBIT_S.get((version == _MPEG_1, layer)), _RATES_HZ.get(version)
    if kbit_s is None or rates_hz is None or not 1 <= bit_rate <= len(kbit_s) or sample_rate >= len(rates_hz):
        return None
    slot_bytes = 4 if layer == _LAYER_1 else 1
    samples = 384 if layer == _LAYER_1 else 576 if layer == _LAYER_3 and version != _MPEG_1 else 1152
    slots = samples * 125 * kbit_s[bit_rate - 1] // (rates_hz[sample_rate] * slot_bytes)
    length_bytes = (slots + (header[2] >> 1 & 1)) * slot_bytes
    # Bitrate, padding and what stereo means may change with each frame.
    return _Frame(length_bytes, header[1] << 2 | sample_rate)
