"""What is read from HLS playlists, and which of several streams is chosen."""

import contextlib
import time

import pytest

from tests.support.hls import media_playlist
from tonearm.core.failure import FailureCode, PlayError
from tonearm.sources.hls.playlist import ByteRange, Key, MasterPlaylist, MediaPlaylist, Piece, best_audio, parse_hls
from tonearm.sources.playlist import is_hls

AES = '#EXT-X-KEY:METHOD=AES-128,URI="k"'
DRM = '#EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://a",KEYFORMAT="com.apple.streamingkeydelivery"'
NO_KEY = "#EXT-X-KEY:METHOD=NONE"
AAC, HE_AAC, AC3, VIDEO = "mp4a.40.2", "mp4a.40.5", "ac-3", "avc1.64001f"


def number_iv(number: int) -> bytes:
    return number.to_bytes(16, "big")


def parse_media(text: str) -> MediaPlaylist:
    parsed = parse_hls(text)
    assert isinstance(parsed, MediaPlaylist)
    return parsed


def parse_master(lines: list[str]) -> MasterPlaylist:
    parsed = parse_hls("\n".join(["#EXTM3U", *lines, ""]))
    assert isinstance(parsed, MasterPlaylist)
    return parsed


def refusal(text: str) -> FailureCode:
    with pytest.raises(PlayError) as caught:
        parse_hls(text)
    return caught.value.failure.code


def stream(name: str, bandwidth: int, codecs: str = "", more: str = "") -> str:
    attributes = f"BANDWIDTH={bandwidth}" + (f',CODECS="{codecs}"' if codecs else "") + (f",{more}" if more else "")
    return f"#EXT-X-STREAM-INF:{attributes}\n{name}"


def sound(name: str, group: str = "g", more: str = "") -> str:
    uri = f',URI="{name}"' if name else ""
    return f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="{group}",NAME="{name}"{uri}{more}'


def test_segments_with_their_numbers_and_lengths() -> None:
    playlist = parse_media(media_playlist(["a.ts", "https://b.example/b.ts?x=1"], sequence=41, duration_s=2.5))
    assert [(segment.number, segment.piece.reference) for segment in playlist.segments] == [
        (41, "a.ts"),
        (42, "https://b.example/b.ts?x=1"),
    ]
    assert (playlist.length_ms, playlist.target_duration_s, playlist.is_complete) == (5000, 2.5, True)
    assert not parse_media(media_playlist(["a.ts"], is_complete=False)).is_complete
    assert parse_media(media_playlist(["#EXT-X-PLAYLIST-TYPE:VOD", "a.ts"], is_complete=False)).is_complete
    playlist = parse_media("#EXTM3U\r\n#EXTINF:1,One\u2028Two\x0bThree\x85Four\r\na.ts\r\n#EXT-X-ENDLIST\r\n")
    assert [segment.piece.reference for segment in playlist.segments] == ["a.ts"]


def test_byte_ranges_follow_one_another() -> None:
    lines = ["#EXT-X-BYTERANGE:10@5", "a", "#EXT-X-BYTERANGE:20", "a", "#EXT-X-BYTERANGE:7", "b"]
    ranges = [segment.piece.byte_range for segment in parse_media(media_playlist(lines)).segments]
    assert ranges == [ByteRange(5, 10), ByteRange(15, 20), ByteRange(0, 7)]


def test_maps_breaks_and_gaps_belong_to_what_follows() -> None:
    maps = ['#EXT-X-MAP:URI="i",BYTERANGE="9@0"', "b", f"{AES},IV=0x2", '#EXT-X-MAP:URI="j"', NO_KEY]
    segments = parse_media(media_playlist(["a", *maps, "c", "#EXT-X-DISCONTINUITY", "d", "#EXT-X-GAP", "e"]))
    encrypted = Piece("j", key=Key("k", number_iv(2)))  # by the key that stands before it
    inits = [segment.init for segment in segments.segments]
    assert inits == [None, Piece("i", ByteRange(0, 9)), encrypted, encrypted, encrypted]
    assert [segment.piece.key for segment in segments.segments] == [None] * 5
    assert [segment.breaks for segment in segments.segments] == [False, False, False, True, False]
    assert [segment.is_gap for segment in segments.segments] == [False, False, False, False, True]
    assert segments.length_ms == 2000


