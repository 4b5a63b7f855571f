"""Files with more of pictures than of sound play; their pictures are passed over and not read."""

import io
import time
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import pytest

from tests.support.audio_files import flac, m4a, mp3, music, synchsafe
from tests.support.media_files import CountingReader, UnseekableReader, decode_rest, open_bytes
from tests.support.pictures import flac_block, flac_with, m4a_with, mp3_with, picture_block, png
from tonearm.core.failure import PlayError
from tonearm.worker.media.facts import read_picture
from tonearm.worker.reading.pictures import PictureHider
from tonearm.worker.reading.reader import MediaReader

SONG: Final = music(0.5)
MIB: Final = 1024 * 1024
SMALL: Final = png()


@cache
def large(mebibytes: int) -> bytes:
    return SMALL + bytes(mebibytes * MIB)


def tag(version: int, frames: bytes) -> bytes:
    return b"ID3" + bytes([version, 0, 0]) + synchsafe(len(frames)) + frames


def apic(version: int, picture: bytes) -> bytes:
    content = b"\0image/png\0\3\0" + picture
    size = synchsafe(len(content)) if version == 4 else len(content).to_bytes(4, "big")
    return b"APIC" + size + b"\0\0" + content


PLAIN: Final = {
    "flac": lambda: flac(SONG),
    "mp3": lambda: mp3_with(SONG, SMALL),
    "m4a": lambda: m4a(SONG, index_first=False),
}
# ffmpeg plays all of these: the kind of sound, the file, and whether a picture is left.
FILES: Final[dict[str, tuple[str, Callable[[], bytes], bool]]] = {
    "flac with a cover": ("flac", lambda: flac_with(SONG, SMALL), True),
    "flac with a booklet": ("flac", lambda: flac_with(SONG, large(7), more_pictures=[large(7)] * 5), True),
    "flac, too large for its size": ("flac", lambda: flac_with(SONG, large(40)), False),
    "flac, cover and such a picture": ("flac", lambda: flac_with(SONG, SMALL, more_pictures=[large(33)]), True),
    "mp3 with a picture of 40 MiB": ("mp3", lambda: mp3_with(SONG, large(40)), False),
    "mp3 with it, version 4": ("mp3", lambda: tag(4, apic(4, large(40))) + mp3(SONG), False),
    "mp3 with a cover and it": ("mp3", lambda: tag(3, apic(3, SMALL) + apic(3, large(40))) + mp3(SONG), True),
    "m4a with a picture of 40 MiB": ("m4a", lambda: m4a_with(SONG, large(40)), False),
}


@pytest.mark.parametrize("name", FILES)
def test_it_plays_as_it_would_without(name: str) -> None:
    kind, make, has_picture = FILES[name]
    file, plain = make(), PLAIN[kind]()
    whole = CountingReader(file)
    pairs: list[tuple[MediaReader, MediaReader]] = [(whole, io.BytesIO(plain))]
    if kind != "m4a":
        pairs.append((UnseekableReader(file), UnseekableReader(plain)))
    for reader, plain_reader in pairs:
        media = open_bytes(file, reader=reader)
        assert media.facts.has_picture is has_picture
        assert np.array_equal(decode_rest(media), decode_rest(open_bytes(plain, reader=plain_reader)))
        media.close()
    assert whole.read_bytes < 17 * MIB
    picture = read_picture(io.BytesIO(file), name="song", content_type=None, size_bytes=len(file))
    assert picture.startswith(SMALL) is has_picture


@pytest.mark.parametrize("piece_bytes", [1, 3, 95, 97, 1000, 100_000])
def test_the_bytes_are_the_same_however_they_are_read(piece_bytes: int) -> None:
    file = flac_with(SONG, bytes(6000), more_pictures=[bytes(6000)] * 2)
    hider = PictureHider(io.BytesIO(file))
    assert b"".join(iter(lambda: hider.read(piece_bytes), b"")) == file
    assert hider.seek(50) == 50
    assert hider.read(10) == file[50:60]


@pytest.mark.parametrize(
    "file",
    [
        b"fLaC" + flac_block(6, b"") * 2_000_000,
        b"fLaC" + flac_block(6, picture_block(bytes(300))) * 100_000,
        b"fLaC" + (b"\6\xff\xff\xff" + b"\xff" * 90) * 1000,
        tag(3, (b"APIC" + b"\xff" * 4 + bytes(20)) * 10_000),
        tag(3, b"APIC\0\0\0\0\0\0" * 800_000),
        b"\0\0\0\x08ftyp" + b"\0\0\0\x08moov" * 1_000_000,
        b"\0\0\0\x08ftyp" + b"\0\0\0\1covr" + b"\xff" * 8 + bytes(100),
    ],
)
def test_hostile_ones_cost_little(file: bytes) -> None:
    began_s = time.process_time()
    for reader in (io.BytesIO(file), UnseekableReader(file)):
        with pytest.raises(PlayError):
            open_bytes(file, reader=reader)
    assert time.process_time() - began_s < 10
