"""Heads of answers that are not quite HTTP: read as players read them, and never so that they smuggle."""

import asyncio
import random

import pytest

from tests.support.fetching import IMPATIENT, QUICK, failure_of, opened, read_all
from tests.support.media_server import Answer, MediaServer, Reply, Request, drip, media, raw
from tonearm.core.failure import FailureCode
from tonearm.sources.http.settings import FetchSettings

BODY = random.Random(5).randbytes(30_000)
SIZE = len(BODY)
LENGTH = f"Content-Length: {SIZE}\r\n"
CHUNKED = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:9000], BODY[9000:])) + b"0\r\n\r\n"


def _ok(lines: str, first: str = "HTTP/1.1 200 OK") -> bytes:
    return f"{first}\r\nContent-Type: audio/wav\r\n{lines}\r\n".encode("latin-1") + BODY


# Each was tried with curl 7.88 and ffmpeg 5.1: "both", the one that reads it, or "RFC" with the section that says how
# it is read. Of an answer that some refuse, ffmpeg has the last word.
HEADS: dict[str, tuple[bytes, str]] = {
    "900 headers": (_ok("".join(f"X-{number}: a\r\n" for number in range(900)) + LENGTH), "both"),
    "the same length twice": (_ok(LENGTH * 2), "both"),
    "a wrong length there": (_ok("Transfer-Encoding: Chunked\r\nContent-Length: 5\r\n")[:-SIZE] + CHUNKED, "curl"),
    "no transfer coding": (_ok(f"Transfer-Encoding: identity\r\n{LENGTH}"), "both"),
    "HTTP without a version": (_ok(LENGTH, "HTTP 200 OK"), "ffmpeg"),
    "SHOUTcast in small letters": (_ok(LENGTH, "icy 200 OK"), "ffmpeg"),
    "status 201": (_ok(LENGTH, "HTTP/1.1 201 Created"), "both"),
    "a line without a colon": (_ok(f"nothing at all\r\n{LENGTH}"), "ffmpeg"),
    "a name in Latin-1": (_ok(f"X-\xfc: b\r\n{LENGTH}"), "both"),
    "a part of an odd range": (_ok(f"Content-Range: bytes x/y\r\n{LENGTH}", "HTTP/1.1 206 Partial"), "curl"),
    "lines that end with LF": (_ok(LENGTH)[:-SIZE].replace(b"\r\n", b"\n") + BODY, "both; RFC 9112, 2.2"),
    "a folded line": (_ok(f"X-A: b\r\n c\r\n{LENGTH * 2}"), "both; RFC 9112, 5.2"),
    "an answer behind the body": (_ok(LENGTH * 2) + _ok(LENGTH), "both"),
    "early hints before it": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + _ok(LENGTH * 2), "curl"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
async def test_at_once_and_in_pieces(server: MediaServer, name: str) -> None:
    data = HEADS[name][0]
    for answer in (raw(data), _in_pieces(data)):
        async with opened(server.serve("/a", answer)) as source:
            assert await read_all(source) == BODY
            assert source.size_bytes in (None, SIZE)
    assert len(server.requests) == 2


def _in_pieces(data: bytes) -> Answer:
    """The head in pieces that end anywhere, each of which the client reads by itself."""

    async def answer(_: Request, reply: Reply) -> None:
        head = len(data) - SIZE
        step = max(head // 20, 3)
        for start in range(0, head, step):
            await reply.send(data[start : min(start + step, head)])
            for _turn in range(4):
                await asyncio.sleep(0)
        await reply.send(data[head:])
        reply.cut()

    return answer


# What is refused: what has two meanings (RFC 9112, 6.3), what has none, and what does not end.
UNREADABLE = FailureCode.CONNECT_FAILED
REFUSED: dict[str, tuple[Answer, FailureCode, str]] = {
    "lengths that differ": (raw(_ok(f"{LENGTH}Content-Length: 5\r\n")), UNREADABLE, "lengths that differ"),
    "a status of two digits": (raw(_ok(LENGTH, "HTTP/1.1 20 OK")), UNREADABLE, "no status"),
    "2000 headers": (raw(_ok("X: a\r\n" * 2000)), UNREADABLE, "more than 1000 lines"),
    "70 kB": (raw(_ok(f"X: {'a' * 70_000}\r\n")), UNREADABLE, "more than 8190"),
    "sloppy without end": (raw(b"http/1.1 200 OK\r\n" + b"X: a\r\n" * 500_000), UNREADABLE, ""),
    "a list of lengths that differ": (raw(_ok("Content-Length: 9, 5\r\n")), UNREADABLE, "that differ"),
    "one line without end": (raw(b"HTTP/2 " + b"a" * 5_000_000), UNREADABLE, ""),
    "interim answers": (raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + b"HTTP/2 1"), FailureCode.CONNECTION_LOST, ""),
    "sloppy, drop by drop": (drip(b"HTTP/2 200 OK\r\n" + b"X: b\r\n" * 100, 0.02), FailureCode.TIMEOUT, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused(server: MediaServer, name: str) -> None:
    answer, code, words = REFUSED[name]
    settings: FetchSettings = IMPATIENT if code is FailureCode.TIMEOUT else QUICK
    told = await failure_of(server.serve("/a", answer), settings)
    assert (told.code, told.http_status) == (code, None)
    assert words in told.message
    assert len(told.message) < 400
    assert server.replies[0].sent_bytes < 4_900_000


@pytest.mark.parametrize("is_sloppy", [False, True])
async def test_a_connection_that_needed_tolerance_is_not_used_again(server: MediaServer, is_sloppy: bool) -> None:
    """What follows a body whose length may be read in two ways could pass for the answer to the next request."""
    lines = "Location: /a\r\nContent-Length: 3\r\n" + ("Content-Length: 3\r\n" if is_sloppy else "")
    head = f"HTTP/1.1 302 Found\r\n{lines}\r\nabc".encode()

    async def go(_: Request, reply: Reply) -> None:
        await reply.send(head)
        if is_sloppy:
            await reply.send(_ok(LENGTH).replace(BODY, BODY[::-1]))

    server.serve("/a", media(BODY))
    async with opened(server.serve("/go", go)) as source:
        assert await read_all(source) == BODY
    assert server.connections == 1 + is_sloppy
