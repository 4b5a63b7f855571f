"""M3U, PLS, XSPF and CUE sheets: what is read from them, where their entries lead, and which of them are let in."""

import contextlib
import logging
import os
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.fetching import IMPATIENT, QUICK, failure_of, opened_by, opener, playlist_of
from tests.support.media_server import MediaServer, drip, media, raw, redirect, stall, status
from tests.support.radio_server import radio
from tonearm.config.patterns import compile_pattern
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.play_queue import LeftOut
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track_info import SourceFacts
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.lists.entries import entry_uri
from tonearm.sources.lists.listed import Listed
from tonearm.sources.lists.parsing import parse_listing
from tonearm.sources.playlist import linked_uri, looks_like_playlist, may_be_playlist

SPACES = 'xmlns="http://xspf.org/ns/0/" version="1"'


def xspf(*tracks: str, before: str = "") -> bytes:
    body = "".join(f"<track>{track}</track>" for track in tracks)
    head = f'<?xml version="1.0" encoding="UTF-8"?>{before}'
    return f"{head}<playlist {SPACES}><trackList>{body}</trackList></playlist>".encode()


async def entries_of(uri: str, settings: FetchSettings = QUICK, **options: Any) -> list[tuple[str, str | None]]:
    playlist = await playlist_of(uri, settings, **options)
    return [(entry.uri.given, entry.title) for entry in playlist.entries]


def listed(reference: str, title: str | None, length_ms: int = 0) -> Listed:
    return Listed(reference, title, length_ms=length_ms)


class TestFormats:
    @pytest.mark.parametrize(
        ("data", "entries"),
        [
            (b"a.mp3\nb.mp3", [("a.mp3", None), ("b.mp3", None)]),
            (
                b"#EXTM3U\r\n#EXTINF:12,A - B\r\na.mp3\r\n\r\n# c\r\nb.mp3\r\n",
                [("a.mp3", "A - B", 12_000), ("b.mp3", None, 0)],
            ),
            (b"#EXTM3U\r#EXTINF:-1 , T \ra b.mp3\r", [("a b.mp3", "T")]),
            (b'#EXTINF:-1 tvg-name="One, two" group="x",Three, four\nhttp://a/', [("http://a/", "Three, four")]),
            (b'#EXTINF:1 a="b,Title\nx', [("x", "Title", 1000)]),
            (b"#EXTINF:1\nx", [("x", None, 1000)]),
            (b"#EXTINF:1,first\n#EXTINF:1,second\nx\ny", [("x", "second", 1000), ("y", None)]),
            ("\ufeff#EXTM3U\n#EXTINF:1,Ä\nö.mp3".encode(), [("ö.mp3", "Ä", 1000)]),
            ("#EXTM3U\n#EXTINF:1,Ä\nö.mp3".encode("latin-1"), [("ö.mp3", "Ä", 1000)]),
            ("a\x85b\u2028c.mp3".encode(), [("a\x85b\u2028c.mp3", None)]),
            (b"#EXTM3U\n#EXTINF:1,a\x00b\x1b[2J\nx", [("x", "a b [2J", 1000)]),
            (b"#EXTINF:123.45,a\nx\n#extinf: 07 a=1,b\ny", [("x", "a", 123_450), ("y", "b", 7000)]),
            (
                b"#EXTINF:0,a\nx\n#EXTINF:1.2.3,b\ny\n#EXTINF:" + b"9" * 400 + b",c\nz",
                [("x", "a"), ("y", "b"), ("z", "c")],
            ),
            (b"", []),
            # PLS
            (
                b"[playlist]\nFile1=a\nTitle1=One\nLength1=5\nFile2=b\nNumberOfEntries=2\n",
                [("a", "One", 5000), ("b", None)],
            ),
            (b"[Playlist]\r\nTITLE10=T\r\nfile10=j\r\nFile9 = i\r\n", [("i", None), ("j", "T")]),
            ("\ufeff[playlist]\nFile1=ö\n".encode(), [("ö", None)]),
            (b"[playlist]\nFile1=a=b?c=d\nFile1=again\nFile2=\nFilex=y\nFile99999999999=z\n", [("a=b?c=d", None)]),
            (b"[playlist]\nlength2=-1\nFile2=b\nLength1=61\nfile1=a\n", [("a", None, 61_000), ("b", None)]),
            (b"[playlist]\n", []),
        ],
    )
    def test_m3u_and_pls(self, data: bytes, entries: list[tuple[Any, ...]]) -> None:
        assert list(parse_listing(data).entries) == [listed(*entry) for entry in entries]

    @pytest.mark.parametrize(
        ("data", "entries"),
        [
            (xspf("<location>a%20b.mp3</location><title>A &amp; B</title>"), [("a%20b.mp3", "A & B")]),
            (xspf("<title>only</title>", "<location> x\n</location><location>y</location>"), [("x", None)]),
            (xspf("<location></location><location>y</location>"), [("y", None)]),
            (xspf("<extension><location>no</location></extension><location>yes</location>"), [("yes", None)]),
            (b"<playlist><trackList><track><location>x</location></track></trackList></playlist>", [("x", None)]),
            (xspf("<location>?</location>").replace(b"UTF-8", b"ISO-8859-1").replace(b">?<", b">\xf6<"), [("ö", None)]),
            (xspf("<location>x</location><duration> 61500 </duration>", "<location>y</location>"),
             [("x", None, 61_500), ("y", None)]),
            (xspf("<location>x</location><duration>-5</duration>"), [("x", None)]),
            (xspf(), []),
        ],
    )  # fmt: skip
    def test_xspf(self, data: bytes, entries: list[tuple[Any, ...]]) -> None:
        assert list(parse_listing(data).entries) == [replace(listed(*entry), is_uri=True) for entry in entries]

    @pytest.mark.parametrize(
        "text",
        [
            "x\n" * 500_000,
            "#EXTINF:" + '"' * 1_000_000 + "\nx",
            "[playlist]\n" + "".join(f"File{number}=x\n" for number in range(80_000)),
            "<playlist>" + "<a>" * 300_000,
            *(
                f"x\n{sheet}\nTRACK 01 AUDIO\n"
                for sheet in (
                    "\n" * 1_000_000,
                    " " * 1_000_000 + "x",
                    "TRACK" + " " * 1_000_000,
                    "TRACK 01 AUDIO\n" * 65_000,
                    'FILE "' + "a" * 1_000_000 + "\nTRACK 01 AUDIO\nINDEX 01 00:00:00",
                )
            ),
        ],
        ids=lambda text: text[:12],
    )
    def test_a_long_or_deep_one_takes_no_time_to_speak_of(self, text: str) -> None:
        began_s = time.process_time()
        with contextlib.suppress(PlayError):
            parse_listing(text.encode())
        assert time.process_time() - began_s < 2


