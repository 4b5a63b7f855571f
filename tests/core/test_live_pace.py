"""The rule by which a source without `icy-` headers is a live stream, where servers are not needed to see it."""

import pytest

from tests.support.audio_files import encoded, music
from tonearm.core.live_pace import MOST_WATCHED_BYTES, Pace, may_be_live
from tonearm.core.mpeg_frames import begins_as_file, seconds_a_byte

FORMS = [
    ("libmp3lame", 44_100, 2, 128_000),
    ("libmp3lame", 48_000, 1, 320_000),
    ("libmp3lame", 22_050, 1, 32_000),
    ("mp2", 48_000, 2, 192_000),
    ("aac", 44_100, 2, 128_000),
]


def _sound(codec: str, rate_hz: int, channels: int, bit_rate: int) -> bytes:
    container = {"aac": "adts", "mp2": "mp2"}.get(codec, "mp3")
    options = {"write_xing": "0", "id3v2_version": "0"} if container == "mp3" else {}
    pcm = music(3.0, rate_hz, channels=channels)
    return encoded(container, codec, pcm, rate_hz, bit_rate=bit_rate, options=options)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_how_long_a_byte_plays_and_where_a_file_begins(form: tuple[str, int, int, int]) -> None:
    sound = _sound(*form)
    assert (seconds_a_byte(sound) or 0) * len(sound) == pytest.approx(3.0, abs=0.15)
    assert (seconds_a_byte(sound[5000:]) or 0) * len(sound) == pytest.approx(3.0, rel=0.1)
    assert begins_as_file(sound) == (form[0] == "libmp3lame")
    assert not begins_as_file(sound[1111:])


def test_what_is_no_sound_is_no_stream() -> None:
    for data in (
        b"",
        b"\xff",
        b"\xff\xfb",
        b"\xff" * 50_000,
        bytes(50_000),
        b"RIFF" * 9000,
        b"\xff\xfb\x90\x40" * 9000,
    ):
        pace = Pace()
        for number in range(200):
            pace.feed(number / 100, data)
        assert not pace.is_live, data[:9]
        assert pace.is_a_files == (len(data) * 200 > MOST_WATCHED_BYTES)


def test_what_may_be_a_stream() -> None:
    for headers, may in (
        ({"Content-Type": "Audio/MPEG; charset=utf-8"}, True),
        ({"Content-Type": "audio/ogg"}, False),
        ({"Content-Type": "audio/ogg", "Server": "Icecast 2.4.4"}, True),
        ({"Content-Type": "text/html"}, False),
        ({"Content-Type": "audio/mpeg", "Content-Encoding": "gzip"}, False),
        ({}, False),
    ):
        assert may_be_live(headers) == may, headers
