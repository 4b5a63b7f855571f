"""How much of a remote file is held ready around the reading position, and how often a broken transfer is taken up."""

import asyncio
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from tests.support.fetching import opened
from tests.support.media_server import MediaServer, media
from tonearm.sources.http.file import HttpFileReader
from tonearm.sources.http.settings import LEAST_READ_AHEAD_BYTES, MOST_READ_AHEAD_BYTES, read_ahead_bytes_at
from tonearm.sources.read_ahead import EARNED_BACK_BYTES, ReadWindow, RetryBudget


def test_ten_seconds_within_bounds() -> None:
    assert read_ahead_bytes_at(24_000 * 60, 60_000) == 240_000
    assert read_ahead_bytes_at(1_000 * 60, 60_000) == LEAST_READ_AHEAD_BYTES
    assert read_ahead_bytes_at(400_000 * 60, 60_000) == MOST_READ_AHEAD_BYTES
    assert read_ahead_bytes_at(1_000, 0) == MOST_READ_AHEAD_BYTES


async def test_a_source_that_knows_its_pace_reads_ten_seconds_ahead(server: MediaServer) -> None:
    body = bytes(32 * 1024 * 1024)  # far more than the buffers on the way hold
    async with opened(server.serve("/song.wav", media(body))) as source:
        assert isinstance(source.reader, HttpFileReader)
        source.reader.set_length(320_000)  # 1 MiB in ten seconds
        begin = offset = len(await source.reader.read_at(0, 1024))
        await server.held_up()
        with suppress(TimeoutError):
            async with asyncio.timeout(0):  # what comes without waiting was there
                while offset < len(body):
                    offset += len(await source.reader.read_at(offset, 64 * 1024))
    assert 1024 * 1024 <= offset - begin < 1024 * 1024 + 512 * 1024


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


BIT, ENOUGH = EARNED_BACK_BYTES - 1, EARNED_BACK_BYTES


def test_tries_are_earned_back_by_bytes() -> None:
    """So many bytes come, then the next tries are asked for."""
    rules: list[list[tuple[int, list[float | None]]]] = [
        [(0, [0.0, 1.0, None]), (BIT, [None]), (1, [0.0, 1.0, None, None])],  # each waits longer until none is left
        [(0, [0.0]), (BIT, [1.0]), (BIT, [None])],  # a little after each earns nothing
        [(10 * ENOUGH, [0.0, 1.0, None]), (1, [None])],  # nor does anything before the first
    ]
    for steps in rules:
        budget = RetryBudget((0.0, 1.0))
        for earned_bytes, expected in steps:
            budget.earn(earned_bytes)
            assert [budget.next_delay_s() for _ in expected] == expected
