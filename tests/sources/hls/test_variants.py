"""Streams as servers make them, each with what RFC 8216 or ffmpeg 8 says of it, and what a demuxer gets here."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.support.fetching import QUICK, opened, parts_of
from tests.support.hls import LivePlaylist, encrypted, media_playlist, serve_text
from tests.support.media_server import Answer, MediaServer, Reply, Request, in_turn, media, redirect, status
from tonearm.config.patterns import compile_pattern
from tonearm.core.failure import FailureCode, PlayError
from tonearm.sources.hls.decryption import Decryptor

KEY = b"0123456789abcdef"
AES = '#EXT-X-KEY:METHOD=AES-128,URI="k"'
PIECES = tuple(bytes([number]) * 3000 for number in range(1, 9))
NAMES = tuple(f"{number}.ts" for number in range(len(PIECES)))
# A playlist is read again when it is older than its target duration: here soon.
AT_ONCE = dataclasses.replace(QUICK, live_refresh_at_least_s=0.0)


@dataclass
class Site:
    """A server with a stream of `PIECES` under /hls/."""

    server: MediaServer
    answers: dict[str, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, piece in zip(NAMES, PIECES, strict=True):
            self.put(name, media(piece, content_type="video/mp2t"))
        self.lists(*NAMES)

    def put(self, name: str, answer: Answer) -> str:
        return self.server.serve(f"/hls/{name}", answer)

    def text(self, name: str, text: str, content_type: str = "application/vnd.apple.mpegurl") -> str:
        return serve_text(self.server, f"/hls/{name}", text, content_type)

    def lists(self, *entries: str, name: str = "index.m3u8", sequence: int = 0) -> str:
        return self.text(name, media_playlist(entries, duration_s=0.5, sequence=sequence))

    def encrypts(self, ivs: Iterable[int] = range(8)) -> None:
        """Encrypts each piece, with these numbers as vectors."""
        for name, piece, iv in zip(NAMES, PIECES, ivs, strict=True):
            self.put(name, media(encrypted(piece, KEY, iv.to_bytes(16, "big"))))
        for name in ("k", "k2"):
            self.put(name, media(KEY, content_type="application/octet-stream"))


Made: TypeAlias = Callable[[Site], str]


def master(*names: str) -> str:
    return "#EXTM3U\n" + "".join(f"#EXT-X-STREAM-INF:BANDWIDTH=1\n{name}\n" for name in names)


def without(*numbers: int) -> bytes:
    return b"".join(piece for number, piece in enumerate(PIECES) if number not in numbers)


def with_lost(site: Site, *numbers: int, code: int = 404) -> str:
    for number in numbers:
        site.put(NAMES[number], status(code))
    return site.lists(*NAMES)


def encrypted_by(site: Site, line: str = AES, ivs: Iterable[int] = range(8), sequence: int = 0) -> str:
    site.encrypts(ivs)
    return site.lists(line, *NAMES, sequence=sequence)


def encrypted_and_cut(site: Site) -> str:
    site.encrypts()
    whole = encrypted(PIECES[3], KEY, (3).to_bytes(16, "big"))
    site.put(NAMES[3], in_turn(media(whole, cut_after=1001), media(whole)))
    return site.lists(AES, *NAMES)


def with_key(answer: Answer) -> Made:
    def make(site: Site) -> str:
        uri = encrypted_by(site)
        site.put("k", answer)
        return uri

    return make


def nested(site: Site, levels: int) -> str:
    site.lists(*NAMES, name="level0.m3u8")
    for level in range(levels):
        site.text(f"level{level + 1}.m3u8", master(f"level{level}.m3u8"))
    return site.server.url(f"/hls/level{levels}.m3u8")


def expired(code: int) -> Answer:
    """By when it comes, the playlist is old enough to be read again."""

    async def answer(request: Request, reply: Reply) -> None:
        await asyncio.sleep(0.02)
        await status(code)(request, reply)

    return answer


def links_that_expire(site: Site, *, in_master: bool = False) -> str:
    """After the third segment the links of the first playlist are refused; those of the next one hold."""
    for number, name in enumerate(NAMES):
        site.put(f"{name}?t=1", media(PIECES[number]) if number < 3 else expired(403))
        site.put(f"{name}?t=2", media(PIECES[number]))
    texts = [media_playlist([f"{name}?t={t}" for name in NAMES], duration_s=0.0) for t in (1, 2)]
    if in_master:
        for t, text in enumerate(texts, start=1):
            site.put(f"inner.m3u8?t={t}", in_turn(media(text.encode()), status(410)))
        texts = [master(f"inner.m3u8?t={t}") for t in (1, 2)]
    return site.put("index.m3u8", in_turn(*(media(text.encode(), etag=None) for text in texts)))


def live_and_encrypted(site: Site) -> str:
    site.encrypts()
    keys = {number: AES if number < 4 else AES.replace('"k"', '"k2"') for number in range(len(NAMES))}
    return site.put("live.m3u8", LivePlaylist(NAMES, tags=keys).answer)


WHOLE = without()
PLAYS: list[tuple[str, Made, bytes]] = [
    # A client that cannot load a segment goes on with the next (ffmpeg: "Failed to open segment", then the next one).
    ("one segment is 500", lambda s: with_lost(s, 3, code=500), without(3)),
    ("the first two and the last are 404", lambda s: with_lost(s, 0, 1, 7), without(0, 1, 7)),
    # RFC 8216, 4.3.2.4 and 5.2; ffmpeg the same.
    ("IV is what the media sequence counts", lambda s: encrypted_by(s, AES, range(70_000, 70_008), 70_000), WHOLE),
    ("a transfer breaks off within a block", encrypted_and_cut, WHOLE),
    ("the key is redirected", with_key(redirect("/hls/k2")), WHOLE),
    # RFC 8216, 4.3.4.2 wants media playlists in a master playlist; ffmpeg follows further ones.
    ("three master playlists", lambda s: nested(s, 3), WHOLE),
    # RFC 8216, 4: the ending or the type says that it is HLS. Players look at the first bytes.
    ("/x.mp3, audio/mpeg, a master", lambda s: s.text("x.mp3", master("index.m3u8"), "audio/mpeg"), WHOLE),
    # ffmpeg ends there; browsers' players ask for the playlist again.
    ("links expire", links_that_expire, WHOLE),
    ("the inner playlist's link expires, too", lambda s: links_that_expire(s, in_master=True), WHOLE),
    ("a live stream is encrypted, and its key changes", live_and_encrypted, without(0)),
]


@pytest.mark.parametrize(("says", "make", "whole"), PLAYS, ids=[row[0] for row in PLAYS])
async def test_what_plays(server: MediaServer, says: str, make: Made, whole: bytes) -> None:
    async with opened(make(Site(server)), AT_ONCE) as source:
        assert await parts_of(source) == [whole]


def holding(text: str) -> Made:
    return lambda site: site.text("a.m3u8", f"#EXTM3U\n{text}")


def key_line(uri: str) -> Made:
    return lambda site: encrypted_by(site, f'#EXT-X-KEY:METHOD=AES-128,URI="{uri}"')


def circle(site: Site) -> str:
    site.text("a.m3u8", master("b.m3u8"))
    return site.text("b.m3u8", master("a.m3u8"))


ENDED = "#EXT-X-ENDLIST\n#EXTINF:1,\n"
REFUSED: list[tuple[str, Made, FailureCode, str]] = [
    ("three in a row", lambda s: with_lost(s, 2, 3, 4), FailureCode.HTTP_STATUS, "404"),
    ("the only one", lambda s: s.lists("none.ts"), FailureCode.HTTP_STATUS, "404"),
    ("a key in a file", key_line("file:///etc/hostname"), FailureCode.SOURCE_REFUSED, "http and https"),
    ("a key in a file, by redirect", with_key(redirect("file:///etc/hostname")), FailureCode.SOURCE_REFUSED, "http"),
    ("a key that policy forbids", key_line("/secret/key"), FailureCode.SOURCE_BLOCKED, "/secret/key"),
    ("a key of 15 bytes", with_key(media(KEY[:15])), FailureCode.CORRUPT, "15 bytes"),
    ("a page for a login as the key", with_key(media(b"<html>" * 100_000)), FailureCode.CORRUPT, "more than 16"),
    ("a circle of masters", circle, FailureCode.LIMIT_EXCEEDED, "circle"),
    ("nothing in it", holding("#EXT-X-ENDLIST\n"), FailureCode.EMPTY, ""),
    ("a segment in a file", holding(f"{ENDED}file:///etc/passwd\n"), FailureCode.SOURCE_REFUSED, ""),
    ("a map in a file", holding(f'#EXT-X-MAP:URI="file:/a"\n{ENDED}a\n'), FailureCode.SOURCE_REFUSED, ""),
    ("a master that leads to a file", holding(master("file:///a.m3u8")), FailureCode.SOURCE_REFUSED, ""),
    ("masters without end", lambda s: nested(s, 9), FailureCode.LIMIT_EXCEEDED, "further playlists"),
]


@pytest.mark.parametrize(("says", "make", "code", "told"), REFUSED, ids=[row[0] for row in REFUSED])
async def test_what_is_refused(server: MediaServer, says: str, make: Made, code: FailureCode, told: str) -> None:
    uri = make(Site(server))
    with pytest.raises(PlayError) as caught:
        async with opened(uri, AT_ONCE, blocked=[compile_pattern("/secret/")]) as source:
            await parts_of(source)
    failure = caught.value.failure
    assert failure.code == code
    assert told in failure.message
    assert not [request for request in server.requests if "secret" in request.path]
    keys = [reply for request, reply in zip(server.requests, server.replies, strict=True) if request.path == "/hls/k"]
    assert sum(reply.sent_bytes for reply in keys) < 2_000_000


async def test_a_long_live_playlist_is_not_read_all_the_time(server: MediaServer) -> None:
    """However short its target duration is: parsing it takes time of everybody's node. ffmpeg reads it, too."""
    site = Site(server)
    names = [*(f"old{number}.ts?t={'x' * 400}" for number in range(5000)), *NAMES[:4]]
    async with opened(site.put("live.m3u8", LivePlaylist(names, window=5003).answer), AT_ONCE) as source:
        begun_s = time.monotonic()
        assert await parts_of(source) == [without(4, 5, 6, 7)]
        assert time.monotonic() - begun_s > 1.0


