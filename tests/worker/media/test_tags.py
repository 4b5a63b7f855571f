"""Titles and other facts from tags, as old and odd taggers wrote them."""

import pytest

from tests.support.audio_files import encoded, flac, id3, m4a, mp3, opus, tone
from tests.support.media_files import open_bytes
from tests.support.pictures import png
from tonearm.worker.media.facts import MAX_TAG_CHARACTERS, clean_text, read_tags, title_of

TAGS = {"title": "Für Elise", "artist": "Ludwig"}


def test_title_and_author_of_each_kind_of_tag() -> None:
    for file in (
        flac(tone(440, 0.2), tags=TAGS),
        opus(tone(440, 0.2), tags=TAGS),
        mp3(tone(440, 0.2, 44_100), tags=TAGS),
        m4a(tone(440, 0.2, 44_100), tags=TAGS),
        encoded("matroska", "flac", tone(440, 0.2), tags=TAGS),
        encoded("wav", "pcm_s16le", tone(440, 0.2), tags=TAGS),
    ):
        facts = open_bytes(file).facts
        assert (facts.title, facts.author) == ("Für Elise", "Ludwig"), facts


def test_isrc_cover_and_a_link_to_the_artwork_and_bytes_that_are_no_text() -> None:
    texts = {"TIT2": b"\x03Caf\xe9 \xff", "TPE1": b"\x00\x01\x02Someone\x7f", "TSRC": b"\x00US-XXX-07-00001"}
    facts = open_bytes(id3(texts=texts, picture=png()) + mp3(tone(440, 0.5, 44_100))).facts
    assert (facts.title, facts.author, facts.isrc) == ("Café ÿ", "Someone", "USXXX0700001")
    assert (facts.artwork_url, facts.has_picture) == (None, True)
    assert facts.length_ms == pytest.approx(500, abs=1)
    tags = {"ISRC": "DEUM71301234", "ARTWORK_URL": "https://example.org/cover.jpg"}
    facts = open_bytes(flac(tone(440, 0.2), tags=tags)).facts
    assert (facts.isrc, facts.artwork_url) == ("DEUM71301234", "https://example.org/cover.jpg")


def test_what_is_no_isrc_or_link_is_left_out() -> None:
    tags = read_tags({"isrc": "unknown", "artwork_url": "javascript:alert(1)", "title": "  \x00 "}, {"TITLE": "Named"})
    assert (tags.title, tags.author, tags.isrc, tags.artwork_url) == ("Named", None, None, None)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\tb\nc", "a b c"),
        ("\x00\x1b[31mred\x9f", "[31mred"),
        ("na\udcefve", "naïve"),
        ("lone \ud83d half", "lone ? half"),
        ("😀", "😀"),
        ("x" * 5000, "x" * MAX_TAG_CHARACTERS),
    ],
)
def test_texts_are_fit_for_json(text: str, clean: str) -> None:
    assert clean_text(text) == clean
    assert clean_text(text).encode()


def test_the_title_of_a_stream_is_no_longer_than_that_of_a_file() -> None:
    assert title_of(read_tags({"title": "t" * 2_000, "artist": "a" * 900})) == f"{'a' * 900} - {'t' * 97}"


@pytest.mark.parametrize(
    ("tags", "track_lufs", "album_lufs"),
    [
        ({"REPLAYGAIN_TRACK_GAIN": "-7.03 dB", "replaygain_album_gain": "+2.5"}, -10.97, -20.5),
        ({"replaygain_track_gain": "-7,03 DB"}, -10.97, None),
        ({"R128_TRACK_GAIN": "-256", "R128_ALBUM_GAIN": "512", "REPLAYGAIN_TRACK_GAIN": "9 dB"}, -22.0, -25.0),
        ({"REPLAYGAIN_TRACK_GAIN": "loud", "REPLAYGAIN_ALBUM_GAIN": "64.00 dB", "R128_TRACK_GAIN": "1e3"}, None, None),
        ({}, None, None),
    ],
)
def test_loudness_in_tags(tags: dict[str, str], track_lufs: float | None, album_lufs: float | None) -> None:
    read = read_tags(tags)
    assert read.loudness_lufs == (track_lufs if track_lufs is None else pytest.approx(track_lufs))
    assert read.album_loudness_lufs == (album_lufs if album_lufs is None else pytest.approx(album_lufs))


def test_loudness_and_album_of_real_files() -> None:
    tags = {"REPLAYGAIN_TRACK_GAIN": "-6.50 dB", "REPLAYGAIN_ALBUM_GAIN": "-5.00 dB", "ALBUM": "Best of"}
    for file in (flac(tone(440, 0.2), tags=tags), mp3(tone(440, 0.2, 44_100), tags=tags)):
        facts = open_bytes(file).facts
        assert (facts.loudness_lufs, facts.album_loudness_lufs, facts.album) == (-11.5, -13.0, "Best of")
    facts = open_bytes(opus(tone(440, 0.2), tags={"R128_TRACK_GAIN": "-1024"})).facts
    assert (facts.loudness_lufs, facts.album_loudness_lufs) == (-19.0, None)
