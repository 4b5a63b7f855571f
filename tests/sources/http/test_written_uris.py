"""What goes onto the wire of a link, a redirect, a playlist's entry and a stream's segment: what was written."""

import re

import pytest

from tests.support.fetching import failure_of, opened, playlist_of, read_all
from tests.support.media_server import Canary, MediaServer, media, raw, redirect
from tonearm.core.failure import FailureCode
from tonearm.core.source_uri import joined_uri, parse_source_uri

BODY = bytes(range(256)) * 40
SIGNED = "/a.mp3?Signature=qZ%2Bx%2FPP2g%3D&Key=a%40b%3Ac"

# What is written behind `http://host:port`, and the target that is asked for. curl and ffmpeg send what stands there;
# RFC 3986 has pairs of hexadecimal digits for every byte that no URI may hold, RFC 9112, 3.2 demands such a target.
WRITTEN = {
    "a signed link": (SIGNED, SIGNED),
    "pairs that need not be": ("/%7Euser/%41%2e.mp3?%7e=%2D", "/%7Euser/%41%2e.mp3?%7e=%2D"),
    "signs that may stand": ("/a:b@c;d=1,2!$&'()*+~.mp3?a=/?:@!$'()*+,;", "/a:b@c;d=1,2!$&'()*+~.mp3?a=/?:@!$'()*+,;"),
    "letters of a language": ("/ä.mp3?ß", "/%C3%A4.mp3?%C3%9F"),
    "signs that no URI may hold": ('/<a>"{b}|\\^`.mp3?[c]', "/%3Ca%3E%22%7Bb%7D%7C%5C%5E%60.mp3?%5Bc%5D"),
    "a percent sign alone": ("/100%.mp3?5%&%zz", "/100%25.mp3?5%25&%25zz"),
    "a fragment stays at home": ("/a%2B.mp3?x#y%2B", "/a%2B.mp3?x"),
    "encoded dots": ("/a/%2E%2e/b%7e/.%2e/c.mp3", "/c.mp3"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
async def test_what_is_asked_for(server: MediaServer, name: str) -> None:
    written, target = WRITTEN[name]
    server.serve(target, media(BODY))
    server.serve("/up/absolute", raw(_redirect(f"{server.url('')}{written}")))
    server.serve("/up/relative", raw(_redirect(written)))
    server.serve("/up/list.m3u", media(f"#EXTM3U\n{written}\n".encode(), content_type="audio/x-mpegurl"))
    server.serve("/up/hls.m3u8", media(_hls(written), content_type="application/vnd.apple.mpegurl"))
    for link in (written, "/up/absolute", "/up/relative"):
        async with opened(server.url(link)) as source:
            assert await read_all(source) == BODY
            assert source.uri.opened.partition("#")[0] == server.url(target)
    [entry] = (await playlist_of(server.url("/up/list.m3u"))).entries
    async with opened(entry.uri.given) as source:
        assert await read_all(source) == BODY
    async with opened(server.url("/up/hls.m3u8")) as source:
        assert await source.reader.read_at(0, 100) == BODY[:100]


def _redirect(location: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


def _hls(segment: str) -> bytes:
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{segment}\n#EXT-X-ENDLIST\n".encode()


# curl percent-encodes no byte of a `Location` and sends it; browsers encode it as it came, in no charset.
async def test_bytes_of_a_location(server: MediaServer) -> None:
    latin, utf8 = b"/f\xfcr.mp3?\xe9", "/für.mp3".encode()
    for written, target in ((latin, "/f%FCr.mp3?%E9"), (utf8, "/f%C3%BCr.mp3"), (b" /a.mp3\t", "/a.mp3")):
        server.serve(target, media(BODY))
        head = b"HTTP/1.1 301 Moved\r\nLocation: " + written + b"\r\nContent-Length: 0\r\n\r\n"
        async with opened(server.serve("/go", raw(head))) as source:
            assert await read_all(source) == BODY


# RFC 3986, 5.4, whose dots are resolved later, in `parse_source_uri`, together with those that are encoded.
def test_relative_references() -> None:
    for reference, joined in (
        ("https://b.example/%2b", "https://b.example/%2b"),
        ("//b.example/c?d", "http://b.example/c?d"),
        ("/%2B?x", "http://a.example:8000/%2B?x"),
        ("../c//d?../e", "http://a.example:8000/p//c//d?../e"),
        ("?y=%2B", "http://a.example:8000/p//q%2f/r?y=%2B"),
        ("#f", "http://a.example:8000/p//q%2f/r?s=/t%2F#f"),
    ):
        assert joined_uri(parse_source_uri("http://A.example:8000/p//q%2f/r?s=/t%2F#u"), reference) == joined


# The patterns judge one form of all ways to write a URI; and the wire has no way that the patterns did not judge.
async def test_patterns_judge_the_normal_form(server: MediaServer) -> None:
    async with Canary() as canary:
        for written in ("/%73ecret/a", "/x/%2e%2E/secret/a", "/x/../secret/a", "/.%2e/secret/a?b"):
            go = server.serve("/go", redirect(f"http://127.0.0.1:{canary.port}{written}"))
            told = await failure_of(go, blocked=[re.compile(r"^http://[^/]+/secret/")])
            assert (told.code, canary.connections) == (FailureCode.SOURCE_BLOCKED, 0)
