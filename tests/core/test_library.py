"""Paths of the library, names of what is sent, and what is found."""

import pytest

from tonearm.core.errors import BadRequest, LibraryFileNotFound
from tonearm.core.library import (
    Place,
    in_natural_order,
    is_shown_name,
    kind_of_file,
    natural_order,
    numbered_name,
    place_of,
    search_words,
    sent_name,
)

PLACES = {
    "": None,
    "/0": Place(0),
    "/12/Jazz/so what.flac": Place(12, ("Jazz", "so what.flac")),
    "/0/100%/<b>": Place(0, ("100%", "<b>")),
}


def test_a_path_means_a_place() -> None:
    assert {path: place_of(path) for path in PLACES} == PLACES
    for place in filter(None, PLACES.values()):
        assert place_of(place.path) == place
        assert (place_of(place.parent) or Place(0)).names == place.names[:-1]


def test_no_other_path_is_found() -> None:
    for path in (
        *("0", "0/Jazz", "/x", "/-1", "/00", "/00001", "/\N{ARABIC-INDIC DIGIT ONE}", "//0", "/0//a", "/0/a//", "/etc"),
        *("/0/..", "/0/../..", "/0/a/../b", "/0/.", "/../0", "/..", "/0/.git", "/0/a/.hidden.mp3"),
        *("/0/a\0b", "/0/a\nb", "/0/\ud83d", "file:///etc/passwd"),
    ):
        with pytest.raises(LibraryFileNotFound):
            place_of(path)


def test_a_name_is_shown_that_can_be_played() -> None:
    assert all(map(is_shown_name, ("a", "a.b", "<img src=x>", "a\N{NO-BREAK SPACE}b", "100%", "x" * 255)))
    assert not any(map(is_shown_name, ("", ".", "..", ".a", "a\nb", "a\x1bb", "a\N{LINE SEPARATOR}b")))
    kinds = {"a.FLAC": "audio", "a.m3u8": "playlist", "a.cue": "playlist", "a.xml": None, "mp3": None, "a.txt": None}
    assert {name: kind_of_file(name) for name in kinds} == kinds


SENT = {
    "song.mp3": "song.mp3",
    "C:\\fakepath\\My Song.FLAC": "My Song.FLAC",
    "/etc/passwd.ogg": "passwd.ogg",
    "..%2f..%2fx.mp3": "%2f..%2fx.mp3",
    ".hidden.mp3": "hidden.mp3",
    "a\nb\x00c\N{RIGHT-TO-LEFT OVERRIDE}3pm.mp3": "a b c 3pm.mp3",
    "<img src=x onerror=alert(1)>.mp3": "<img src=x onerror=alert(1)>.mp3",
    "Größe, 你好.opus": "Größe, 你好.opus",
    "é" * 200 + ".mp3": "é" * 125 + ".mp3",
}


def test_a_sent_file_keeps_the_last_part_of_its_name() -> None:
    assert {given: sent_name(given) for given in SENT} == SENT
    assert all(sent_name(name) == name and place_of(f"/0/{name}") == Place(0, (name,)) for name in SENT.values())


def test_what_has_no_name_of_audio_is_not_taken() -> None:
    for given in ("", "x", "../../x", "..", "/", ".mp3", " .mp3", "a.txt", "a.m3u", "a.mp3/", "a.mp3\0x"):
        with pytest.raises(BadRequest, match=r"\.flac"):
            sent_name(given)


def test_a_search_has_words_in_any_case_and_an_end_and_a_taken_name_gets_a_number() -> None:
    assert search_words("So  WHAT") == ("so", "what")
    with pytest.raises(BadRequest, match="`query` must have at most 4096 characters"):
        search_words("a " * 2049)
    assert [numbered_name("a.b.mp3", number) for number in (1, 10)] == ["a.b.mp3", "a.b (10).mp3"]
    assert [len(numbered_name("é" * 125 + ".mp3", number).encode()) for number in (1, 2, 999)] == [254, 254, 254]


def test_slices_are_put_together_in_natural_order() -> None:
    names = [f"{'Track' if number % 2 else 'track'} {number}.mp3" for number in range(3500, 0, -1)]
    assert [*in_natural_order(names)] == sorted(names, key=natural_order) == names[::-1]
