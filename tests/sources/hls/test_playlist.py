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


class TestMediaPlaylists:
    def test_segments_with_their_numbers_and_lengths(self) -> None:
        playlist = parse_media(media_playlist(["a.ts", "https://b.example/b.ts?x=1"], sequence=41, duration_s=2.5))
        assert [(segment.number, segment.piece.reference) for segment in playlist.segments] == [
            (41, "a.ts"),
            (42, "https://b.example/b.ts?x=1"),
        ]
        assert (playlist.length_ms, playlist.target_duration_s, playlist.is_complete) == (5000, 2.5, True)

    def test_without_the_end_mark_it_goes_on(self) -> None:
        assert not parse_media(media_playlist(["a.ts"], is_complete=False)).is_complete

    def test_of_a_kind_that_does_not_change_it_is_complete_without_the_end_mark(self) -> None:
        playlist = parse_media(media_playlist(["#EXT-X-PLAYLIST-TYPE:VOD", "a.ts", "b.ts"], is_complete=False))
        assert (playlist.length_ms, playlist.is_complete) == (1000, True)

    def test_a_title_may_have_strange_ends_of_lines(self) -> None:
        playlist = parse_media("#EXTM3U\r\n#EXTINF:1,One\u2028Two\x0bThree\x85Four\r\na.ts\r\n#EXT-X-ENDLIST\r\n")
        assert [segment.piece.reference for segment in playlist.segments] == ["a.ts"]

    def test_byte_ranges_follow_one_another(self) -> None:
        lines = ["#EXT-X-BYTERANGE:10@5", "a", "#EXT-X-BYTERANGE:20", "a", "#EXT-X-BYTERANGE:7", "b"]
        ranges = [segment.piece.byte_range for segment in parse_media(media_playlist(lines)).segments]
        assert ranges == [ByteRange(5, 10), ByteRange(15, 20), ByteRange(0, 7)]

    def test_maps_breaks_and_gaps_belong_to_what_follows(self) -> None:
        lines = ["a", '#EXT-X-MAP:URI="i",BYTERANGE="9@0"', "b", "#EXT-X-DISCONTINUITY", "c", "#EXT-X-GAP", "d"]
        playlist = parse_media(media_playlist(lines))
        init = Piece("i", ByteRange(0, 9))
        assert [segment.init for segment in playlist.segments] == [None, init, init, init]
        assert [segment.breaks for segment in playlist.segments] == [False, False, True, False]
        assert [segment.is_gap for segment in playlist.segments] == [False, False, False, True]
        assert playlist.length_ms == 1500

    @pytest.mark.parametrize(
        "tag",
        [
            "#EXT-X-PROGRAM-DATE-TIME:yesterday",
            "#EXT-X-DATERANGE:ID=",
            '#EXT-X-PART:DURATION=x,URI="p"',
            "#EXT-X-SKIP:SKIPPED-SEGMENTS=no",
            "#EXT-X-DISCONTINUITY-SEQUENCE:x",
            "#EXT-X-KEY:METHOD=NONE",
            "#EXT-X-WHATEVER",
            "# a comment",
            "",
        ],
    )
    def test_what_does_not_matter_may_be_wrong(self, tag: str) -> None:
        assert len(parse_media(media_playlist(["a.ts", tag or "#", "b.ts"])).segments) == 2

    # The first column is what RFC 8216, 4.3.2.4 and 5.2, says.
    @pytest.mark.parametrize(
        ("says", "lines", "keys"),
        [
            ("it applies to all that follows", [AES, "a", "b"], [Key("k", number_iv(7)), Key("k", number_iv(8))]),
            ("IV is a hexadecimal number", [f"{AES},IV=0x1f", "a", "b"], [Key("k", number_iv(31))] * 2),
            ("in upper case, too", [f"{AES},IV=0X1F", "a"], [Key("k", number_iv(31))]),
            ("until the next tag", [AES, "a", f'{AES[:-2]}2"', "b"], [Key("k", number_iv(7)), Key("2", number_iv(8))]),
            ("NONE ends it", [AES, "a", NO_KEY, "b"], [Key("k", number_iv(7)), None]),
            ("NONE needs nothing else", [NO_KEY, "a"], [None]),
            ("identity is the default", [f'{AES},KEYFORMAT="identity"', "a"], [Key("k", number_iv(7))]),
            ("one of several formats may be chosen", [AES, DRM, "a"], [Key("k", number_iv(7))]),
            ("in any order", [DRM, AES, "a"], [Key("k", number_iv(7))]),
            ("a tag behind a segment replaces all", [DRM, AES, "a", NO_KEY, "b"], [Key("k", number_iv(7)), None]),
        ],
    )
    def test_keys(self, says: str, lines: list[str], keys: list[Key | None]) -> None:
        parsed = parse_media(media_playlist(lines, sequence=7))
        assert [segment.piece.key for segment in parsed.segments] == keys, says

    def test_the_key_of_an_initialization_section_stands_before_it(self) -> None:
        lines = ['#EXT-X-MAP:URI="i"', "a", f"{AES},IV=0x2", '#EXT-X-MAP:URI="j"', NO_KEY, "b"]
        segments = parse_media(media_playlist(lines)).segments
        inits = [segment.init for segment in segments]
        assert inits == [Piece("i"), Piece("j", key=Key("k", number_iv(2)))]
        assert [segment.piece.key for segment in segments] == [None, None]

    @pytest.mark.parametrize(
        ("line", "code"),
        [
            ('#EXT-X-KEY:METHOD=SAMPLE-AES,URI="key"', FailureCode.UNSUPPORTED_CODEC),
            ('#EXT-X-KEY:METHOD=SAMPLE-AES-CTR,URI="key"', FailureCode.UNSUPPORTED_CODEC),
            ('#EXT-X-KEY:METHOD=AES-128,URI="k",KEYFORMAT="com.apple.x"', FailureCode.UNSUPPORTED_CODEC),
            ('#EXT-X-KEY:URI="k"', FailureCode.UNSUPPORTED_CODEC),
            ("#EXT-X-KEY:METHOD=AES-128", FailureCode.CORRUPT),
            (f"{AES},IV=12", FailureCode.CORRUPT),
            (f"{AES},IV=0xyz", FailureCode.CORRUPT),
            (f"{AES},IV=0x" + "1" * 33, FailureCode.CORRUPT),
        ],
    )
    def test_encryption_that_is_refused(self, line: str, code: FailureCode) -> None:
        assert refusal(media_playlist(["a.ts", line, "b.ts"])) == code

    @pytest.mark.parametrize(
        "line",
        [
            "#EXTINF:nan,\na",
            "#EXTINF:-1,\na",
            "#EXTINF:1e300,\na",
            "#EXTINF:x,\na",
            "#EXT-X-MEDIA-SEQUENCE:-1\n#EXTINF:1,\na",
            "#EXT-X-MEDIA-SEQUENCE:" + "9" * 5000 + "\n#EXTINF:1,\na",
            "#EXT-X-BYTERANGE:0@0\na",
            "#EXT-X-BYTERANGE:5@-5\na",
            "#EXT-X-MAP:BYTERANGE=1\n#EXTINF:1,\na",
            "#EXT-X-STREAM-INF:BANDWIDTH=fast\na",
        ],
    )
    def test_what_matters_must_be_right(self, line: str) -> None:
        assert refusal(f"#EXTM3U\n{line}\n") == FailureCode.CORRUPT

    def test_too_many_entries_and_too_long_lines(self) -> None:
        assert refusal(media_playlist([f"{number}.ts" for number in range(50_001)])) == FailureCode.LIMIT_EXCEEDED
        assert refusal(media_playlist(["a" * 20_000])) == FailureCode.LIMIT_EXCEEDED

    @pytest.mark.parametrize(
        "line",
        [
            '#EXT-X-MAP:URI="' + "\"'" * 8000,
            "#EXT-X-MEDIA:A=" + "\"a'," * 3900,
            "#EXT-X-MAP:URI=a",
            "#EXT-X-KEY:METHOD=NONE,IV={number}",
            "#EXTINF:1,",
            "#EXT-X-STREAM-INF:BANDWIDTH=1",
        ],
    )
    def test_a_megabyte_of_tags_takes_no_time_to_speak_of(self, line: str) -> None:
        lines = [line.replace("{number}", str(number)) for number in range(1_000_000 // len(line))]
        begun_s = time.process_time()
        with contextlib.suppress(PlayError):
            parse_hls("#EXTM3U\n" + "\n".join(lines))
        assert time.process_time() - begun_s < 10

    def test_many_keys_before_many_segments_take_no_time_to_speak_of(self) -> None:
        begun_s = time.process_time()
        parsed = parse_hls("#EXTM3U\n" + f"{DRM}\n" * 50_000 + f"{NO_KEY}\n" + "#EXTINF:1,\na\n" * 20_000)
        assert isinstance(parsed, MediaPlaylist)
        assert len(parsed.segments) == 20_000
        assert time.process_time() - begun_s < 10

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("#EXTM3U\n#EXT-X-ENDLIST\n", True),
            ("#EXTM3U\r\n#EXT-X-TARGETDURATION:1\r\n", True),
            ("#EXTM3U\n#EXTINF:1,#EXT-X-\nsong.mp3\n", False),
            # Panels of television write such lists.
            ('#EXTM3U\n#EXT-X-SESSION-DATA:DATA-ID="com.xui"\n#EXTINF:-1 tvg-id="",One\nhttp://a/1\n', False),
            ('#EXTM3U\n#EXT-X-SESSION-DATA:DATA-ID="a"\n#EXT-X-STREAM-INF:BANDWIDTH=1\na.m3u8\n', True),
            ("#EXT-X-ENDLIST\n", False),
            ("", False),
        ],
    )
    def test_what_is_hls(self, text: str, expected: bool) -> None:
        assert is_hls(text) is expected


