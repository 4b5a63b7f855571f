"""M3U, PLS, XSPF and CUE sheets: what is read from them, where their entries lead, and which of them are let in."""

import logging
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.fetching import IMPATIENT, QUICK, failure_of, opened, opener, playlist_of
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
from tonearm.sources.playlist import linked_uri, looks_like_playlist


def xspf(*tracks: str) -> bytes:
    body = "".join(f"<track>{track}</track>" for track in tracks)
    head = '<?xml version="1.0" encoding="UTF-8"?><playlist xmlns="http://xspf.org/ns/0/" version="1">'
    return f"{head}<trackList>{body}</trackList></playlist>".encode()


async def entries_of(uri: str, **options: Any) -> list[tuple[str, str | None]]:
    playlist = await playlist_of(uri, QUICK, **options)
    return [(entry.uri.given, entry.title) for entry in playlist.entries]


M3U = b"""#EXTM3U\r
#EXTINF:12,A - B\r
a.mp3\r
\r
# c\r
b.mp3
#EXTINF:-1 tvg-name="One, two" group="x" , Three, four\x20
http://a/
#EXTINF:1 a="b,Title
x
#extinf: 07
y z
#EXTINF:1,first
#EXTINF:123.45,a\x00b\x1b[2J
z
#EXTINF:1.2.3,t
a\xc2\x85b\xe2\x80\xa8c"""
PLS = """\ufeff[Playlist]\r
TITLE10=T\r
file10=j\r
File9 = ö=b?c=d\r
File9=again
length9=-1
Length10=61
File2=
Filex=y
File99999999999=z
NumberOfEntries=2
"""


@pytest.mark.parametrize("line_end", [b"\n", b"\r"])
def test_m3u(line_end: bytes) -> None:
    entries = parse_listing(M3U.replace(b"\n", line_end)).entries
    assert [one.reference for one in entries] == ["a.mp3", "b.mp3", "http://a/", "x", "y z", "z", "a\x85b\u2028c"]
    assert [one.title for one in entries] == ["A - B", None, "Three, four", "Title", None, "a b [2J", "t"]
    assert [one.length_ms for one in entries] == [12_000, 0, 0, 1000, 7000, 123_450, 0]


def test_pls() -> None:
    assert parse_listing(PLS.encode()).entries == (Listed("ö=b?c=d"), Listed("j", "T", length_ms=61_000))


def test_xspf() -> None:
    tracks = (
        "<location>a%20b.mp3</location><title>A &amp; B</title><duration> 61500 </duration>",
        "<title>only</title>",
        "<location> x\n</location><location>y</location><duration>-5</duration>",
        "<extension><location>no</location></extension><location>\xf6</location>",
    )
    listing = parse_listing(xspf(*tracks).decode().replace("UTF-8", "ISO-8859-1").encode("latin-1"))
    assert listing.entries == (
        Listed("a%20b.mp3", "A & B", length_ms=61_500, is_uri=True),
        Listed("x", is_uri=True),
        Listed("ö", is_uri=True),
    )


def test_where_entries_lead() -> None:
    for playlist, reference, is_uri, expected in (
        ("http://a.example/x/list.m3u?k=v", "../b c.mp3?q=1", False, "http://a.example/b c.mp3?q=1"),
        ("https://a.example/list.m3u", "//c.example/b.mp3", False, "https://c.example/b.mp3"),
        ("https://a.example/list.m3u", " HTTP://c.example/b.mp3 ", False, "HTTP://c.example/b.mp3"),
        ("/music/list.m3u", "sub/b#1 50%.mp3", False, "/music/sub/b#1 50%.mp3"),
        ("/music/list.xspf", "sub/b%231.mp3", True, "/music/sub/b#1.mp3"),
        ("/music/list.m3u", "http://a.example/b.mp3", False, "http://a.example/b.mp3"),
        ("/music/list.xspf", "file:///other/b.mp3", True, "file:///other/b.mp3"),
    ):
        assert linked_uri(parse_source_uri(playlist), reference, is_uri=is_uri) == expected


def test_from_the_network_nothing_leads_to_files() -> None:
    for reference in ("file:///etc/passwd", "FILE:/etc/x", "file:x", "C:\\a.mp3", "ftp://a/b", "data:,x", "concat:a|b"):
        with pytest.raises(PlayError) as caught:
            linked_uri(parse_source_uri("http://a.example/list.m3u"), reference, is_uri=False)
        assert caught.value.failure.code == FailureCode.SOURCE_REFUSED


