"""Reading a remote file: in order, by jumps, and past a server's faults."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from tests.support.fetching import IMPATIENT, QUICK, opened, read_all, read_until_failure
from tests.support.media_server import Answer, MediaServer, in_turn, media, raw, reset, stall, status
from tonearm.core.failure import FailureCode, PlayError, Stage

BODY = random.Random(1).randbytes(1_000_000)


async def test_whole_file_with_one_request(server: MediaServer) -> None:
    async with opened(server.serve("/a/My%20song.mp3", media(BODY))) as source:
        assert (source.size_bytes, source.is_seekable, source.is_live) == (len(BODY), True, False)
        assert (source.name, source.content_type) == ("My song.mp3", "audio/mpeg")
        assert await read_all(source) == BODY
        assert server.ranges == ["bytes=0-"]
        assert server.requests[0].headers["accept-encoding"] == "identity"
        assert server.requests[0].headers["user-agent"] == "tonearm-test/1"


@pytest.mark.parametrize("way", ["length", "chunks", "until the connection ends"])
async def test_server_without_ranges_is_read_in_order(server: MediaServer, way: str) -> None:
    answer = media(BODY, ranges=False, chunked=way == "chunks")
    if way == "until the connection ends":
        answer = raw(b"HTTP/1.0 200 OK\r\n\r\n" + BODY)
    async with opened(server.serve("/a", answer)) as source:
        assert (source.size_bytes, source.is_seekable) == (len(BODY) if way == "length" else None, False)
        assert await read_all(source) == BODY
        assert len(server.requests) == 1
        if way == "length":
            assert await source.reader.read_at(0, 10) == BODY[:10]  # while it is probed it is asked for anew
            assert len(server.requests) == 2


async def test_small_jumps_need_no_request_and_a_look_at_the_end_and_back_one(server: MediaServer) -> None:
    async with opened(server.serve("/a", media(BODY))) as source:
        for offset in (0, 10, 60_000, 50_000):
            assert await source.reader.read_at(offset, 5) == BODY[offset : offset + 5]
        assert server.ranges == ["bytes=0-"]
        assert await read_all(source, len(BODY) - 128) == BODY[-128:]
        assert await read_all(source, 100) == BODY[100:]
        assert server.ranges == ["bytes=0-", f"bytes={len(BODY) - 128}-"]
        assert server.requests[1].headers["if-range"] == '"one"'


async def test_jumps_to_and_fro(server: MediaServer) -> None:
    places = random.Random(2)
    async with opened(server.serve("/a", media(BODY))) as source:
        for offset in (*(places.randrange(len(BODY)) for _ in range(60)), len(BODY), len(BODY) + 5):
            got = await source.reader.read_at(offset, 50_000)
            assert bool(got) == (offset < len(BODY))
            assert got == BODY[offset : offset + len(got)]


async def test_jump_without_ranges_is_refused_in_clear_words(server: MediaServer) -> None:
    big = BODY * 4
    async with opened(server.serve("/a", media(big, ranges=False))) as source:
        await source.reader.read_at(0, 10)
        with pytest.raises(PlayError, match="range requests"):
            await source.reader.read_at(3_500_000, 10)
        assert await source.reader.read_at(10, 10) == big[10:20]


@pytest.mark.parametrize("ranges", [True, False])
async def test_a_server_that_gives_all_of_a_file_whole_is_asked_for_its_last_byte(
    server: MediaServer, ranges: bool
) -> None:
    """As Tornado answers. Others only say that they have ranges."""
    says = "Accept-Ranges: bytes\r\n"
    answer = in_turn(media(BODY, ranges=False, headers=says), media(BODY, ranges=ranges, headers=says))
    async with opened(server.serve("/a", answer)) as source:
        assert (source.size_bytes, source.is_seekable) == (len(BODY), ranges)
        assert await source.reader.read_at(0, 10) == BODY[:10]
        if ranges:
            assert await source.reader.read_at(900_000, 10) == BODY[900_000:900_010]
        assert server.ranges[:2] == ["bytes=0-", f"bytes={len(BODY) - 1}-"]
        assert len(server.requests) == 2 + ranges


@pytest.mark.parametrize(("ranges", "chunked"), [(False, False), (False, True), (True, False)])
async def test_empty_file(server: MediaServer, ranges: bool, chunked: bool) -> None:
    with pytest.raises(PlayError) as caught:
        async with opened(server.serve("/a", media(b"", ranges=ranges, chunked=chunked))) as source:
            await source.reader.read_at(0, 10)
    assert caught.value.failure.code == FailureCode.EMPTY


async def test_memory_does_not_grow_with_the_file(server: MediaServer) -> None:
    big = bytes(48 * 1024 * 1024)
    async with opened(server.serve("/a", media(big))) as source:
        await source.reader.read_at(0, 10)
        # The window, the client's buffer, and what the system keeps for two loopback sockets.
        assert await server.held_up() < 16 * 1024 * 1024


CUT = media(BODY, cut_after=300_000)


@pytest.mark.parametrize(
    ("answer", "starts"),
    [
        (in_turn(CUT, media(BODY, cut_after=200_000), media(BODY)), (0, 300_000, 500_000)),
        (media(BODY, at_most=100_000), range(0, 1_000_000, 100_000)),
        (in_turn(CUT, status(503), reset(), media(BODY)), (0, 300_000, 300_000, 300_000)),
        (in_turn(media(BODY, stall_after=300_000), media(BODY)), (0, 300_000)),
        (in_turn(CUT, stall(), media(BODY)), (0, 300_000, 300_000)),
    ],
)
async def test_a_broken_transfer_goes_on_where_it_stopped(
    server: MediaServer, answer: Answer, starts: Sequence[int]
) -> None:
    async with opened(server.serve("/a", answer), IMPATIENT) as source:
        assert await read_all(source) == BODY
        assert server.ranges == [f"bytes={start}-" for start in starts]
        assert {request.headers["if-range"] for request in server.requests[1:]} == {'"one"'}


@pytest.mark.parametrize(
    ("answer", "got", "told", "requests"),
    [
        (in_turn(media(BODY, cut_after=5000), media(BODY, cut_after=1)), 5005, "connection_lost", 6),
        (in_turn(CUT, media(BODY[::-1], etag='"two"')), 300_000, "connection_lost changed", 2),
        (media(BODY, ranges=False, chunked=True, cut_after=90_000), 90_000, "connection_lost", 1),
        (media(BODY, ranges=False, length=len(BODY) + 10), len(BODY), "connection_lost", 1),
        (media(BODY, ranges=False, stall_after=1000), 1000, "timeout", 1),
    ],
)
async def test_what_arrived_is_given_out_before_the_failure(
    server: MediaServer, answer: Answer, got: int, told: str, requests: int
) -> None:
    code, _, word = told.partition(" ")
    async with opened(server.serve("/a", answer), IMPATIENT if code == "timeout" else QUICK) as source:
        data, error = await read_until_failure(source)
        assert data == BODY[:got]
        assert (error.failure.code, error.failure.stage) == (code, Stage.READ)
        assert word in error.failure.message
        assert len(server.requests) == requests


async def test_expired_redirect_target_is_asked_for_anew(server: MediaServer) -> None:
    server.serve("/old", in_turn(media(BODY, cut_after=300_000), status(403)))
    server.serve("/new", media(BODY))
    link = server.serve("/link", in_turn(status(302, "Location: /old\r\n"), status(302, "Location: /new\r\n")))
    async with opened(link) as source:
        assert await read_all(source) == BODY
    assert [request.path for request in server.requests] == ["/link", "/old", "/old", "/link", "/new"]


@pytest.mark.parametrize("answer", [media(BODY, stall_after=10), in_turn(media(BODY), stall())])
async def test_closing_ends_a_waiting_read_and_the_connection(server: MediaServer, answer: Answer) -> None:
    async with opened(server.serve("/a", answer)) as source:
        waiting = asyncio.create_task(source.reader.read_at(900_000, 100))  # the second answer is for a jump
        await server.requested(2)
        await source.close()
        with pytest.raises(PlayError):
            await waiting
        await server.all_gone()