def test_what_does_not_matter_may_be_wrong() -> None:
    tags = ["#EXT-X-PROGRAM-DATE-TIME:yesterday", '#EXT-X-PART:DURATION=x,URI="p"', "#EXT-X-WHATEVER", "# a comment"]
    lines = ["a.ts", *tags, "#EXT-X-DATERANGE:ID=", "#EXT-X-DISCONTINUITY-SEQUENCE:x", "#", "b.ts"]
    assert len(parse_media(media_playlist(lines)).segments) == 2


# The first column is what RFC 8216, 4.3.2.4 and 5.2, says.
def test_keys() -> None:
    seven, eight = Key("k", number_iv(7)), Key("k", number_iv(8))
    for lines, keys in (
        ([f"{AES},IV=0X1f", "a", "b"], [Key("k", number_iv(31))] * 2),
        ([AES, "a", "b"], [seven, eight]),
        ([AES, "a", f'{AES[:-2]}2"', "b"], [seven, Key("2", number_iv(8))]),  # until the next tag
        ([f'{AES},KEYFORMAT="identity"', "a"], [seven]),
        ([DRM, AES, "a", NO_KEY, "b"], [seven, None]),  # a tag behind a segment replaces all
    ):
        parsed = parse_media(media_playlist(lines, sequence=7))
        assert [segment.piece.key for segment in parsed.segments] == keys


def test_encryption_that_is_refused() -> None:
    foreign = [f"#EXT-X-KEY:METHOD={method}" for method in ('SAMPLE-AES,URI="k"', 'AES-128,URI="k",KEYFORMAT="x"')]
    for line in (*foreign, '#EXT-X-KEY:URI="k"'):
        assert refusal(media_playlist(["a.ts", line, "b.ts"])) == FailureCode.UNSUPPORTED_CODEC
    for line in ("#EXT-X-KEY:METHOD=AES-128", *(f"{AES},IV={iv}" for iv in ("12", "0xyz", "0x" + "1" * 33))):
        assert refusal(media_playlist(["a.ts", line, "b.ts"])) == FailureCode.CORRUPT


def test_what_matters_must_be_right() -> None:
    for line in (
        *(f"#EXTINF:{length},\na" for length in ("nan", "-1", "1e300", "x")),
        *(f"#EXT-X-MEDIA-SEQUENCE:{number}\n#EXTINF:1,\na" for number in ("-1", "9" * 5000)),
        *("#EXT-X-BYTERANGE:0@0\na", "#EXT-X-BYTERANGE:5@-5\na", "#EXT-X-MAP:BYTERANGE=1\n#EXTINF:1,\na"),
        "#EXT-X-STREAM-INF:BANDWIDTH=fast\na",
    ):
        assert refusal(f"#EXTM3U\n{line}\n") == FailureCode.CORRUPT


def test_too_many_entries_and_too_long_lines() -> None:
    assert refusal(media_playlist([f"{number}.ts" for number in range(50_001)])) == FailureCode.LIMIT_EXCEEDED
    assert refusal(media_playlist(["a" * 20_000])) == FailureCode.LIMIT_EXCEEDED


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"{line}\n" * (1_000_000 // len(line))
            for line in (
                '#EXT-X-MAP:URI="' + "\"'" * 8000,
                "#EXT-X-MEDIA:A=" + "\"a'," * 3900,
                "#EXT-X-MAP:URI=a",
                "#EXTINF:1,",
                "#EXT-X-STREAM-INF:BANDWIDTH=1",
            )
        ),
        "".join(f"#EXT-X-KEY:METHOD=NONE,IV={number}\n" for number in range(30_000)),
        f"{DRM}\n" * 50_000 + f"{NO_KEY}\n" + "#EXTINF:1,\na\n" * 20_000,
    ],
    ids=lambda text: text[:20],
)
def test_a_megabyte_of_tags_takes_no_time_to_speak_of(text: str) -> None:
    begun_s = time.process_time()
    with contextlib.suppress(PlayError):
        parse_hls(f"#EXTM3U\n{text}")
    assert time.process_time() - begun_s < 10