class TestLinks:
    @pytest.mark.parametrize(
        ("playlist", "reference", "is_uri", "expected"),
        [
            ("http://a.example/x/list.m3u?k=v", "b.mp3", False, "http://a.example/x/b.mp3"),
            ("http://a.example/x/list.m3u", "../b c.mp3?q=1", False, "http://a.example/b c.mp3?q=1"),
            ("http://a.example/x/list.m3u", "/b.mp3", False, "http://a.example/b.mp3"),
            ("https://a.example/list.m3u", "//c.example/b.mp3", False, "https://c.example/b.mp3"),
            ("https://a.example/list.m3u", " HTTP://c.example/b.mp3 ", False, "HTTP://c.example/b.mp3"),
            ("/music/list.m3u", "sub/b#1 50%.mp3", False, "/music/sub/b#1 50%.mp3"),
            ("/music/list.xspf", "sub/b%231.mp3", True, "/music/sub/b#1.mp3"),
            ("/music/list.xspf", "f%FCr.mp3", True, "file:///music/f%FCr.mp3"),
            ("/music/list.m3u", "/other/b.mp3", False, "/other/b.mp3"),
            ("file:///music/list.m3u", "b.mp3", False, "/music/b.mp3"),
            ("/music/list.m3u", "http://a.example/b.mp3", False, "http://a.example/b.mp3"),
            ("/music/list.xspf", "file:///other/b.mp3", True, "file:///other/b.mp3"),
        ],
    )
    def test_where_entries_lead(self, playlist: str, reference: str, is_uri: bool, expected: str) -> None:
        assert linked_uri(parse_source_uri(playlist), reference, is_uri=is_uri) == expected

    @pytest.mark.parametrize(
        "reference",
        ["file:///etc/passwd", "FILE:/etc/passwd", "file:x", "C:\\music\\a.mp3", "ftp://a/b", "data:,x", "concat:a|b"],
    )
    def test_from_the_network_nothing_leads_to_files(self, reference: str) -> None:
        with pytest.raises(PlayError) as caught:
            linked_uri(parse_source_uri("http://a.example/list.m3u"), reference, is_uri=False)
        assert caught.value.failure.code == FailureCode.SOURCE_REFUSED


