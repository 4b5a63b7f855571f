"""Podcast feeds and ASX are playlists: what is read from them, and what is refused."""

import contextlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.fetching import failure_of, playlist_of
from tests.support.media_server import MediaServer, media
from tonearm.core.failure import FailureCode, PlayError
from tonearm.sources.lists.listed import Listed
from tonearm.sources.lists.parsing import parse_listing
from tonearm.sources.playlist import looks_like_playlist

ITUNES = 'xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:media="http://search.yahoo.com/mrss/"'


def rss(*items: str, channel: str = "<title>The Show</title>") -> str:
    body = "".join(f"<item>{item}</item>" for item in items)
    return f'<?xml version="1.0"?><rss version="2.0" {ITUNES}><channel>{channel}{body}</channel></rss>'


def atom(*entries: str) -> str:
    body = "".join(f"<entry>{entry}</entry>" for entry in entries)
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>The Show</title>{body}</feed>'


def asx(*entries: str, before: str = "") -> str:
    return f'<ASX version="3.0">{before}' + "".join(f"<ENTRY>{entry}</ENTRY>" for entry in entries) + "</ASX>"


ONE = '<enclosure url="http://a.example/1.mp3" length="1" type="audio/mpeg"/>'
FIRST = Listed("http://a.example/1.mp3", is_uri=True)


def first(title: str | None = None, author: str = "", length_ms: int = 0) -> list[Listed]:
    return [replace(FIRST, title=title, author=author, length_ms=length_ms)]