def test_a_list_is_known_by_its_content_then_by_its_name_or_type() -> None:
    for head, name, content_type, expected in (
        (b"[playlist]\n", "listen", "application/octet-stream", True),
        (b"a.mp3\n", "list.M3U", "text/plain", True),
        (b"a.mp3\n", "list", "audio/x-mpegurl; charset=utf-8", True),
        (b"a.mp3\n", "list", "text/plain", False),
        (b"<html>", "list.m3u", "text/html", False),
        (b"", "list.m3u", None, False),
        (b"\xff\xfb\x90\x44\x00\x00", "list.m3u", "audio/x-mpegurl", False),
        (b"REM x", "a.CUE", None, True),
        (b"REM x", "a", "application/x-cue", True),
    ):
        assert looks_like_playlist(head, name, content_type) is expected


CUE = """REM GENRE Jazz
PERFORMER "The Band"
TITLE "SOUNDTRACK no. 1"
FILE "side one?#.flac" WAVE
  TRACK 01 AUDIO
    TITLE "One (12" Mix)"
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
    ("side one?#.flac", 'One (12" Mix)', "The Band", 0, 192_493, 192_493),
    ("side one?#.flac", "Two", "A Guest", 192_493, 240_000, 240_000 - 192_493),
    ("two.mp3", None, "The Band", 2000, None, 0),
]


@pytest.mark.parametrize(("mark", "line_end"), [(b"", "\n"), (b"\xef\xbb\xbf", "\r\n"), (b"", "\r")])
def test_each_audio_track_of_a_sheet_is_a_part_of_its_file(mark: bytes, line_end: str) -> None:
    listing = parse_listing(mark + CUE.replace("\n", line_end).encode())
    assert listing.name == "SOUNDTRACK no. 1"
    for one, expected in zip(listing.entries, CUE_PARTS, strict=True):
        assert (one.reference, one.title, one.author, one.start_ms, one.end_ms, one.length_ms) == expected


async def test_tracks_of_a_sheet_have_their_own_names_and_say_where_they_begin_and_end(tmp_path: Path) -> None:
    (tmp_path / "x.cue").write_text(CUE)
    playlist = await playlist_of(str(tmp_path / "x.cue"))
    first, second, third = playlist.tracks(uuid.uuid4)
    assert (first.info.author, first.start_ms, first.end_ms) == ("The Band", 0, 192_493)
    tagged = second.with_facts(SourceFacts(length_ms=300_000, title="Album", author="Everybody"))
    assert (tagged.info.title, tagged.info.author, tagged.info.length_ms) == ("Two", "A Guest", 300_000)
    assert third.with_facts(SourceFacts(title="Four")).info.title == "Four"
    whole = "http://a.example/b/side%20one%3F%23.flac"
    for found, file in (
        (second.uri.given, str(tmp_path / "side one?#.flac")),
        (entry_uri(parse_source_uri("http://a.example/b/x.cue"), parse_listing(CUE.encode()).entries[1]), whole),
    ):
        assert found == f"{file}#t=192.493,240.000"
        parsed = parse_source_uri(found)
        assert (parsed.start_ms, parsed.end_ms, parsed.opened) == (192_493, 240_000, file)


async def test_a_list_of_a_radio_server_is_no_radio(server: MediaServer) -> None:
    """mpv reads the list, whatever `icy-` headers are beside it."""
    head = b"ICY 200 OK\r\nicy-name: A\r\nContent-Type: audio/x-mpegurl\r\n\r\n"
    assert await entries_of(server.serve("/listen", raw(head + b"/a.mp3\n"))) == [(server.url("/a.mp3"), None)]
    async with opened(server.serve("/radio", radio(bytes(256), content_type="audio/x-mpegurl"))) as source:
        assert source.is_live
        assert await source.reader.read_at(0, 9) == bytes(9)


async def test_a_source_that_is_none_is_read_from_its_start(server: MediaServer, tmp_path: Path) -> None:
    body = bytes(range(256)) * 40
    (tmp_path / "song.m3u").write_bytes(body)
    for name, kind in (("/a.m3u", "audio/x-mpegurl"), ("/b", "application/octet-stream"), ("/c", "text/html")):
        async with opened(server.serve(name, media(body, content_type=kind, ranges=False))) as source:
            assert await source.reader.read_at(0, 100) == body[:100]
    assert len(server.requests) == 3
    async with opened(str(tmp_path / "song.m3u")) as source:
        descriptor = source.reader.take_descriptor()
        assert descriptor is not None
        with os.fdopen(descriptor, "rb") as file:
            assert file.read() == body


async def test_refused_entries_are_left_out_and_named(server: MediaServer, caplog: pytest.LogCaptureFixture) -> None:
    refused = ("file:///etc/passwd", "http://bad.example/b?token=secret", "http://[", "ytsearch:x")
    lines = ("#EXTINF:1,One", "a.mp3", "x" * 50_000, *refused, "../c.mp3")
    server.serve("/deep/list.m3u", media("\n".join(lines).encode()))
    with caplog.at_level(logging.WARNING):
        entries = await entries_of(server.serve("/go", redirect("/deep/list.m3u")), blocked=[compile_pattern("bad")])
    assert entries == [(server.url("/deep/a.mp3"), "One"), (server.url("/c.mp3"), None)]
    assert all(uri.partition("?")[0] in caplog.text for uri in refused)
    assert "secret" not in caplog.text
    assert len(caplog.text) < 5000


async def test_at_most_five_hundred(server: MediaServer) -> None:
    body = b"".join(b"%d.mp3\n" % number for number in range(100_000))
    found = await playlist_of(server.serve("/x.m3u", media(body)))
    reason = "Only the first 500 of the playlist's 100000 entries are taken."
    assert (len(found.entries), found.left_out) == (500, LeftOut(99_500, (reason,)))


async def test_of_a_large_one_the_beginning_counts(server: MediaServer) -> None:
    """Lists of stations have megabytes; VLC and mpv take all."""
    long_track = "<location>http://a.example/x</location><annotation>" + "x" * 9000 + "</annotation>"
    for body, count in (
        (b"[playlist]\n" + b"".join(b"File%d=http://a.example/%d\n" % (n, n) for n in range(1, 60_000)), 500),
        (xspf(*[long_track] * 160), 112),
        (b"a.mp3\r" * 300_000, 500),
        (b"a.mp3\n" * 9_000_000, 500),
        (b"a.mp3\n" + b"x" * 9_000_000, 1),
    ):
        found = await playlist_of(server.serve("/list.m3u", media(body)))
        assert len(found.entries) >= count
        assert "1024 KiB" in found.left_out.reasons[-1]
        assert server.replies[-1].sent_bytes < 12_000_000


async def test_a_list_that_comes_drop_by_drop(server: MediaServer) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: audio/x-scpls\r\n\r\n[playlist]\n" + b"\n" * 1100

    async def answer(request: Any, reply: Any) -> None:
        await reply.send(head)
        await drip(b"File1=a\n" * 1000, 0.02)(request, reply)

    told = await failure_of(server.serve("/list.pls", answer), IMPATIENT)
    assert (told.code, "did not arrive" in told.message) == (FailureCode.TIMEOUT, True)


async def test_before_the_answer_there_are_entries_or_nothing(server: MediaServer, tmp_path: Path) -> None:
    hls = b"#EXTM3U\n#EXT-X-ENDLIST\n#EXTINF:1,\na.ts\n"
    (tmp_path / "song.pls").write_bytes(b"\xff\xfb\x90\0" * 100)
    async with opener(settings=FetchSettings(playlist_limit_s=0.2)) as hasty:
        assert await hasty.playlist(parse_source_uri(server.serve("/slow.m3u", stall()))) is None
    async with opener() as source_opener:
        found = await source_opener.playlist(parse_source_uri(server.serve("/list.m3u", media(b"a.mp3"))))
        assert found is not None
        assert [entry.uri.given for entry in found.entries] == [server.url("/a.mp3")]
        for uri in (
            server.serve("/gone.m3u", status(404)),
            server.serve("/sound.m3u", media(b"\xff\xfb\x90\0" * 100)),
            server.serve("/hls.m3u", media(hls)),
            str(tmp_path / "song.pls"),
            str(tmp_path / "missing.pls"),
        ):
            assert await source_opener.playlist(parse_source_uri(uri)) is None
    await server.all_gone()
