"""How much of a remote file is held ready."""

import pytest

from tests.support.eventually import eventually
from tests.support.fetching import opener
from tests.support.media_server import MediaServer, media
from tonearm.core.opened_source import OpenedSource
from tonearm.core.source_uri import parse_source_uri
from tonearm.sources.fetch_settings import (
    LEAST_READ_AHEAD_BYTES,
    MOST_READ_AHEAD_BYTES,
    FetchSettings,
    read_ahead_bytes_at,
)
from tonearm.sources.http.file import HttpFileReader


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