class TestRecognition:
    @pytest.mark.parametrize(
        ("head", "name", "content_type", "expected"),
        [
            (b"#EXTM3U\n", "listen", "text/plain", True),
            (b"\xef\xbb\xbf#EXTM3U\n", "listen", None, True),
            (b"[playlist]\n", "listen", "application/octet-stream", True),
            (b'<?xml version="1.0"?>\n<playlist xmlns="x">', "listen", "text/xml", True),
            (b"a.mp3\n", "list.M3U", "text/plain", True),
            (b"a.mp3\n", "list", "audio/x-mpegurl; charset=utf-8", True),
            (b"a.mp3\n", "list", "text/plain", False),
            (b"<html>", "list.m3u", "text/html", False),
            (b"", "list.m3u", None, False),
            (b"\xff\xfb\x90\x44\x00\x00", "list.m3u", "audio/x-mpegurl", False),
            (b"ID3\x04\x00", "song.mp3", None, False),
            (b"REM x", "a.CUE", None, True),
            (b"REM x", "a", "application/x-cue", True),
            (b"REM x", "a.txt", "text/plain", False),
            (b"<html>", "a.cue", None, False),
        ],
    )
    def test_by_content_then_by_name_or_type(
        self, head: bytes, name: str, content_type: str | None, expected: bool
    ) -> None:
        assert looks_like_playlist(head, name, content_type) is expected

    @pytest.mark.parametrize(
        ("name", "content_type", "expected"),
        [
            ("song.mp3", "audio/mpeg", False),
            ("film", "video/mp4", False),
            ("song", "application/ogg", False),
            ("listen", "audio/x-scpls", True),
            ("listen.pls", "audio/mpeg", True),
            ("listen", None, True),
            ("listen", "application/octet-stream", True),
        ],
    )
    def test_sound_is_not_looked_into(self, name: str, content_type: str | None, expected: bool) -> None:
        assert may_be_playlist(name, content_type) is expected

    @pytest.mark.parametrize(
        ("uri", "expected"),
        [
            ("http://a.example/x.m3u", True),
            ("http://a.example/x.PLS?y=z#w", True),
            ("/music/x.xspf", True),
            ("/music/x.cue", True),
            ("http://a.example/x.m3u8", False),
            ("http://a.example/x?file=y.m3u", False),
            ("http://a.example/m3u", False),
        ],
    )
    def test_what_is_fetched_before_a_request_is_answered(self, uri: str, expected: bool) -> None:
        assert parse_source_uri(uri).names_track_list is expected


CUE = """REM GENRE Jazz
PERFORMER "The Band"
TITLE "The Album"
FILE "side one?#.flac" WAVE
  TRACK 01 AUDIO
    TITLE "One"
    INDEX 01 00:00:00
  TRACK 02 AUDIO
    TITLE "Two"
    PERFORMER "A Guest"
    INDEX 00 03:10:00
    INDEX 01 03:12:37
  TRACK 03 MODE1/2352
    INDEX 01 04:00:00
FILE two.mp3 MP3
  TRACK 04 AUDIO
    INDEX 01 00:02:00
"""
CUE_PARTS = [
    ("side one?#.flac", "One", "The Band", 0, 192_493),
    ("side one?#.flac", "Two", "A Guest", 192_493, 240_000),
    ("two.mp3", None, "The Band", 2000, None),
]