COVER = "http://a.example/cover.jpg"
LINK = '<link rel="enclosure" type="audio/ogg" href="http://a.example/1.mp3"/>'
SONG = "<location>http://a.example/1.mp3</location>"
PICTURED = '<itunes:image href="http://a.example/2.jpg"/>'
# RSS 2.0 and Apple's elements for podcasts; VLC, mpv (by yt-dlp) and every podcast player read these so.
SHOWS: list[tuple[str | bytes, list[Listed]]] = [
    (rss(f"{ONE}<itunes:duration>1:02:03</itunes:duration>"), first(None, "", 3_723_000)),
    (rss(f"{ONE}<itunes:duration>02:03</itunes:duration>"), first(None, "", 123_000)),
    (rss(f"{ONE}<itunes:author>Her</itunes:author><itunes:title>Two</itunes:title>"), first("Two", "Her")),
    (rss("<title>News</title><link>http://a.example/</link>", ONE), first()),
    (rss('<enclosure url="http://a.example/c.pdf" type="application/pdf"/>', ONE), first()),
    (rss('<media:content url=" http://a.example/1.mp3 " type="audio/mpeg"/>'), first()),
    (rss('<media:content url="http://a.example/c" medium="image"/>', ONE), first()),  # WordPress
    (rss(ONE, channel="<image><title>No</title></image><title> The Show </title>"), first()),
    (rss(f"<title>ü</title>{ONE}").replace('"1.0"?', '"1.0" encoding="windows-1252"?').encode("cp1252"), first("ü")),
    (b"\xef\xbb\xbf\r\n" + rss(ONE).encode(), first()),  # feedparser takes it, as what follows
    (rss(ONE).replace("<rss", "\n<!-- <playlist> -->\n<?xml-stylesheet href='x'?>\n<rss"), first()),
    (rss(ONE).replace("</channel></rss>", "<item>&</item>"), first()),  # what stands before the damage
    (rss(f"<dc:creator xmlns:dc='d'>admin</dc:creator>{ONE}<itunes:author>Her</itunes:author>"), first(None, "Her")),
    (rss(PICTURED + ONE, ONE, channel=f'<title>The Show</title><itunes:image href="{COVER}"/>'),
     [replace(FIRST, artwork="http://a.example/2.jpg"), replace(FIRST, artwork=COVER)]),
    ('<rdf:RDF xmlns:rdf="x"><channel><title>The Show</title></channel><item>' + ONE + "</item></rdf:RDF>", first()),
    # Atom, RFC 4287, 4.2.7.2.
    (atom(f"<title>One</title><author><name>Her</name></author>{LINK}"), first("One", "Her")),
    (atom(f'<link href="http://a.example/page"/><thumbnail url="{COVER}"/>{LINK}'), [replace(FIRST, artwork=COVER)]),
]  # fmt: skip
FEEDS: list[tuple[str | bytes, str, list[Listed]]] = [
    *((text, "The Show", entries) for text, entries in SHOWS),
    # ASX 3, Microsoft's "Windows Media Metafile Elements Reference"; ffmpeg and VLC read it as loosely.
    (asx("<Ref HREF = http://a.example/1.mp3 />"), "", first()),
    (asx('<title>A & B &amp; C</title><author>Her</author><duration value="00:01:02.5"/>'
         '<ref href="http://a.example/1.mp3"/><ref href="http://mirror.example/1.mp3"/>'), "",
     first("A & B & C", "Her", 62_000)),
    (asx("<ref href='http://a.example/1?a=1&b=2' />"), "", [Listed("http://a.example/1?a=1&b=2", is_uri=True)]),
    (asx('<ref href="http://a.example/1.mp3"/>', before="<TITLE>The List</TITLE><AUTHOR>Her</AUTHOR>"), "The List",
     first(None, "Her")),
    ('<asx version="3"><entryref href="http://a.example/1.mp3"/></asx>', "", first()),
    ("[Reference]\nRef1=http://a.example/1.mp3\nRef2=mms://a.example/1\n", "",
     [replace(FIRST, is_uri=False), Listed("mms://a.example/1")]),
    (f"<playlist><trackList><track>{SONG}<creator>Her</creator><image>{COVER}</image></track></trackList></playlist>",
     "", [replace(FIRST, author="Her", artwork=COVER)]),
    (f'#EXTM3U\n#EXTINF:-1 tvg-logo="{COVER}",Radio\nhttp://a.example/1', "",
     [Listed("http://a.example/1", "Radio", artwork=COVER)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "entries"), FEEDS)
def test_what_is_read(text: str | bytes, name: str, entries: list[Listed]) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    listing = parse_listing(data)
    assert (list(listing.entries), listing.name) == (entries, name)
    assert looks_like_playlist(data[:1024], "feed", "application/octet-stream")


def test_what_is_none() -> None:
    for text in ("<html><body><rss>", "<opml/>", "<MPD><rss/></MPD>", "<svg/>", "<!-- <rss> -->", "<rssx >", "rss"):
        assert not looks_like_playlist(text.encode(), "feed", "text/xml")


BILLION = "<!DOCTYPE rss [<!ENTITY a 'aaaaaaaaaa'>" + "".join(
    f"<!ENTITY {name} '{10 * f'&{of};'}'>" for of, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE: list[tuple[str, FailureCode, str]] = [
    (rss(f"<title>&i;</title>{ONE}").replace("<rss", BILLION + "]><rss"), FailureCode.CORRUPT, "document type"),
    (rss(ONE).replace("<rss", '<!DOCTYPE rss [<!ENTITY % x SYSTEM "file:/x"> %x;]><rss'), FailureCode.CORRUPT, "type"),
    (rss("<title>News</title>"), FailureCode.EMPTY, "no podcast"),
    ('<?xml version="1.0" encoding="x"?><playlist/>', FailureCode.CORRUPT, "XML"),
    (asx("<title>x</title>"), FailureCode.EMPTY, "no entries"),
    (asx('<ref href="file:///etc/passwd"/>', '<ref href="mms://a.example/x"/>'), FailureCode.EMPTY, "may play"),
    (rss(f'<enclosure url="http://a.example/{"x" * 3_000_000}"/>'), FailureCode.LIMIT_EXCEEDED, "no entry in its"),
    ("#EXTM3U\nfile:///a\nC:\\b.mp3\n", FailureCode.EMPTY, "may play"),
    ("#EXTM3U\n#EXT-X-VERSION:3\n" + "a.ts\n" * 8_000_000, FailureCode.LIMIT_EXCEEDED, "KiB"),
    ("#EXTM3U\nhttp://a.example/" + "x" * 3_000_000, FailureCode.LIMIT_EXCEEDED, "no entry in its"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "reason"), HOSTILE)
async def test_what_is_refused_and_why(server: MediaServer, text: str, code: FailureCode, reason: str) -> None:
    told = await failure_of(server.serve("/feed", media(text.encode(), content_type="text/xml")))
    assert told.code is code
    assert reason in told.message
    assert server.replies[0].sent_bytes < 20_000_000


@pytest.mark.parametrize(
    "text",
    [
        "<rss>" + "<a>" * 300_000,
        "<rss><channel>" + "<item a='1'/>" * 70_000,
        rss("<title>" + "<b/>x" * 150_000 + "</title>" + ONE),
        *("<asx>" + text for text in ("<" * 1_000_000, "<ref href=" * 100_000, "<ref" + " " * 1_000_000)),
        "<asx><entry>" + "<ref href='x" * 80_000,
        "<!--" * 250_000,
        "x\n" * 500_000,
        "#EXTINF:" + '"' * 1_000_000 + "\nx",
        "[playlist]\n" + "".join(f"File{number}=x\n" for number in range(80_000)),
        *(f"x\n{text * 1_000_000}x\nTRACK 01 AUDIO\n" for text in "\n "),
        "TRACK" + " " * 1_000_000 + "\nTRACK 01 AUDIO\n" * 65_000,
        'FILE "' + "a" * 1_000_000 + "\nTRACK 01 AUDIO\nINDEX 01 00:00:00",
    ],
    ids=lambda text: text[:20],
)
def test_a_large_one_takes_no_time_to_speak_of(text: str) -> None:
    begun_s = time.process_time()
    looks_like_playlist(text.encode(), "x", None)
    with contextlib.suppress(PlayError):
        assert len(parse_listing(text.encode()).entries) <= 500
    assert time.process_time() - begun_s < 2


async def test_by_whatever_type_a_server_sends_it(server: MediaServer) -> None:
    bad = '<itunes:image href="file:///etc/passwd"/>'
    body = rss(f"<title>One</title>{PICTURED}{ONE}", f"<title>Two</title>{bad}<enclosure url='2 b.mp3'/>").encode()
    kinds: tuple[Any, ...] = ("application/rss+xml", "text/html", None)
    for kind in kinds:
        playlist = await playlist_of(server.serve("/pod/feed.xml", media(body, content_type=kind)))
        assert playlist.name == "The Show"
        pictures = [(one.title, one.artwork_url) for one in playlist.entries]
        assert pictures == [("One", "http://a.example/2.jpg"), ("Two", None)]
        assert playlist.entries[1].uri.opened == server.url("/pod/2%20b.mp3")


async def test_as_a_local_file(tmp_path: Path) -> None:
    for name, text in (("radio.wax", asx('<ref href="http://a.example/1.mp3"/>')), ("feed.xml", rss(ONE))):
        (tmp_path / name).write_text(text)
        playlist = await playlist_of(str(tmp_path / name))
        assert [entry.uri.given for entry in playlist.entries] == ["http://a.example/1.mp3"]
