"""Titles in the bytes of internet radio, however the network cuts them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.radio_server import icy_block
from tonearm.core.opened_source import TitleAtByte
from tonearm.sources.http.radio import IcySplitter, metadata_interval, radio_text, stream_title


def split_all(data: bytes, interval: int | None, cuts: list[int]) -> tuple[bytes, list[TitleAtByte]]:
    """What comes of `data` when it arrives in pieces that end at `cuts`."""
    splitter = IcySplitter(interval)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    sound, titles = b"", []
    for start, end in itertools.pairwise(edges):
        more, found = splitter.feed(data[start:end])
        sound += more
        titles += found
    return sound, titles


titles_or_nothing = st.one_of(st.none(), st.text(st.characters(min_codepoint=32, codec="utf-8"), max_size=60))


@given(
    sound=st.binary(max_size=400),
    interval=st.integers(1, 50),
    titles=st.lists(titles_or_nothing, max_size=12),
    cuts=st.lists(st.integers(0, 2000), max_size=30),
)
def test_sound_and_titles_come_apart_for_every_way_to_cut_the_bytes(
    sound: bytes, interval: int, titles: list[str | None], cuts: list[int]
) -> None:
    told = list(titles)
    mixed = b""
    for start in range(0, len(sound), interval):
        part = sound[start : start + interval]
        mixed += part
        if len(part) == interval:
            title = told.pop(0) if told else None
            mixed += icy_block("" if title is None else f"StreamTitle='{title}';")

    got, found = split_all(mixed, interval, cuts)

    assert got == sound
    assert found == split_all(mixed, interval, [])[1]
    assert all(title.offset % interval == 0 and title.offset <= len(sound) for title in found)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (b"StreamTitle='Band - Song';StreamUrl='http://x/';", "Band - Song"),
        (b"StreamTitle='It's Don't';StreamUrl='';", "It's Don't"),
        (b"StreamTitle='a';b';StreamUrl='x';", "a';b"),
        (b"StreamTitle='cut off in the mid", "cut off in the mid"),
        (b"StreamUrl='http://x/';StreamTitle='Second';", "Second"),
        ("StreamTitle='Sigur Rós - Hoppípolla';".encode(), "Sigur Rós - Hoppípolla"),
        (b"StreamTitle='Bj\xf6rk \x96 J\xf3ga';", "Björk \u2013 Jóga"),
        (b"StreamTitle='\xff\x81';", "ÿ\ufffd"),
        (b"StreamTitle=' a\tb\r\nc\x07 ';", "a b c"),
        (b"StreamTitle='';adw_ad='true';durationMilliseconds='30014';adId='38320';insertionType='preroll';", ""),
        (b"StreamTitle='Band - Song';StreamUrl=http://x/;", "Band - Song"),
        (b"StreamUrl='http://x/';", None),
    ],
)
def test_titles_in_odd_forms(text: bytes, title: str | None) -> None:
    assert stream_title(text) == title


def test_a_title_is_of_bearable_length_and_fit_for_json() -> None:
    text = radio_text(b"\xed\xa0\x80" + b"x" * 4000)

    assert len(text) == 1000
    text.encode("utf-8")


def test_a_broken_interval_means_that_all_is_sound() -> None:
    for header in (None, "", "0", "-1", "abc", "16000x", "1e3", "99999999999999999999", "²", "9999999"):
        assert metadata_interval(header) is None
    assert IcySplitter(None).feed(b"abc") == (b"abc", [])
    assert metadata_interval(" 16000 ") == 16000


@given(st.binary(min_size=1, max_size=1000).filter(lambda data: data[9:10] not in (b"", b"\0")))
def test_a_server_that_announces_titles_and_sends_none_is_found_out(data: bytes) -> None:
    """All its bytes are sound: what looked like a block comes as sound, too."""
    sound = data[:9] + bytes((data[9],)) + b"\xff\xfb" + data[10:] + bytes(5000)

    assert split_all(sound, 9, [5, 20]) == (sound, [])
