"""MP4 files of many hours, whose index is larger than any other block that libav may have."""

import io
import struct

import numpy as np
import pytest

from tests.support.audio_files import long_book, m4a, tone, wav
from tests.support.media_files import decode_rest, loudest_hz, open_bytes, samples_of
from tonearm.core.failure import FailureCode, PlayError
from tonearm.worker.media.facts import read_picture
from tonearm.worker.media.formats import limit_allocation_size
from tonearm.worker.media.media import open_media


@pytest.fixture(autouse=True)
def _limits() -> None:
    """As in a decoder process."""
    limit_allocation_size()


# ffmpeg opens them all, in memory without a limit.
@pytest.mark.parametrize("index_first", [True, False])
@pytest.mark.parametrize("hours", [17, 18])
def test_a_book_plays_and_is_sought(hours: int, index_first: bool) -> None:
    """Of 18 hours the index is too large for libav by itself; tests/node plays one of 60."""
    book = long_book(hours, index_first=index_first)
    media = open_bytes(book)
    try:
        assert media.facts.length_ms == pytest.approx(hours * 3_600_000, abs=100)
        assert media.facts.is_seekable
        for hour in (0, hours - 1, hours // 2):
            media.seek((hour * 3600 + 30) * 48_000)
            assert loudest_hz(samples_of(media.decode(24_000))) == pytest.approx(300 + 20 * hour, abs=5)
            media.seek((hour * 3600 + 90) * 48_000)
            assert not samples_of(media.decode(24_000)).any()
    finally:
        media.close()
    assert read_picture(io.BytesIO(book), name="book", content_type=None, size_bytes=len(book)) == b""
    require_small_files_are_limited()


def test_a_file_that_plays_raises_no_limit_of_others() -> None:
    media = open_bytes(wav(np.zeros((180 * 48_000, 2))))
    try:
        assert len(decode_rest(media, 480_000)) == 180 * 48_000
        require_small_files_are_limited()
    finally:
        media.close()


def require_small_files_are_limited() -> None:
    """A file of a few kB says that it has 8 million frames, which are 192 MB of index, and that it is large."""
    file = bytearray(m4a(tone(440, 0.02)))
    sample_sizes, samples_of_chunks = file.find(b"stsz"), file.find(b"stsc")
    struct.pack_into(">II", file, sample_sizes + 8, 1, 8_000_000)
    struct.pack_into(">III", file, samples_of_chunks + 8, 1, 1, 8_000_000)
    for size_bytes in (len(file), 1 << 31):
        with pytest.raises(PlayError) as caught:
            open_media(io.BytesIO(file), name="small", content_type=None, size_bytes=size_bytes)
        assert caught.value.failure.code in (FailureCode.CORRUPT, FailureCode.LIMIT_EXCEEDED)
