"""How much of a remote file is held ready around the reading position, and how often a broken transfer is taken up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.eventually import eventually
from tests.support.fetching import opener
from tests.support.media_server import MediaServer, media
from tonearm.core.opened_source import OpenedSource
from tonearm.core.source_uri import parse_source_uri
from tonearm.sources.http.file import HttpFileReader
from tonearm.sources.http.settings import (
    LEAST_READ_AHEAD_BYTES,
    MOST_READ_AHEAD_BYTES,
    FetchSettings,
    read_ahead_bytes_at,
)
from tonearm.sources.read_ahead import EARNED_BACK_BYTES, ReadWindow, RetryBudget


@pytest.mark.parametrize(
    ("size_bytes", "length_ms", "expected"),
    [
        (24_000 * 60, 60_000, 240_000),
        (1_000 * 60, 60_000, LEAST_READ_AHEAD_BYTES),
        (400_000 * 60, 60_000, MOST_READ_AHEAD_BYTES),
        (1_000, 0, MOST_READ_AHEAD_BYTES),
    ],
)
def test_ten_seconds_within_bounds(size_bytes: int, length_ms: int, expected: int) -> None:
    assert read_ahead_bytes_at(size_bytes, length_ms) == expected


async def test_a_source_that_knows_its_pace_reads_ten_seconds_ahead(server: MediaServer) -> None:
    body = bytes(8 * 1024 * 1024)
    settings = FetchSettings(read_ahead_bytes=LEAST_READ_AHEAD_BYTES)
    async with opener(settings=settings) as source_opener:
        source = await source_opener.open(parse_source_uri(server.serve("/song.wav", media(body))))
        assert isinstance(source, OpenedSource)
        reader = source.reader
        assert isinstance(reader, HttpFileReader)
        assert len(await reader.read_at(0, 1024)) > 0
        reader.set_length(80_000)  # 1 MiB in ten seconds
        assert await reader.read_at(1024, 1024)
        await eventually(lambda: reader.held_bytes >= 1024 * 1024, "a mebibyte read ahead")
        assert reader.held_bytes < 1024 * 1024 + 512 * 1024
        await source.close()
        assert reader.held_bytes == 0


def test_takes_what_is_there_and_no_more() -> None:
    window = ReadWindow(100, behind_bytes=10, ahead_bytes=1000)
    assert window.take(5) == b""
    window.append(b"abcdef")
    assert (window.take(4), window.take(4), window.take(4)) == (b"abcd", b"ef", b"")


def test_position_beyond_the_end_drops_what_lies_between() -> None:
    window = ReadWindow(0, behind_bytes=0, ahead_bytes=10)
    window.move_to(8)
    window.append(b"012345")
    assert window.take(10) == b""
    window.append(b"6789")
    assert window.take(10) == b"89"


def test_full_when_enough_lies_ahead_of_the_position() -> None:
    window = ReadWindow(0, behind_bytes=5, ahead_bytes=10)
    window.append(bytes(10))
    assert window.is_full
    window.take(1)
    assert not window.is_full


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=30),
    behind_bytes=st.integers(0, 30),
    places=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 60)), max_size=40),
)
def test_gives_the_bytes_of_the_file_wherever_it_can_reach(
    chunks: list[bytes], behind_bytes: int, places: list[tuple[float, int]]
) -> None:
    whole = b"".join(chunks)
    window = ReadWindow(0, behind_bytes=behind_bytes, ahead_bytes=50)
    waiting = list(chunks)
    for place, max_bytes in places:
        offset = window.start + int(place * (window.end - window.start))
        window.move_to(offset)
        assert window.take(max_bytes) == whole[offset : min(offset + max_bytes, window.end)]
        if waiting:
            window.append(waiting.pop(0))
        assert window.end - window.start <= behind_bytes + 4096 + (window.end - min(window.position, window.end))


def delays(budget: RetryBudget, count: int) -> list[float | None]:
    return [budget.next_delay_s() for _ in range(count)]


def test_each_try_waits_longer_until_none_is_left() -> None:
    assert delays(RetryBudget((0.0, 1.0, 2.0)), 5) == [0.0, 1.0, 2.0, None, None]


def test_tries_are_earned_back_by_bytes() -> None:
    budget = RetryBudget((0.0, 1.0))
    assert delays(budget, 3) == [0.0, 1.0, None]
    budget.earn(EARNED_BACK_BYTES - 1)
    assert delays(budget, 1) == [None]
    budget.earn(1)
    assert delays(budget, 3) == [0.0, 1.0, None]


def test_a_little_after_each_try_earns_nothing() -> None:
    budget = RetryBudget((0.0, 1.0))
    assert delays(budget, 1) == [0.0]
    budget.earn(EARNED_BACK_BYTES - 1)
    assert delays(budget, 1) == [1.0]
    budget.earn(EARNED_BACK_BYTES - 1)
    assert delays(budget, 1) == [None]


def test_bytes_before_the_first_try_earn_nothing_in_advance() -> None:
    budget = RetryBudget((0.0, 1.0))
    budget.earn(10 * EARNED_BACK_BYTES)
    assert delays(budget, 3) == [0.0, 1.0, None]
    budget.earn(1)
    assert delays(budget, 1) == [None]