async def test_a_key_in_a_private_network_is_not_asked_for(server: MediaServer, tmp_path: Path) -> None:
    """The rest of the stream is in files, since everything that a test can serve is in a private network."""
    Site(server).encrypts()
    for name, piece in zip(NAMES, PIECES, strict=True):
        (tmp_path / name).write_bytes(piece)
    path = tmp_path / "index.m3u8"
    path.write_text(media_playlist([AES.replace('"k"', f'"{server.url("/hls/k")}"'), *NAMES]))
    with pytest.raises(PlayError, match="not on the open internet") as caught:
        async with opened(str(path), private_networks=False) as source:
            await parts_of(source)
    assert caught.value.failure.code == FailureCode.SOURCE_REFUSED
    assert not server.requests


# NIST SP 800-38A, F.2.2 (CBC-AES128.Decrypt).
NIST_KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
NIST_IV = bytes(range(16))
CIPHER = bytes.fromhex(
    "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"
    "73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7"
)
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)


def decrypted(cipher: bytes, step: int) -> bytes:
    decryptor = Decryptor(NIST_KEY, NIST_IV)
    return b"".join(decryptor.update(cipher[at : at + step]) for at in range(0, len(cipher), step)) + decryptor.finish()


def test_the_vector_of_nist_in_pieces_of_any_size() -> None:
    assert encrypted(PLAIN, NIST_KEY, NIST_IV)[:64] == CIPHER
    for step in (1, 15, 16, 17, 1000):
        assert decrypted(encrypted(PLAIN, NIST_KEY, NIST_IV), step) == PLAIN


def test_endings() -> None:
    """RFC 8216, 4.3.2.4: PKCS #7. What ends otherwise was cut off, or not padded."""
    for plain in (b"", b"x" * 16):
        assert decrypted(encrypted(plain, NIST_KEY, NIST_IV), 1000) == plain
    for cipher, plain in ((CIPHER, PLAIN), (CIPHER[:33], PLAIN[:32]), (b"", b""), (b"short", b"")):
        assert decrypted(cipher, 1000) == plain