def test_what_is_hls() -> None:
    data = "#EXTM3U\n#EXT-X-SESSION-DATA:DATA-ID=x\n"  # panels of television write it into other lists
    for text in ("#EXTM3U\r\n#EXT-X-TARGETDURATION:1\r\n", f"{data}#EXT-X-STREAM-INF:BANDWIDTH=1\na.m3u8\n"):
        assert is_hls(text)
    for text in ("#EXTM3U\n#EXTINF:1,#EXT-X-\na.mp3\n", f"{data}#EXTINF:-1,One\nhttp://a/1\n", "#EXT-X-ENDLIST\n"):
        assert not is_hls(text)


SOUNDS = [
    ([stream("he", 200_000, HE_AAC), stream("lc", 128_000, AAC)], "lc"),
    ([stream("flac", 800_000, "fLaC"), stream("lc", 1_000_000, AAC)], "flac"),
    # With picture: the smallest of those that sound best.
    ([stream("tiny", 200_000, f"{VIDEO},{HE_AAC}", "RESOLUTION=256x144"),
      stream("big", 5_000_000, f"{VIDEO},{AAC}", "RESOLUTION=1920x1080"),
      stream("small", 800_000, f"{VIDEO},{AAC}", "RESOLUTION=640x360")], "small"),
    ([stream("silent", 100_000, VIDEO), stream("video", 900_000, f"{VIDEO},{AAC}")], "video"),
    # Sound of its own.
    ([sound("commentary.m3u8"), sound("main.m3u8", more=",DEFAULT=YES,AUTOSELECT=YES"),
      stream("video", 900_000, f"{VIDEO},{AAC}", 'AUDIO="g"')], "main.m3u8"),
    ([sound("low.m3u8", "low", ",DEFAULT=YES"), sound("high.m3u8", "high", ",DEFAULT=YES"),
      stream("v1", 5_000_000, f"{VIDEO},{HE_AAC}", 'AUDIO="low"'),
      stream("v2", 900_000, f"{VIDEO},{AAC}", 'AUDIO="high"')], "high.m3u8"),
    ([sound("a", more=",AUTOSELECT=YES"), sound("b"), stream("v", 1, AAC, 'AUDIO="g"')], "a"),
    # The default one is within the variant.
    ([sound("", more=",DEFAULT=YES"), sound("other.m3u8"), stream("v", 900_000, AAC, 'AUDIO="g"')], "v"),
    ([sound("alone.m3u8", "x"), stream("v", 900_000, AAC)], "v"),
]  # fmt: skip


def test_the_best_sound_is_chosen() -> None:
    for lines, chosen in SOUNDS:
        assert best_audio(parse_master(lines)).reference == chosen


def test_a_rendition_that_is_wanted() -> None:
    """RFC 8216, 4.3.4.1: DEFAULT plays unless the user wants another one, which may be named by its language."""
    default = sound("en", more=',LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES')
    sounds = [default, sound("de", more=',LANGUAGE="de-AT",AUTOSELECT=YES'), sound("", more=',LANGUAGE="fr"')]
    master = parse_master([*sounds, stream("v", 1, AAC, 'AUDIO="g"')])
    for number, reference, names in ((1, "en", ("", "1")), (2, "de", ("2", "de", "DE-at")), (3, "v", ("3", "fr"))):
        for wanted in names:
            found = best_audio(master, wanted)
            assert found.choice is not None
            assert (found.reference, found.choice.number, found.choice.count) == (reference, number, 3)
    with pytest.raises(PlayError, match=r"no #audio=it in it, but 1 \(en\), 2 \(de-AT\)") as caught:
        best_audio(master, "it")
    assert caught.value.failure.code == FailureCode.NO_AUDIO_STREAM
    assert refusal("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n") == FailureCode.EMPTY
