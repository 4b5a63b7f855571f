"""Internet radio from real sockets: what is read, which titles come with it, and what becomes of a broken line.

Titles stand in its bytes, however the network cuts them.
"""

import dataclasses
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.eventually import eventually
from tests.support.fetching import QUICK, opened, read_bytes, read_until_failure
from tests.support.media_server import Answer, MediaServer, Reply, in_turn, raw, redirect, status
from tests.support.radio_server import fall_silent, icy_block, radio
from tonearm.core.failure import FailureCode
from tonearm.core.opened_source import OpenedSource, TitleAtByte
from tonearm.sources.http.radio import IcySplitter, RadioReader, metadata_interval, radio_text, stream_title
from tonearm.sources.http.settings import FetchSettings

# No run of these bytes looks like another one.
SOUND: Final = random.Random(3).randbytes(50_000)


@asynccontextmanager
async def tuned_in(server: MediaServer, answer: Answer, settings: FetchSettings = QUICK) -> AsyncIterator[OpenedSource]:
    async with opened(server.serve("/radio.mp3", answer), settings) as source:
        assert isinstance(source.reader, RadioReader)
        yield source


def endless(count: int) -> bytes:
    return (SOUND * (count // len(SOUND) + 1))[:count]


@pytest.mark.parametrize(
    "answer",
    [
        radio(SOUND),
        radio(SOUND, status_line="ICY 200 OK"),
        radio(SOUND, status_line="HTTP/1.1 200 OK", chunked=True),
        raw(b"ICY 200 OK\r\nicy-name:Test F\xfc\r\ncontent-type:audio/mpeg\r\n\r\n" + endless(200_000)),
    ],
)
async def test_sound_comes_without_what_is_mixed_in(server: MediaServer, answer: Answer) -> None:
    async with tuned_in(server, answer) as source:
        assert (source.is_live, source.is_seekable, source.size_bytes) == (True, False, None)
        assert (source.name, source.content_type) == ("radio.mp3", "audio/mpeg")
        assert source.station_name in ("Test FM", "Test Fü")
        assert await read_bytes(source, 180_000) == endless(180_000)
        assert server.connections == 1


async def test_titles_stand_at_their_sound(server: MediaServer) -> None:
    told: dict[int, str | None] = {0: "One", 2: "One", 3: "", 4: "Zwei - Dréi"}
    answer = radio(SOUND, interval=1000, titles=told.get)
    async with tuned_in(server, answer) as source:
        await read_bytes(source, 10_000)
        assert source.reader.take_titles(1000) == []
        assert source.reader.take_titles(1001) == [TitleAtByte(1000, "One")]
        assert source.reader.take_titles(10_000) == [TitleAtByte(5000, "Zwei - Dréi")]
        assert source.reader.take_titles(10_000) == []


async def test_floods_of_titles_are_not_kept_and_refused_after_every_few_bytes(server: MediaServer) -> None:
    answer = radio(bytes(256), interval=256, titles=lambda number: f"{number} " + "x" * 500)
    async with tuned_in(server, answer) as source:
        await read_bytes(source, 100_000)
        assert len(source.reader.take_titles(200_000)) <= 100
    async with tuned_in(server, radio(SOUND, interval=255, stop_after=1000)) as source:
        got, error = await read_until_failure(source)
    assert (got, error.failure.code, len(server.requests)) == (b"", FailureCode.CORRUPT, 2)


async def test_reader_that_takes_nothing_bounds_what_is_held(server: MediaServer) -> None:
    async with tuned_in(server, radio(SOUND)) as source:
        await server.requested(1)
        # The window, and what the kernels of both sides and the client hold.
        assert await server.held_up() < 20_000_000
        assert await read_bytes(source, 300_000) == endless(300_000)


@pytest.mark.parametrize("ends_by", [Reply.cut, Reply.reset, fall_silent])
@pytest.mark.parametrize("chunked", [False, True])
async def test_broken_stream_goes_on(server: MediaServer, ends_by: Callable[[Reply], None], chunked: bool) -> None:
    first = radio(SOUND, stop_after=30_000, ends_by=ends_by, chunked=chunked, status_line="HTTP/1.1 200 OK")
    settings = dataclasses.replace(QUICK, stall_timeout_s=0.2 if ends_by is fall_silent else 5.0)
    async with tuned_in(server, in_turn(first, radio(SOUND)), settings) as source:
        # A reset may take away what was not read yet; what came has to come whole.
        heard = await read_bytes(source, 80_000)
        assert ends_by is Reply.reset or heard == SOUND[:30_000] + SOUND
        assert [request.headers.get("icy-metadata") for request in server.requests] == ["1", "1"]
        assert server.ranges == ["bytes=0-", None]


async def test_offsets_and_titles_count_on(server: MediaServer) -> None:
    first = radio(SOUND, interval=1000, titles={0: "One"}.get, stop_after=2500)
    second = radio(SOUND, interval=1000, titles={0: "One", 1: "Two"}.get)
    async with tuned_in(server, in_turn(first, second)) as source:
        await read_bytes(source, 10_000)
        assert source.reader.take_titles(10_000) == [TitleAtByte(1000, "One"), TitleAtByte(4500, "Two")]


async def test_station_that_stays_away_is_tried_a_few_times_and_then_lost(server: MediaServer) -> None:
    for answer, heard, stall_s in (
        (in_turn(radio(SOUND, stop_after=10_000), status(404), status(503), status(404)), SOUND[:10_000], 5.0),
        (radio(SOUND, stop_after=20_000), SOUND[:20_000] * 6, 5.0),
        (radio(SOUND, stop_after=0, ends_by=fall_silent), b"", 0.1),
    ):
        server.requests.clear()
        settings = dataclasses.replace(QUICK, stall_timeout_s=stall_s)
        async with tuned_in(server, answer, settings) as source:
            got, error = await read_until_failure(source)
        assert (got, error.failure.code) == (heard, FailureCode.CONNECTION_LOST)
        assert len(server.requests) == 6


async def test_it_says_when_it_is_connecting_and_can_be_closed_then(server: MediaServer) -> None:
    settings = dataclasses.replace(QUICK, live_resume_delays_s=(60.0,))
    async with tuned_in(server, radio(SOUND, stop_after=10_000), settings) as source:
        assert not source.reader.is_reconnecting
        await read_bytes(source, 10_000)
        await eventually(lambda: source.reader.is_reconnecting, "the source connects again")
    await server.all_gone()
    assert len(server.requests) == 1


async def test_a_link_is_followed_again(server: MediaServer) -> None:
    server.serve("/one", radio(SOUND, stop_after=10_000))
    server.serve("/two", radio(SOUND))
    link = server.serve("/link", in_turn(redirect("/one"), redirect("/two")))
    async with opened(link) as source:
        assert await read_bytes(source, 20_000) == SOUND[:10_000] * 2
    assert [request.path for request in server.requests] == ["/link", "/one", "/link", "/two"]


def split_all(data: bytes, interval: int | None, cuts: list[int]) -> tuple[bytes, list[TitleAtByte]]:
    """What comes of `data` when it arrives in pieces that end at `cuts`."""
    splitter = IcySplitter(interval)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    sound, titles = b"", []
    for start, end in itertools.pairwise(edges):
        more, found = splitter.feed(data[start:end])
        sound += more
        titles += found
    return sound, titles


titles_or_nothing = st.one_of(st.none(), st.text(st.characters(min_codepoint=32, codec="utf-8"), max_size=60))


@given(
    sound=st.binary(max_size=400),
    interval=st.integers(1, 50),
    titles=st.lists(titles_or_nothing, max_size=12),
    cuts=st.lists(st.integers(0, 2000), max_size=30),
)
def test_sound_and_titles_come_apart_for_every_way_to_cut_the_bytes(
    sound: bytes, interval: int, titles: list[str | None], cuts: list[int]
) -> None:
    told = list(titles)
    mixed = b""
    for start in range(0, len(sound), interval):
        part = sound[start : start + interval]
        mixed += part
        if len(part) == interval:
            title = told.pop(0) if told else None
            mixed += icy_block("" if title is None else f"StreamTitle='{title}';")

    got, found = split_all(mixed, interval, cuts)

    assert got == sound
    assert found == split_all(mixed, interval, [])[1]
    assert all(title.offset % interval == 0 and title.offset <= len(sound) for title in found)


ODD_TITLES: dict[bytes, str | None] = {
    b"StreamTitle='Band - Song';StreamUrl='http://x/';": "Band - Song",
    b"StreamTitle='It's Don't';StreamUrl='';": "It's Don't",
    b"StreamTitle='a';b';StreamUrl='x';": "a';b",
    b"StreamTitle='cut off in the mid": "cut off in the mid",
    b"StreamUrl='http://x/';StreamTitle='Second';": "Second",
    "StreamTitle='Sigur Rós - Hoppípolla';".encode(): "Sigur Rós - Hoppípolla",
    b"StreamTitle='Bj\xf6rk \x96 J\xf3ga';": "Björk \u2013 Jóga",
    b"StreamTitle='\xff\x81';": "ÿ\ufffd",
    b"StreamTitle=' a\tb\r\nc\x07 ';": "a b c",
    b"StreamTitle='';adw_ad='true';durationMilliseconds='30014';adId='38320';insertionType='preroll';": "",
    b"StreamUrl='http://x/';": None,
}


def test_titles_in_odd_forms_are_of_bearable_length_and_fit_for_json() -> None:
    for text, title in ODD_TITLES.items():
        assert stream_title(text) == title
    long = radio_text(b"\xed\xa0\x80" + b"x" * 4000)
    assert len(long) == 1000
    long.encode("utf-8")


def test_a_broken_interval_means_that_all_is_sound() -> None:
    for header in (None, "", "0", "-1", "abc", "16000x", "1e3", "99999999999999999999", "²", "9999999"):
        assert metadata_interval(header) is None
    assert IcySplitter(None).feed(b"abc") == (b"abc", [])
    assert metadata_interval(" 16000 ") == 16000


@given(st.binary(min_size=1, max_size=1000).filter(lambda data: data[9:10] not in (b"", b"\0")))
def test_a_server_that_announces_titles_and_sends_none_is_found_out(data: bytes) -> None:
    """All its bytes are sound: what looked like a block comes as sound, too."""
    sound = data[:9] + bytes((data[9],)) + b"\xff\xfb" + data[10:] + bytes(5000)

    assert split_all(sound, 9, [5, 20]) == (sound, [])