class TestSelection:
    @pytest.mark.parametrize(
        ("lines", "chosen"),
        [
            ([stream("low", 64_000), stream("high", 128_000), stream("mid", 96_000)], "high"),
            ([stream("he", 200_000, HE_AAC), stream("lc", 128_000, AAC)], "lc"),
            ([stream("flac", 800_000, "fLaC"), stream("lc", 1_000_000, AAC)], "flac"),
            ([stream("usac", 999_000, "mp4a.40.42"), stream("he", 64_000, HE_AAC)], "he"),
            # With picture: the smallest of those that sound best.
            ([stream("tiny", 200_000, f"{VIDEO},{HE_AAC}", "RESOLUTION=256x144"),
              stream("big", 5_000_000, f"{VIDEO},{AAC}", "RESOLUTION=1920x1080"),
              stream("small", 800_000, f"{VIDEO},{AAC}", "RESOLUTION=640x360")], "small"),
            ([stream("video", 900_000, f"{VIDEO},{AAC}"), stream("sound", 64_000, AAC)], "sound"),
            ([stream("silent", 100_000, VIDEO), stream("video", 900_000, f"{VIDEO},{AAC}")], "video"),
            ([stream("b", 900_000, "", "RESOLUTION=2x2"), stream("a", 500_000, "", "RESOLUTION=1x1")], "a"),
            ([stream("wide", 9, "", "RESOLUTION=2x2"), stream("plain", 5)], "plain"),
            # Sound of its own.
            ([sound("commentary.m3u8"), sound("main.m3u8", more=",DEFAULT=YES,AUTOSELECT=YES"),
              stream("video", 900_000, f"{VIDEO},{AAC}", 'AUDIO="g"')], "main.m3u8"),
            ([sound("low.m3u8", "low", ",DEFAULT=YES"), sound("high.m3u8", "high", ",DEFAULT=YES"),
              stream("v1", 5_000_000, f"{VIDEO},{HE_AAC}", 'AUDIO="low"'),
              stream("v2", 900_000, f"{VIDEO},{AAC}", 'AUDIO="high"')], "high.m3u8"),
            ([sound("a", more=",AUTOSELECT=YES"), sound("b"), stream("v", 1, AAC, 'AUDIO="g"')], "a"),
            # The default one is within the variant.
            ([sound("", more=",DEFAULT=YES"), sound("other.m3u8"), stream("v", 900_000, AAC, 'AUDIO="g"')], "v"),
            ([sound("alone.m3u8", "x"), stream("v", 900_000, AAC, 'AUDIO="g"')], "v"),
            ([sound("alone.m3u8", "x"), stream("v", 900_000, AAC)], "v"),
        ],
    )  # fmt: skip
    def test_the_best_sound_is_chosen(self, lines: list[str], chosen: str) -> None:
        parsed = parse_hls("\n".join(["#EXTM3U", *lines, ""]))
        assert isinstance(parsed, MasterPlaylist)
        assert best_audio(parsed).reference == chosen

    # RFC 8216, 4.3.4.1: DEFAULT plays unless the user wants another one, which may be named by its language.
    @pytest.mark.parametrize(
        ("reference", "number", "wanted"),
        [*(("en", 1, wanted) for wanted in ("", "1")), *(("de", 2, wanted) for wanted in ("2", "de", "DE-at")),
         *(("v", 3, wanted) for wanted in ("3", "fr"))],
    )  # fmt: skip
    def test_a_rendition_that_is_wanted(self, reference: str, number: int, wanted: str) -> None:
        sounds = [
            sound("en", more=',LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES'),
            sound("de", more=',LANGUAGE="de-AT",AUTOSELECT=YES'),
            sound("", more=',LANGUAGE="fr"'),
        ]
        master = parse_hls("\n".join(["#EXTM3U", *sounds, stream("v", 1, AAC, 'AUDIO="g"'), ""]))
        assert isinstance(master, MasterPlaylist)
        found = best_audio(master, wanted)
        assert found.reference == reference
        assert found.choice is not None
        assert (found.choice.number, found.choice.count) == (number, 3)

    def test_a_rendition_that_is_not_there(self) -> None:
        lines = [sound("a", more=',LANGUAGE="en"'), sound("b"), stream("v", 1, AAC, 'AUDIO="g"')]
        master = parse_hls("\n".join(["#EXTM3U", *lines]))
        assert isinstance(master, MasterPlaylist)
        with pytest.raises(PlayError, match=r"no #audio=it in it, but 1 \(en\), 2") as caught:
            best_audio(master, "it")
        assert caught.value.failure.code == FailureCode.NO_AUDIO_STREAM

    def test_a_master_playlist_without_streams(self) -> None:
        assert refusal("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n") == FailureCode.EMPTY
