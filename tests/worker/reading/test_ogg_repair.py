"""Ogg files with flipped bits keep their sound; whole ones pass unchanged."""

import io
import random

import pytest

from tests.support.audio_files import music, opus, tone
from tests.support.media_files import UnseekableReader, decode_rest, loudest_hz, open_bytes
from tonearm.worker.reading.ogg_repair import OggRepairer

FILE = opus(music(2.0))


def read_all(reader: OggRepairer, chunk_bytes: int = 1000) -> bytes:
    return b"".join(iter(lambda: reader.read(chunk_bytes), b""))


@pytest.mark.parametrize("chunk_bytes", [1, 27, 1000, 100_000])
def test_a_whole_file_passes_byte_for_byte(chunk_bytes: int) -> None:
    assert read_all(OggRepairer(io.BytesIO(FILE)), chunk_bytes) == FILE


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize(
    "file",
    [
        *(b"", b"Og", b"OggS", b"OggS" * 3000, bytes(100_000), FILE[5:], FILE[:-100], b"x" + FILE),
        ((b"OggS" + bytes(22) + b"\xff") * 900 + FILE) * 3 + bytes(70_000),
    ],
)
def test_what_is_not_pages_passes_as_it_is(file: bytes, is_live: bool) -> None:
    assert read_all(OggRepairer(io.BytesIO(file), is_live=is_live)) == file


def test_after_a_jump_reading_goes_on_there() -> None:
    repairer = OggRepairer(io.BytesIO(FILE))
    repairer.read(100)
    assert repairer.seek(10_001) == 10_001
    assert repairer.read(500) == FILE[10_001:10_501]
    repairer.seek(len(FILE) - 50)
    assert read_all(repairer) == FILE[-50:]


def damaged(file: bytes, flips: int) -> bytes:
    """Bits flipped everywhere but in the headers at the beginning."""
    chance = random.Random(4)
    broken = bytearray(file)
    for _ in range(flips):
        broken[chance.randrange(2000, len(file))] ^= 1 << chance.randrange(8)
    return bytes(broken)


@pytest.mark.parametrize("can_jump", [True, False])
def test_a_file_with_an_error_in_every_page_plays_for_the_most_part(can_jump: bool) -> None:
    file = damaged(opus(tone(997, 10.0)), flips=30)
    media = open_bytes(file, reader=io.BytesIO(file) if can_jump else UnseekableReader(file))
    got = decode_rest(media)
    assert len(got) > 8.5 * 48_000
    assert loudest_hz(got) == pytest.approx(997, abs=1)
