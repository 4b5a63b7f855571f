"""Frames of MPEG audio and ADTS, by their headers: where the first one begins, and how much sound is in them."""

import re
from typing import Final, NamedTuple

# So many headers must follow each other, each at the end of the frame before it. Three would not occur by chance, but
# libav recognises MP3 by seven whole frames (mp3_read_probe in libavformat/mp3dec.c), so a cut in them is skipped, too.
_BELIEVED_HEADERS: Final = 8
# Finds possible headers, so that Python need not check each byte of a run of ones.
_MAYBE_HEADER: Final = re.compile(rb"\xff(?=[\xe2-\xe7\xf0-\xff][^\xf0-\xff])", re.DOTALL)
_HEADER_BYTES: Final = 6
_LEAST_ADTS_BYTES: Final = 7
_ADTS_RATES_HZ: Final = (
    *(96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000, 7350),
)

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
_HEADS_BYTES: Final = 24 * 1024  # enough for all headers that must follow each other, with the longest frames
# Marks of the first frame of an MP3 file, which gives the file's length; LAME and libav write it.
_FILE_MARKS: Final = (b"Xing", b"Info", b"VBRI")


class Frame(NamedTuple):
    """The content of a header: the frame's bytes and seconds, and the bits that are equal in all headers of a
    stream."""

    length_bytes: int
    length_s: float
    fixed: int


def first_frame(data: bytes) -> int | None:
    """The offset of the first frame in `data` that is followed by others; None without one."""
    return next((found.start() for found in _MAYBE_HEADER.finditer(data) if _frames_follow(data, found.start())), None)


def _frames_follow(data: bytes, at: int) -> bool:
    fixed: int | None = None
    for _ in range(_BELIEVED_HEADERS):
        frame = frame_at(data, at)
        if frame is None or fixed not in (None, frame.fixed):
            return False
        fixed = frame.fixed
        at += frame.length_bytes
    return True


def frame_at(data: bytes, at: int) -> Frame | None:
    """The frame at this offset; None without a complete header there."""
    header = data[at : at + _HEADER_BYTES]
    if len(header) < _HEADER_BYTES or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return None
    return _adts_frame(header) if header[1] & 0xF6 == 0xF0 else _mpeg_frame(header)


def _adts_frame(header: bytes) -> Frame | None:
    """ISO 14496-3, 1.A.2.2: 28 bits are fixed; the length is that of header and content."""
    length_bytes = int.from_bytes(header[3:6], "big") >> 5 & 0x1FFF
    rate = header[2] >> 2 & 0xF
    if length_bytes < _LEAST_ADTS_BYTES or rate >= len(_ADTS_RATES_HZ):
        return None
    return Frame(length_bytes, 1024 / _ADTS_RATES_HZ[rate], int.from_bytes(header[:4], "big") >> 4)


def _mpeg_frame(header: bytes) -> Frame | None:
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
    # Bitrate, padding and the mode of stereo may change with each frame.
    return Frame(length_bytes, samples / rates_hz[sample_rate], header[1] << 2 | sample_rate)


def begins_as_file(data: bytes) -> bool:
    """Whether these first bytes begin a file: with a tag, the frame with an MP3's length, or an MP3 frame without data
    in earlier frames. Such frames are rare in the middle of a stream (ISO 11172-3, 2.4.1.7)."""
    if data.startswith(b"ID3"):
        return True
    if first_frame(data[:_HEADS_BYTES]) != 0 or data[1] & 0xF6 == 0xF0:
        return False
    is_mpeg_1, is_layer_3 = data[1] >> 3 & 3 == _MPEG_1, data[1] >> 1 & 3 == _LAYER_3
    side_info = data[4 if data[1] & 1 else 6 :]
    main_data_begin = side_info[0] << 1 | side_info[1] >> 7 if is_mpeg_1 else side_info[0]
    return (is_layer_3 and not main_data_begin) or any(mark in data[:200] for mark in _FILE_MARKS)


def seconds_a_byte(data: bytes) -> float | None:
    """The playing time of a byte of audio, by the frames in `data`; None without frames."""
    at = first_frame(data)
    if at is None:
        return None
    start, length_s = at, 0.0
    while (frame := frame_at(data, at)) is not None:
        at += frame.length_bytes
        length_s += frame.length_s
    return length_s / (at - start)
