"""What somebody means who types one text."""

import pytest

from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import TrackInfo
from tonearm.core.typed_text import Meaning, what_is_meant

THERE = {"song.flac", "AC/DC", "music.d/a b.mp3", "youtube.com/watch"}
ENCODED = encode_track(TrackInfo("https://radio.example/a.mp3", "https://radio.example/a.mp3", "A"))
LONG = "x" * 300


@pytest.mark.parametrize(
    ("text", "kind", "means"),
    [
        (ENCODED, "encoded", ENCODED),
        (f" {ENCODED}\n", "encoded", ENCODED),
        ("https://youtu.be/x", "uri", "https://youtu.be/x"),
        ("HTTP://radio.example", "uri", "HTTP://radio.example"),
        ("ftp://radio.example/x", "uri", "ftp://radio.example/x"),  # and the error says what can be played
        ("spotify:track:4uLU6hMCjMI75M1A2tKUQC", "uri", "spotify:track:4uLU6hMCjMI75M1A2tKUQC"),
        ("sound:0a1b", "uri", "sound:0a1b"),
        ("www.youtube.com/watch?v=x", "uri", "https://www.youtube.com/watch?v=x"),
        ("youtube.com/watch?v=x", "uri", "https://youtube.com/watch?v=x"),
        ("youtube.com/watch", "uri", "youtube.com/watch"),  # there is such a file
        ("radio.example:8000/live", "uri", "http://radio.example:8000/live"),
        (f"radio.example/{LONG}", "uri", f"https://radio.example/{LONG}"),
        ("ytsearch:AC/DC", "search", "ytsearch:AC/DC"),
        ("YTSearch: a b", "search", "YTSearch: a b"),
        ("nosearch:x", "search", "nosearch:x"),  # which is refused, with those that there are
        ("Research: a story", "search", "ytsearch:Research: a story"),
        ("/srv/song.mp3", "uri", "/srv/song.mp3"),
        ("./a", "uri", "./a"),
        ("../a", "uri", "../a"),
        ("~/a", "uri", "~/a"),
        ("file:///srv/a", "uri", "file:///srv/a"),
        ("song.flac", "uri", "song.flac"),
        ("music.d/a b.mp3", "uri", "music.d/a b.mp3"),
        ("AC/DC", "uri", "AC/DC"),
        ("AC/DC Thunderstruck", "search", "ytsearch:AC/DC Thunderstruck"),
        ("Mr. Brightside", "search", "ytsearch:Mr. Brightside"),
        ("other.flac", "search", "ytsearch:other.flac"),
        ("Artist: Title", "search", "ytsearch:Artist: Title"),
        ("will.i.am - the.way/home", "search", "ytsearch:will.i.am - the.way/home"),
        ("Panic! at the disco.com/x", "search", "ytsearch:Panic! at the disco.com/x"),
        ("~ nice ~", "search", "ytsearch:~ nice ~"),
        ("夜のフェリー", "search", "ytsearch:夜のフェリー"),
    ],
)
def test_what_is_meant(text: str, kind: str, means: str) -> None:
    meaning = what_is_meant(text, searches={"ytsearch"}, default_search="ytsearch", is_there=THERE.__contains__)
    assert meaning == Meaning(kind, means)  # type: ignore[arg-type]
