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


FEEDS: list[tuple[str | bytes, str, list[Listed]]] = [
    # RSS 2.0 and Apple's elements for podcasts; VLC, mpv (by yt-dlp) and every podcast player read these so.
    (rss(f"<title>One</title>{ONE}"), "The Show", first("One")),
    (rss(f"{ONE}<itunes:duration>1:02:03</itunes:duration>"), "The Show", first(None, "", 3_723_000)),
    (rss(f"{ONE}<itunes:duration>02:03</itunes:duration>"), "The Show", first(None, "", 123_000)),
    (rss(f"{ONE}<itunes:duration>123</itunes:duration>"), "The Show", first(None, "", 123_000)),
    (rss(f"{ONE}<itunes:duration>about an hour</itunes:duration>"), "The Show", first()),
    (rss(f"{ONE}<itunes:author>Her</itunes:author><itunes:title>Two</itunes:title>"), "The Show", first("Two", "Her")),
    (rss(f"<title>One</title><itunes:title>Other</itunes:title>{ONE}"), "The Show", first("One")),
    (rss(f"<title><![CDATA[A & B <3]]></title>{ONE}"), "The Show", first("A & B <3")),
    (rss(f"<title>A &amp;#8217; B</title>{ONE}"), "The Show", first("A &#8217; B")),
    (rss("<title>News</title><link>http://a.example/</link>", ONE), "The Show", first()),
    (rss(f'<enclosure url="http://a.example/c.jpg" type="image/jpeg"/>{ONE}'), "The Show", first()),
    (rss('<enclosure url="http://a.example/c.pdf" type="application/pdf"/>', ONE), "The Show", first()),
    (rss('<enclosure url=" http://a.example/1.mp3 "/>'), "The Show", first()),
    (rss('<media:content url="http://a.example/1.mp3" type="audio/mpeg"/>'), "The Show", first()),
    (rss(f'<media:content url="http://a.example/c" medium="image"/>{ONE}'), "The Show", first()),
    (rss('<media:content url="http://a.example/c" medium="image"/>', ONE), "The Show", first()),  # WordPress
    (rss('<media:content url="http://a.example/1.mp3" medium="audio"/>'), "The Show", first()),
    (rss('<media:group><media:content url="http://a.example/1.mp3"/></media:group>'), "The Show", first()),
    (rss(f"{ONE}<enclosure url='http://a.example/2.mp3'/>"), "The Show", first()),
    (rss(ONE, channel="<image><title>No</title></image><title> The Show </title>"), "The Show", first()),
    (rss(f"<title>\u00fc</title>{ONE}").replace('"1.0"?', '"1.0" encoding="windows-1252"?').encode("cp1252"),
     "The Show", first("ü")),
    (rss(f"<title>ü</title>{ONE}").encode("utf-16"), "The Show", first("ü")),
    (b"\xef\xbb\xbf\r\n" + rss(ONE).encode(), "The Show", first()),  # feedparser takes it, as what follows
    (rss(f"<title>Caf&eacute; &amp; &none; B</title>{ONE}"), "The Show", first("Café & &none; B")),  # HTML's names
    (rss(ONE).replace("<rss", "\n<!-- <playlist> -->\n<?xml-stylesheet href='x'?>\n<rss"), "The Show", first()),
    (rss(ONE).replace("</channel></rss>", "<item>&</item>"), "The Show", first()),  # what stands before the damage
    ('<rdf:RDF xmlns:rdf="x"><channel><title>Old</title></channel><item>' + ONE + "</item></rdf:RDF>", "Old", first()),
    # Atom, RFC 4287, 4.2.7.2.
    (atom('<title>One</title><author><name>Her</name></author><link rel="enclosure" href="http://a.example/1.mp3"/>'),
     "The Show", first("One", "Her")),
    (atom('<link href="http://a.example/page"/><link rel="enclosure" type="audio/ogg" href="http://a.example/1.mp3"/>'),
     "The Show", first()),
    # ASX 3, Microsoft's "Windows Media Metafile Elements Reference"; ffmpeg and VLC read it as loosely.
    (asx('<REF HREF="http://a.example/1.mp3"/>'), "", first()),
    (asx("<ref href = 'http://a.example/1.mp3' />"), "", first()),
    (asx("<Ref href=http://a.example/1.mp3 />"), "", first()),
    (asx('<title>A & B &amp; C</title><author>Her</author><duration value="00:01:02.5"/>'
         '<ref href="http://a.example/1.mp3"/><ref href="http://mirror.example/1.mp3"/>'), "",
     first("A & B & C", "Her", 62_000)),
    (asx('<ref href="http://a.example/1?a=1&b=2"/>'), "", [Listed("http://a.example/1?a=1&b=2", is_uri=True)]),
    (asx('<ref href="http://a.example/1.mp3"/>', before="<TITLE>The List</TITLE><AUTHOR>Her</AUTHOR>"), "The List",
     first(None, "Her")),
    ('<asx version="3"><entryref href="http://a.example/1.mp3"/></asx>', "", first()),
    ("[Reference]\nRef1=http://a.example/1.mp3\nRef2=mms://a.example/1\n", "",
     [replace(FIRST, is_uri=False), Listed("mms://a.example/1")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "entries"), FEEDS)
def test_what_is_read(text: str | bytes, name: str, entries: list[Listed]) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    listing = parse_listing(data)
    assert (list(listing.entries), listing.name) == (entries, name)
    assert looks_like_playlist(data[:1024], "feed", "application/octet-stream")


async def test_pictures_and_authors_of_entries_are_kept(server: MediaServer) -> None:
    two = '<enclosure url="http://a.example/2.mp3"/>'
    song = "<location>http://a.example/1.mp3</location>"
    cover, other = "http://a.example/cover.jpg", "http://a.example/2.jpg"
    for text, facts in (
        (
            rss(f"<creator>Her</creator>{ONE}", f'<itunes:image href="{other}"/>{two}',
                channel=f'<title>S</title><itunes:image href="{cover}"/>'),
            [("Her", cover), ("", other)],
        ),
        (atom(f'<media:thumbnail xmlns:media="m" url="{cover}"/><link rel="enclosure" href="http://a.example/1.mp3"/>'),
         [("", cover)]),
        (f"<playlist><trackList><track>{song}<creator>Her</creator><image>{cover}</image></track></trackList></playlist>",
         [("Her", cover)]),
        (f'#EXTM3U\n#EXTINF:-1 tvg-logo="{cover}",Radio\nhttp://a.example/1\nhttp://a.example/2',
         [("", cover), ("", None)]),
        (rss(f"<dc:creator xmlns:dc='d'>admin</dc:creator>{ONE}<itunes:author>Her Show</itunes:author>"),
         [("Her Show", None)]),
        (rss(f'<itunes:image href="file:///etc/passwd"/>{ONE}'), [("", None)]),
    ):  # fmt: skip
        listed = await playlist_of(server.serve("/feed.xml", media(text.encode(), content_type="text/xml")))
        assert [(entry.author, entry.artwork_url) for entry in listed.entries] == facts


@pytest.mark.parametrize(
    "text",
    ["<html><body><rss>", "<opml><body/></opml>", "<MPD><rss/></MPD>", "<svg/>", "<!-- <rss> -->", "<rssx >", "rss"],
)
def test_what_is_none(text: str) -> None:
    assert not looks_like_playlist(text.encode(), "feed", "text/xml")


BILLION = "<!DOCTYPE rss [<!ENTITY a 'aaaaaaaaaa'>" + "".join(
    f"<!ENTITY {name} '{10 * f'&{of};'}'>" for of, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE: list[tuple[str, FailureCode, str]] = [
    (rss(f"<title>&i;</title>{ONE}").replace("<rss", BILLION + "]><rss"), FailureCode.CORRUPT, "document type"),
    (rss(f"<title>&x;</title>{ONE}").replace("<rss", '<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss'),
     FailureCode.CORRUPT, "document type"),
    (rss(ONE).replace("<rss", '<!DOCTYPE rss [<!ENTITY % x SYSTEM "http://127.0.0.1/x.dtd"> %x;]><rss'),
     FailureCode.CORRUPT, "document type"),
    (rss("<title>News</title>"), FailureCode.EMPTY, "no podcast"),
    (atom("<title>News</title>"), FailureCode.EMPTY, "no podcast"),
    ("<rss>", FailureCode.CORRUPT, "XML"),
    (rss() + "<rss>", FailureCode.CORRUPT, "XML"),
    ('<?xml version="1.0" encoding="x"?><playlist/>', FailureCode.CORRUPT, "XML"),
    (asx("<title>x</title>"), FailureCode.EMPTY, "no entries"),
    (rss('<enclosure url="file:///etc/passwd"/>'), FailureCode.EMPTY, "no entry that this node may play"),
    (asx('<ref href="file:///etc/passwd"/>', '<ref href="mms://a.example/x"/>'), FailureCode.EMPTY, "may play"),
    (rss(f'<enclosure url="http://a.example/{"x" * 9000}"/>'), FailureCode.EMPTY, "may play"),
    (rss(f'<enclosure url="http://a.example/{"x" * 3_000_000}"/>'), FailureCode.LIMIT_EXCEEDED, "no entry in its"),
    ("#EXTM3U\nhttp://a.example/" + "x" * 3_000_000, FailureCode.LIMIT_EXCEEDED, "no entry in its"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "reason"), HOSTILE)
async def test_what_is_refused_and_why(server: MediaServer, text: str, code: FailureCode, reason: str) -> None:
    told = await failure_of(server.serve("/feed", media(text.encode(), content_type="text/xml")))
    assert told.code is code
    assert reason in told.message


@pytest.mark.parametrize(
    "text",
    [
        "<rss>" + "<a>" * 300_000,
        "<rss><channel><title>" + "x" * 1_000_000,
        "<rss><channel>" + "<item a='1'/>" * 70_000,
        rss(*[ONE] * 10_000),
        rss("<title>" + "<b/>x" * 150_000 + "</title>" + ONE),
        "<asx>" + "<" * 1_000_000,
        "<asx>" + "<ref " * 200_000,
        "<asx>" + "<ref href=" * 100_000,
        "<asx><entry>" + "<ref href='x" * 80_000,
        "<asx>" + "<ref" + " " * 1_000_000,
        "<asx>" + "&amp;" * 200_000,
        "<!--" * 250_000,
        "<" + "?" * 1_000_000,
    ],
)
def test_a_large_one_takes_no_time_to_speak_of(text: str) -> None:
    begun_s = time.process_time()
    looks_like_playlist(text.encode(), "x", None)
    with contextlib.suppress(PlayError):
        assert len(parse_listing(text.encode()).entries) <= 500
    assert time.process_time() - begun_s < 3


@pytest.mark.parametrize(
    ("name", "content_type"),
    [("feed", "application/rss+xml"), ("feed", "text/xml; charset=utf-8"), ("feed.xml", "text/html"), ("feed", None)],
)
async def test_by_whatever_type_a_server_sends_it(server: MediaServer, name: str, content_type: Any) -> None:
    body = rss(f"<title>One</title>{ONE}", "<title>Two</title><enclosure url='2 b.mp3'/>").encode()
    playlist = await playlist_of(server.serve(f"/pod/{name}", media(body, content_type=content_type)))
    assert playlist.name == "The Show"
    assert [entry.title for entry in playlist.entries] == ["One", "Two"]
    assert playlist.entries[1].uri.opened == server.url("/pod/2%20b.mp3")


@pytest.mark.parametrize("name", ["radio.asx", "radio.wax", "feed.rss", "feed.xml"])
async def test_as_a_local_file(tmp_path: Path, name: str) -> None:
    text = rss(ONE) if name.startswith("feed") else asx('<ref href="http://a.example/1.mp3"/>')
    (tmp_path / name).write_text(text)
    playlist = await playlist_of(str(tmp_path / name))
    assert [entry.uri.given for entry in playlist.entries] == ["http://a.example/1.mp3"]
