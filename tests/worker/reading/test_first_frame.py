"""Where the first frame begins in bytes that begin anywhere, as those of radio stations do."""

import io
import random
from functools import cache
from typing import Final

import av
import pytest

from tests.support.audio_files import encoded, mp3, music
from tests.support.media_files import FailingReader, UnseekableReader
from tonearm.core.failure import PlayError
from tonearm.worker.reading.first_frame import MOST_SEARCHED_BYTES, from_first_frame

# Codec, sample rate, channels, bitrate: MPEG 1, 2 and 2.5, of layers 2 and 3, and ADTS.
FORMS: Final = [
    ("libmp3lame", 44_100, 2, 128_000),
    ("libmp3lame", 44_100, 2, 64_000),
    ("libmp3lame", 32_000, 2, 320_000),
    ("libmp3lame", 22_050, 1, 32_000),
    ("libmp3lame", 8000, 1, 16_000),
    ("mp2", 48_000, 2, 192_000),
    ("mp2", 24_000, 1, 64_000),
    ("aac", 44_100, 2, 128_000),
    ("aac", 48_000, 1, 32_000),
]
ID3: Final = b"ID3\4\0\0\0\0\7\x68" + b"\xff\xfb\x90\x40".ljust(1000, b"\xff")


@cache
def stream(codec: str, rate_hz: int, channels: int, bit_rate: int) -> tuple[bytes, list[int]]:
    """A stream, and where libav's demuxer, which has it from its beginning, says that its frames begin."""
    container = {"aac": "adts", "mp2": "mp2"}.get(codec, "mp3")
    options = {"write_xing": "0", "id3v2_version": "0"} if container == "mp3" else {}
    sound = encoded(
        container, codec, music(3.0, rate_hz, channels=channels), rate_hz, bit_rate=bit_rate, options=options
    )
    with av.open(io.BytesIO(sound), "r") as opened:
        return sound, [packet.pos for packet in opened.demux() if packet.size and packet.pos is not None]


def found_in(data: bytes) -> tuple[int, bytes]:
    reader = UnseekableReader(data)
    return from_first_frame(reader.read(256), reader)


@pytest.mark.parametrize("form", FORMS)
def test_from_any_byte_on_the_next_frame_is_found_that_others_follow(form: tuple[str, int, int, int]) -> None:
    sound, begins = stream(*form)
    for start in random.Random(1).sample(range(begins[-20]), 100):
        skipped, data = found_in(sound[start:])
        assert start + skipped == min(begin for begin in begins if begin >= start)
        assert data == sound[start + skipped :][: len(data)]
    cut = begins[1]
    for between in (ID3, b"\xff" * 500, bytes(300)):
        for start in (0, cut - 10):
            skipped, data = found_in(sound[start:cut] + between + sound[cut:])
            assert data.startswith(sound[cut : cut + 200])
            assert skipped == cut - start + len(between)
    for whole_frames in range(1, 7):
        before = sound[begins[0] : begins[whole_frames] + 9]
        assert found_in(before + sound[begins[20] :])[0] == len(before)
    reader = UnseekableReader(sound[begins[3] + 1 :])
    from_first_frame(reader.read(256), reader)
    assert reader.tell() <= max(1024, 2 * (begins[12] - begins[3])), "more than libav needs"


def layer_1(bit_rate_index: int, frame_bytes: int) -> bytes:
    """Frames of MPEG 1, layer 1, 48 kHz."""
    return (b"\xff\xff" + bytes((bit_rate_index << 4 | 1 << 2, 0))).ljust(frame_bytes, b"\x55") * 100


def test_layer_1_and_frames_with_a_checksum_are_found_and_headers_may_come_in_pieces() -> None:
    whole = layer_1(8, 256)  # 256 kbit/s
    for sound in (whole, whole.replace(b"\xff\xff", b"\xff\xfe")):
        assert found_in(sound[10:])[0] == 246
    sound, begins = stream(*FORMS[0])
    reader = UnseekableReader(sound[begins[2] + 5 :], 1)
    skipped, data = from_first_frame(reader.read(1), reader)
    assert skipped == begins[3] - begins[2] - 5
    assert data == sound[begins[3] :][: len(data)]


@pytest.mark.parametrize(
    "strange",
    [
        b"\xff",
        b"\xff\xfb\x90\x40",  # many headers, none of which has its frame
        b"\xff\xf1\x50\x80\0\0\0",  # ADTS that is shorter than its header
        b"\xff\xf1\x50\x83\xff\xe0\0",  # and longer than all that is looked at
        b"\xff\xfb\x00\x40" + b"\x55" * 413,  # free format, whose frames tell no length
        layer_1(8, 256)[:256] + layer_1(9, 288)[:287],
        random.Random(4).randbytes(70_000),
    ],
)
def test_bytes_without_frames_pass_unchanged_and_few_are_looked_at(strange: bytes) -> None:
    whole = strange * (MOST_SEARCHED_BYTES // len(strange) + 1)
    assert found_in(whole) == (0, whole[:MOST_SEARCHED_BYTES])


def test_what_came_before_the_end_or_an_error_is_not_lost_and_the_error_comes_with_the_next_read() -> None:
    for length in (1, 2, 3, 100, 800):
        sound = mp3(music(0.5, 44_100))[-length:]
        assert found_in(sound) == (0, sound)
    sound = stream(*FORMS[0])[0][100:1000]
    reader = FailingReader(sound, len(sound))
    assert from_first_frame(reader.read(256), reader) == (0, sound)
    with pytest.raises(PlayError):
        reader.read(1)
