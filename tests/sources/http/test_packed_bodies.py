"""Bodies that a server packs although the node asked for them as they are."""

import gzip
import random
import zlib
from collections.abc import Callable
from typing import Final

import pytest

from tests.support.fetching import failure_of, opened, playlist_of, read_all, read_bytes, read_until_failure
from tests.support.media_server import MediaServer, in_turn, media, raw
from tonearm.core.failure import FailureCode

# Of silence, noise and silence, as sound is.
BODY: Final = bytes(1_000_000) + random.Random(6).randbytes(200_000) + bytes(200_000)


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def in_members(data: bytes) -> bytes:
    return b"".join(gzip.compress(data[start : start + 60_000]) for start in range(0, len(data), 60_000))


# What the server says, what it does, and who reads it: curl 7.88, unpacking with `--compressed`, and ffmpeg 5.1.
PACKED: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "gzip": ("gzip", gzip.compress, "both"),
    "deflate": ("deflate", zlib.compress, "both; RFC 9110, 8.4.1.2"),
    "deflate without wrapping": ("deflate", raw_deflate, "both; RFC 9110, 8.4.1.2: some send it so"),
    "gzip in members": ("gzip", in_members, "RFC 1952, 2.2"),
    "gzip and bytes behind it": ("gzip", lambda data: gzip.compress(data) + b"and more", "gzip -d"),
    "gzip in a list": ("identity, gzip", gzip.compress, "curl; RFC 9110, 8.4"),
    "gzip and a word": ("aws-chunked,gzip", gzip.compress, "S3 answers so; neither"),
    "gzip that is none": ("gzip", bytes, "curl as it asks by default"),
    "a charset": ("UTF-8", bytes, "ffmpeg, curl as it asks by default"),
    "identity": ("identity", bytes, "both; RFC 9110, 12.5.3"),
}


@pytest.mark.parametrize("ways", ["length", "chunks", "ranges"])
@pytest.mark.parametrize("name", PACKED)
async def test_what_is_read(server: MediaServer, name: str, ways: str) -> None:
    says, pack, _ = PACKED[name]
    body = pack(BODY)
    line = f"Content-Encoding: {says}\r\n"
    answer = media(body, headers=line, ranges=ways == "ranges", chunked=ways == "chunks")
    async with opened(server.serve("/a", answer)) as source:
        is_coded = "gzip" in says.lower() or says == "deflate"
        assert (source.size_bytes is None) == (is_coded or ways == "chunks")
        assert source.is_seekable == (ways == "ranges" and not is_coded)
        assert await read_all(source) == BODY
        assert await source.reader.read_at(0, 10) == BODY[:10]  # also by another request


async def test_playlists_segments_and_radio(server: MediaServer) -> None:
    line = "Content-Encoding: gzip\r\n"
    listed = gzip.compress(b"#EXTM3U\n/one.mp3\n")
    stream = b"#EXTM3U\n#EXTINF:9,\none.mp3\n#EXT-X-TARGETDURATION:9\n#EXT-X-ENDLIST\n"
    server.serve("/one.mp3", media(gzip.compress(BODY), headers=line))
    uri = server.serve("/list.m3u", media(listed, headers=line, content_type="audio/x-mpegurl"))
    assert [entry.uri.path for entry in (await playlist_of(uri)).entries] == ["/one.mp3"]
    bomb = gzip.compress(b"#EXTM3U\n" + b"http://a.example/\n" * 200_000)
    told = await failure_of(server.serve("/bomb.m3u", media(bomb, headers=line, content_type="audio/x-mpegurl")))
    assert told.code is FailureCode.LIMIT_EXCEEDED
    hls = server.serve("/a.m3u8", media(gzip.compress(stream), headers=line, content_type="audio/x-mpegurl"))
    async with opened(hls) as source:
        assert await read_bytes(source, len(BODY)) == BODY
    head = b"HTTP/1.0 200 OK\r\nicy-br: 128\r\nContent-Encoding: gzip\r\n\r\n"
    async with opened(server.serve("/radio", raw(head + gzip.compress(BODY)))) as source:
        assert await read_bytes(source, len(BODY) * 2) == BODY * 2


def bomb(size: int) -> bytes:
    return gzip.compress(bytes(size))


# What is refused, with its reason: while it opens, or where it is read, after so many bytes at most.
REFUSED: dict[str, tuple[str, Callable[[], bytes], FailureCode, str, int]] = {
    "br": ("br", lambda: BODY, FailureCode.NOT_AUDIO, "compressed ('br')", 0),
    "packed twice": ("gzip, gzip", lambda: BODY, FailureCode.NOT_AUDIO, "compressed ('gzip, gzip')", 0),
    "a bomb": ("gzip", lambda: bomb(50_000_000), FailureCode.LIMIT_EXCEEDED, "200 times", 0),
    "a bomb in members": ("gzip", lambda: bomb(1_000_000) * 50, FailureCode.LIMIT_EXCEEDED, "200 times", 2_200_000),
    "members without end": ("gzip", lambda: gzip.compress(b"") * 5000, FailureCode.LIMIT_EXCEEDED, "1000 parts", 0),
    "damaged": ("gzip", lambda: gzip.compress(BODY)[:12] + b"\xff" * 5000, FailureCode.CORRUPT, "damaged", 0),
    "not deflate": ("deflate", lambda: b"\xff" * 5000, FailureCode.CORRUPT, "damaged", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused(server: MediaServer, name: str) -> None:
    says, make_body, code, words, most = REFUSED[name]
    body = make_body()
    uri = server.serve("/a", media(body, headers=f"Content-Encoding: {says}\r\n"))
    if code is FailureCode.NOT_AUDIO:
        told = await failure_of(uri)
    else:
        async with opened(uri) as source:
            got, error = await read_until_failure(source)
        told = error.failure
        assert len(got) <= most
    assert told.code is code
    assert words in told.message
    assert len(server.requests) == 1


async def test_the_rest_of_a_file_is_not_taken_from_a_packed_one(server: MediaServer) -> None:
    for rest, ranges in ((gzip.compress(BODY), False), (BODY, True)):
        packed = media(rest, ranges=ranges, headers="Content-Encoding: gzip\r\n")
        async with opened(server.serve("/a", in_turn(media(BODY, cut_after=10_000), packed))) as source:
            got, error = await read_until_failure(source)
        assert (got, error.failure.code) == (BODY[:10_000], FailureCode.NOT_AUDIO)