class TestCueSheets:
    @pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    def test_each_audio_track_is_a_part_of_its_file(self, mark: bytes, line_end: str) -> None:
        listing = parse_listing(mark + CUE.replace("\n", line_end).encode())
        assert [
            (part.reference, part.title, part.author, part.start_ms, part.end_ms) for part in listing.entries
        ] == CUE_PARTS
        assert all(part.is_part for part in listing.entries)
        assert [part.length_ms for part in listing.entries] == [192_493, 240_000 - 192_493, 0]

    def test_a_track_of_a_sheet_says_where_it_begins_and_ends(self, tmp_path: Path) -> None:
        for place, whole in (
            (str(tmp_path / "x.cue"), str(tmp_path / "side one?#.flac")),
            ("http://a.example/b/x.cue", "http://a.example/b/side%20one%3F%23.flac"),
        ):
            uris = [entry_uri(parse_source_uri(place), part) for part in parse_listing(CUE.encode()).entries]
            assert uris[:2] == [f"{whole}#t=0.000,192.493", f"{whole}#t=192.493,240.000"]
            parsed = parse_source_uri(uris[1])
            assert (parsed.start_ms, parsed.end_ms, parsed.given) == (192_493, 240_000, uris[1])
            assert parsed.opened == whole

    def test_names_may_have_any_words_and_quotes_in_them(self) -> None:
        sheet = CUE.replace("The Album", "SOUNDTRACK no. 1").replace('"One"', '"One (12" Mix)"')
        listing = parse_listing(sheet.encode())
        assert (listing.name, listing.entries[0].title) == ("SOUNDTRACK no. 1", 'One (12" Mix)')

    async def test_its_entries_are_tracks_with_their_own_names(self, tmp_path: Path) -> None:
        (tmp_path / "x.cue").write_text(CUE)
        playlist = await playlist_of(str(tmp_path / "x.cue"))
        first, second, third = playlist.tracks(uuid.uuid4)
        assert (first.info.title, first.info.author, first.start_ms, first.end_ms) == ("One", "The Band", 0, 192_493)
        tagged = second.with_facts(SourceFacts(length_ms=300_000, title="The Album", author="Everybody"))
        assert (tagged.info.title, tagged.info.author, tagged.info.length_ms) == ("Two", "A Guest", 300_000)
        assert third.with_facts(SourceFacts(title="Four")).info.title == "Four"

    @pytest.mark.parametrize(
        "sheet",
        [
            "FILE a.wav WAVE\nTRACK 01 AUDIO\nINDEX 01 00:05:00\nTRACK 02 AUDIO\nINDEX 01 00:05:00\n",
            "FILE a.wav WAVE\nTRACK 01 AUDIO\nTRACK 02 AUDIO\nINDEX 01 00:05:00\n",
            "TRACK 01 AUDIO\nINDEX 01 00:05:00\nFILE a.wav WAVE\nTRACK 02 AUDIO\nINDEX 01 00:05:00\n",
        ],
    )
    def test_what_makes_no_sense_in_a_sheet_is_passed_over(self, sheet: str) -> None:
        entries = parse_listing(sheet.encode()).entries
        assert {(part.reference, part.start_ms, part.end_ms) for part in entries} == {("a.wav", 5000, None)}


