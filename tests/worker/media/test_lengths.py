"""Which lengths are counted, and which are guessed."""

import struct
from collections.abc import Callable

import pytest

from tests.support.audio_files import encoded, id3, itunes_m4a, live_mp3, m4a, mp3, music, opus, variable_mp3, vorbis
from tests.support.media_files import UnseekableReader, decode_rest, open_bytes
from tests.support.vorbis_blocks import vorbis_with_short_blocks
from tonearm.core.opened_source import OpenedSource
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track_info import PageFacts, SourceFacts
from tonearm.sources.detached_threads import DetachedThreads
from tonearm.sources.local_file import FileReader
from tonearm.worker.reading.errors import UnseekableSource

MUSIC = music(1.0)
MUSIC_44 = music(1.0, 44_100)

COUNTED: dict[str, Callable[[], bytes]] = {
    "vorbis": lambda: vorbis(MUSIC_44),
    "vorbis with short blocks": lambda: vorbis_with_short_blocks(MUSIC_44),
    "mp3 with a count of its frames": lambda: mp3(MUSIC_44),
    "mp3 with Fraunhofer's count": lambda: with_vbri(live_mp3(MUSIC_44)),
    "mp3 behind a cover": lambda: id3(texts={"TIT2": b"x"}, picture=bytes(300_000)) + mp3(MUSIC_44),
    "mp3 of mono": lambda: mp3(music(1.0, 44_100, channels=1)),
    "mp3 at a low rate": lambda: mp3(music(1.0, 22_050), 22_050, bit_rate=64_000),
}

GUESSED: dict[str, Callable[[], bytes]] = {
    "mp3 without a count": lambda: without_count(mp3(MUSIC_44)),
    "a short mp3 without a count": lambda: live_mp3(music(0.3, 44_100)),
    "mp3 behind another, as podcasts have advertisements": lambda: mp3(MUSIC_44) + without_count(mp3(MUSIC_44)),
    "adts": lambda: encoded("adts", "aac", MUSIC_44, 44_100),
}


def without_count(file: bytes) -> bytes:
    """The MP3 without its first frame, in which the frames are counted."""
    return file[file.index(b"\xff\xfb", file.index(b"Info") if b"Info" in file else file.index(b"Xing")) :]


def with_vbri(file: bytes) -> bytes:
    """The MP3 of 128 kbit/s behind a frame that counts its frames as Fraunhofer's encoder does."""
    frame_bytes = 417
    frames = len(file) // frame_bytes
    count = struct.pack(">4sHHHII", b"VBRI", 1, 0, 0, len(file) + frame_bytes, frames)
    return (file[:4] + bytes(32) + count).ljust(frame_bytes, b"\0") + file


@pytest.mark.parametrize("kind", [*COUNTED, *GUESSED])
def test_a_length_is_exact_where_the_container_counts_it(kind: str) -> None:
    """And not where it is that of its size and bit rate."""
    facts = open_bytes((COUNTED | GUESSED)[kind]()).facts
    assert facts.is_length_exact is (kind in COUNTED)
    assert facts.is_seekable


def test_only_frames_of_different_sizes_make_an_estimate_a_guess() -> None:
    variable = variable_mp3(MUSIC_44)
    guesses = [without_count(variable), encoded("adts", "aac", MUSIC_44, 44_100)]
    others = [variable, without_count(mp3(MUSIC_44)), m4a(MUSIC_44)]
    assert [open_bytes(file).facts.is_length_guess for file in (*guesses, *others)] == [True, True, False, False, False]


def test_a_tag_of_itunes_that_another_file_left_behind_cuts_nothing() -> None:
    file = itunes_m4a(MUSIC_44)
    told = f"{len(MUSIC_44):016X}".encode()
    media = open_bytes(file.replace(told, f"{len(MUSIC_44) // 2:016X}".encode()))
    assert media.facts.length_ms >= 1000
    assert len(decode_rest(media)) >= len(MUSIC)


def test_a_length_from_beside_the_bytes_is_not_exact() -> None:
    uri = parse_source_uri("http://radio.example/list.m3u8")
    opened = OpenedSource(uri, FileReader(-1, DetachedThreads(1)), "list", length_ms=61_000)
    exact, guess = SourceFacts(60_000, is_length_exact=True), SourceFacts(60_000, is_length_guess=True)
    assert not opened.completed(exact).is_length_exact
    assert not opened.completed(guess).is_length_guess
    assert not SourceFacts(is_length_guess=True).completed_by(PageFacts("http://a/", length_ms=5)).is_length_guess
    assert not exact.completed_by(PageFacts("http://a/", is_live=True)).is_length_exact
    assert exact.completed_by(PageFacts("http://a/", length_ms=59_000)).is_length_exact


CHAINED: dict[str, Callable[[], bytes]] = {
    "opus": lambda: opus(MUSIC) + opus(music(2.0)),
    "vorbis of another rate": lambda: vorbis(MUSIC_44) + vorbis(music(2.0), 48_000),
    "flac after opus": lambda: opus(MUSIC) + encoded("ogg", "flac", MUSIC),
}


@pytest.mark.parametrize("kind", CHAINED)
def test_a_chained_file_has_neither_the_length_nor_the_positions_of_one_of_its_links(kind: str) -> None:
    media = open_bytes(CHAINED[kind]())
    assert (media.facts.length_ms, media.facts.is_length_exact, media.facts.is_seekable) == (0, False, False)
    with pytest.raises(UnseekableSource):
        media.seek(24_000)


@pytest.mark.parametrize("size_bytes", [10**18 - 1, 2**40])
@pytest.mark.parametrize("kind", GUESSED)
def test_a_size_that_no_file_has_gives_no_length(kind: str, size_bytes: int) -> None:
    """A server may claim any size."""
    facts = open_bytes(file := GUESSED[kind](), reader=UnseekableReader(file), size_bytes=size_bytes).facts
    assert (facts.length_ms, facts.is_seekable) == (0, False)


def test_a_length_that_no_sound_has_is_unknown() -> None:
    """More would not go into a message, and into no client's clock."""
    file = opus(music(0.5), container="webm")
    at = file.index(b"\x44\x89\x88") + 3  # the segment's duration, in ms
    facts = open_bytes(file[:at] + struct.pack(">d", 1e14) + file[at + 8 :]).facts
    assert (facts.length_ms, facts.is_length_exact, facts.is_seekable) == (0, False, False)
