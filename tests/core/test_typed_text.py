"""What somebody means who types one text."""

import pytest

from tonearm.core.errors import BadRequest
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import TrackInfo
from tonearm.core.typed_text import Meaning, what_is_meant

THERE = ("song.flac", "AC/DC", "music.d/a b.mp3", "youtube.com/watch")
ENCODED = encode_track(TrackInfo("https://radio.example/a.mp3", "https://radio.example/a.mp3", "A"))
LONG = "x" * 300


def meant(typed: str) -> Meaning:
    return what_is_meant(typed, searches={"ytsearch"}, default_search="ytsearch", is_there=THERE.__contains__)


def test_what_is_meant() -> None:
    for kind, prefix, texts in (
        ("encoded", "", (ENCODED,)),
        # To ftp the error says what can be played.
        ("uri", "", ("https://youtu.be/x", "HTTP://radio.example", "ftp://radio.example/x", "spotify:track:4u")),
        ("uri", "", ("file:///srv/a", "sound:0a1b", "/srv/song.mp3", "./a", "../a", "~/a", *THERE)),
        ("uri", "https://", ("www.youtube.com/watch?v=x", "youtube.com/watch?v=x", f"radio.example/{LONG}")),
        ("uri", "https://", ("web.archive.org/web/2026/https://radio.example/a.mp3",)),
        ("uri", "http://", ("radio.example:8000/live",)),
        # The last one is refused, with those that there are.
        ("search", "", ("ytsearch:AC/DC", "YTSearch: a b", "nosearch:x")),
        ("search", "ytsearch:", ("Research: a story", "AC/DC Thunderstruck", "Mr. Brightside", "other.flac")),
        ("search", "ytsearch:", ("Artist: Title", "will.i.am - the.way/home", "Panic! at the disco.com/x", "~ nice ~")),
        ("search", "ytsearch:", ("夜のフェリー",)),
        # Words, though they are base64 of paths, too.
        ("search", "ytsearch:", ("Lyla", "L7", "Lyon")),
        # Songs, though a host and a port are written so, too.
        ("search", "ytsearch:", ("10:35", "4:44")),
    ):
        for text in texts:
            for typed in (text, f" {text}\n"):
                found = meant(typed)
                assert (found.kind, found.text) == (kind, f"{prefix}{text}")


def test_words_in_several_lines_are_searched_and_a_link_as_chats_write_it_is_the_link() -> None:
    for typed in ("The Lanterns\nNight\tFerry", "ytsearch:The Lanterns\r\n Night Ferry"):
        assert meant(typed) == Meaning("search", "ytsearch:The Lanterns Night Ferry")
    link = "https://radio.example/Night_(Live).mp3?a=b"
    for typed in (f"<{link}>", f"[Night, live]({link})", f"[Night](<{link}>)\n", f"<{link}|Night, live>"):
        assert meant(typed) == Meaning("uri", link)


def test_a_link_among_words_is_the_link_and_several_are_refused_as_such() -> None:
    link = "https://radio.example/Night_(Live)?a=b_"
    for typed in (
        *(
            "Listen to Night by Ada on #Radio\n{}",
            "Night (Live) - {}",
            "{}\nNight by Ada",
            "see [Night]({}), it is nice",
        ),
        *("({})", "||{}||", "`{}`", "*{}*", '"{}".', "\u200b{}", "<{}>, or <{}>"),
    ):
        assert meant(typed.replace("{}", link)) == Meaning("uri", link)
    for typed in ("{} {}2", "<{}> <{}2>", "{}\n{}2", "one {} and {}2"):
        found = meant(typed.replace("{}", "https://radio.example/"))
        assert found.kind == "uri"
        with pytest.raises(BadRequest, match="several links"):
            parse_source_uri(found.text, from_client=True)