class TestOpening:
    async def test_over_http_after_a_redirect(self, server: MediaServer) -> None:
        server.serve("/deep/list", media(b"#EXTM3U\n#EXTINF:1,One\na.mp3\n../b.mp3\n", content_type="text/plain"))
        assert await entries_of(server.serve("/go", redirect("/deep/list"))) == [
            (server.url("/deep/a.mp3"), "One"),
            (server.url("/b.mp3"), None),
        ]

    @pytest.mark.parametrize(
        ("content_type", "body"),
        [
            ("audio/x-mpegurl", b"#EXTM3U\n/a.mp3\n"),
            ("audio/x-mpegurl", b"/a.mp3\n"),
            ("audio/x-scpls; charset=utf-8", b"[playlist]\nFile1=/a.mp3\n"),
        ],
    )
    @pytest.mark.parametrize("status_line", ["ICY 200 OK", "HTTP/1.0 200 OK"])
    async def test_a_list_of_a_radio_server_is_no_radio(
        self, server: MediaServer, status_line: str, content_type: str, body: bytes
    ) -> None:
        """mpv reads the list, whatever `icy-` headers are beside it."""
        head = f"{status_line}\r\nicy-name: A\r\nContent-Type: {content_type}\r\n\r\n".encode()
        assert await entries_of(server.serve("/listen", raw(head + body))) == [(server.url("/a.mp3"), None)]
        station = server.serve("/radio", radio(bytes(range(256)), status_line=status_line, content_type=content_type))
        async with opener() as source_opener:
            opened = await opened_by(source_opener, station)
            assert opened.is_live
            assert await opened.reader.read_at(0, 9) == bytes(range(9))
            await opened.close()

    async def test_local_ones_lead_to_files_and_to_the_network(self, tmp_path: Path) -> None:
        (tmp_path / "list.pls").write_text("[playlist]\nFile1=a.ogg\nFile2=http://a.example/b\nFile3=file:///c.ogg\n")
        assert await entries_of(str(tmp_path / "list.pls")) == [
            (f"{tmp_path}/a.ogg", None),
            ("http://a.example/b", None),
            ("file:///c.ogg", None),
        ]

    async def test_a_file_that_is_only_called_so(self, tmp_path: Path) -> None:
        (tmp_path / "song.m3u").write_bytes(b"\xff\xfb\x90\0" * 100)
        async with opener() as source_opener:
            opened = await opened_by(source_opener, str(tmp_path / "song.m3u"))
            descriptor = opened.reader.take_descriptor()
            assert descriptor is not None
            assert len(os.read(descriptor, 1000)) == 400
            os.close(descriptor)
            await opened.close()

    async def test_a_source_that_is_none_is_read_from_its_start(self, server: MediaServer) -> None:
        body = bytes(range(256)) * 40
        async with opener() as source_opener:
            for name, kind in (("/a.m3u", "audio/x-mpegurl"), ("/b", "application/octet-stream"), ("/c", "text/html")):
                opened = await opened_by(
                    source_opener, server.serve(name, media(body, content_type=kind, ranges=False))
                )
                assert await opened.reader.read_at(0, 100) == body[:100]
                await opened.close()
        assert len(server.requests) == 3

    async def test_refused_entries_are_left_out_and_named(
        self, server: MediaServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        refused = ("file:///etc/passwd", "http://bad.example/b?token=secret", "http://[", "ytsearch:x")
        uri = server.serve("/list.m3u", media("\n".join(("a.mp3", "x" * 50_000, *refused, "c.mp3")).encode()))
        with caplog.at_level(logging.WARNING):
            entries = await entries_of(uri, blocked=[compile_pattern("bad")])
        assert [entry[0] for entry in entries] == [server.url("/a.mp3"), server.url("/c.mp3")]
        assert all(uri.partition("?")[0] in caplog.text for uri in refused)
        assert "secret" not in caplog.text
        assert len(caplog.text) < 5000

    async def test_files_when_they_are_not_allowed(self, tmp_path: Path) -> None:
        inside = tmp_path / "in"
        inside.mkdir()
        (inside / "list.m3u").write_text("a.mp3\n../b.mp3\nsub/../c.mp3\n/etc/passwd\n")
        entries = await entries_of(str(inside / "list.m3u"), files=(str(inside),))
        assert [entry[0] for entry in entries] == [f"{inside}/a.mp3", f"{inside}/sub/../c.mp3"]

    async def test_at_most_five_hundred(self, server: MediaServer, caplog: pytest.LogCaptureFixture) -> None:
        body = b"".join(b"%d.mp3\n" % number for number in range(100_000))
        opened = await playlist_of(server.serve("/x.m3u", media(body)))
        assert len(opened.entries) == 500
        reason = "Only the first 500 of the playlist's 100000 entries are taken."
        assert opened.left_out == LeftOut(99_500, (reason,))
        assert "100000" in caplog.text

    @pytest.mark.parametrize(
        ("body", "count"),
        [
            (b"#EXTM3U\n" + b"#EXTINF:10,A station\nhttp://a.example/stream\n" * 32_000, 500),
            (b"[playlist]\n" + b"".join(b"File%d=http://a.example/%d\n" % (n, n) for n in range(1, 60_000)), 500),
            (xspf(*["<location>http://a.example/x</location>" + "<x/>" * 20] * 12_000), 500),
            (xspf(*["<location>http://a.example/x</location><annotation>" + "x" * 9000 + "</annotation>"] * 160), 112),
            (b"<?xml version='1.0'?>\n" + xspf(*["<location>http://a.example/x</location>"] * 50_000)[38:], 500),
            (b"a.mp3\r" * 300_000, 500),
            (b"a.mp3\n" * 9_000_000, 500),
            (b"a.mp3\n" + b"x" * 9_000_000, 1),
        ],
    )
    async def test_of_a_large_one_the_beginning_counts(self, server: MediaServer, body: bytes, count: int) -> None:
        """Lists of stations have megabytes; VLC and mpv take all."""
        opened = await playlist_of(server.serve("/list.m3u", media(body)))
        assert len(opened.entries) >= count
        assert "1024 KiB" in opened.left_out.reasons[-1]
        assert server.replies[0].sent_bytes < 12_000_000

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
    @pytest.mark.parametrize("before", range(4))
    async def test_of_a_large_one_no_half_character_or_line_is_read(
        self, server: MediaServer, tmp_path: Path, before: int, encoding: str
    ) -> None:
        text = "x" * before + "\n#EXTINF:1,日本" + "日本" * 4000 + "\nhttp://a.example/日本\n"
        body = ("#EXTM3U\n" + text * 100).encode(encoding)
        (tmp_path / "list.m3u").write_bytes(body)
        for uri in (server.serve("/list.m3u", media(body)), str(tmp_path / "list.m3u")):
            opened = await playlist_of(uri)
            ends = {entry.uri.given.rpartition("/")[2] for entry in opened.entries}
            assert ends == {"日本"} | ({"x" * before} if before else set())
            assert {entry.title for entry in opened.entries} <= {"日本" * 500, None}

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (b"#EXTM3U\n", FailureCode.EMPTY),
            (b"#EXTM3U\nfile:///a\nC:\\b.mp3\n", FailureCode.EMPTY),
            (xspf("<location>x</location>", before='<!DOCTYPE playlist [<!ENTITY a "a">]>'), FailureCode.CORRUPT),
            (b"#EXTM3U\n#EXT-X-VERSION:3\n" + b"a.ts\n" * 8_000_000, FailureCode.LIMIT_EXCEEDED),
        ],
    )
    async def test_what_gives_nothing(self, server: MediaServer, body: bytes, code: FailureCode) -> None:
        assert (await failure_of(server.serve("/list.m3u", media(body)))).code == code
        assert server.replies[0].sent_bytes < 20_000_000

    async def test_one_that_comes_drop_by_drop(self, server: MediaServer) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: audio/x-scpls\r\n\r\n[playlist]\n" + b"\n" * 1100

        async def answer(request: Any, reply: Any) -> None:
            await reply.send(head)
            await drip(b"File1=a\n" * 1000, 0.02)(request, reply)

        told = await failure_of(server.serve("/list.pls", answer), IMPATIENT)
        assert (told.code, "did not arrive" in told.message) == (FailureCode.TIMEOUT, True)


class TestBeforeTheAnswer:
    async def test_entries_or_nothing(self, server: MediaServer, tmp_path: Path) -> None:
        hls = b"#EXTM3U\n#EXT-X-ENDLIST\n#EXTINF:1,\na.ts\n"
        (tmp_path / "song.pls").write_bytes(b"\xff\xfb\x90\0" * 100)
        settings = FetchSettings(playlist_limit_s=0.2)
        async with opener(settings=settings) as source_opener:
            found = await source_opener.playlist(parse_source_uri(server.serve("/list.m3u", media(b"a.mp3"))))
            assert found is not None
            assert [entry.uri.given for entry in found.entries] == [server.url("/a.mp3")]
            for uri in (
                server.serve("/gone.m3u", status(404)),
                server.serve("/slow.m3u", stall()),
                server.serve("/sound.m3u", media(b"\xff\xfb\x90\0" * 100)),
                server.serve("/hls.m3u", media(hls)),
                str(tmp_path / "song.pls"),
                str(tmp_path / "missing.pls"),
            ):
                assert await source_opener.playlist(parse_source_uri(uri)) is None
        await server.all_gone()
