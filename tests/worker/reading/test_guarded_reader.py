"""What libav may take from a source, and how a reader's error gets past it."""

import io
from collections.abc import Callable

import pytest

from tests.support.audio_files import Signal, flac, music, opus
from tests.support.hand_time import HandTime
from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.worker.media.media import open_media
from tonearm.worker.reading.guarded_reader import (
    FIRST_BYTES,
    OPENING_BUDGET_BYTES,
    SILENT_BUDGET_BYTES,
    GuardedReader,
    TimedReader,
)
from tonearm.worker.reading.reader import MediaReader


class Answered(io.BytesIO):
    """Each read is answered so."""

    def __init__(self, answer: Callable[[int], bytes | bytearray]) -> None:
        super().__init__()
        self._answer = answer

    def read(self, n: int | None = -1, /) -> bytes:
        return self._answer(n or 0)  # type: ignore[return-value]


def guard(reader: MediaReader) -> GuardedReader:
    return GuardedReader(reader, source_name="song", size_bytes=None)


def test_opening_has_a_deadline_and_playing_has_none() -> None:
    clock = HandTime()
    reader = TimedReader(Answered(bytes), "song", clock.now_s)
    reader.read(10)
    reader.unlimit()
    clock.forward(1000)
    assert reader.read(10) == bytes(10)
    late = TimedReader(Answered(bytes), "song", clock.now_s)
    clock.forward(15.1)
    with pytest.raises(PlayError) as caught:
        late.read(10)
    assert caught.value.failure.code is FailureCode.TIMEOUT


@pytest.mark.parametrize("encode", [flac, opus])
def test_bytes_that_only_trickle_are_a_timeout(encode: Callable[[Signal], bytes]) -> None:
    """Also where a page of Ogg is read whole: that of the sound has 20 kB."""
    clock, taken, file = HandTime(), list[int](), io.BytesIO(encode(music(3.0)))

    def trickle(n: int) -> bytes:
        taken.append(1)
        if len(taken) <= 2:
            return file.read(min(n, FIRST_BYTES))
        clock.forward(1)
        return file.read(1)

    with pytest.raises(PlayError) as caught:
        open_media(Answered(trickle), name="song", content_type=None, size_bytes=None, now_s=clock.now_s)
    assert (caught.value.failure.code, caught.value.failure.stage) == (FailureCode.TIMEOUT, Stage.DECODE)
    assert len(taken) < 30


def test_opening_has_a_budget_and_playing_has_one_from_packet_to_packet() -> None:
    reader = guard(Answered(bytes))
    reader.read(OPENING_BUDGET_BYTES)
    with pytest.raises(PlayError) as caught:
        reader.read(1)
    assert caught.value.failure.code is FailureCode.LIMIT_EXCEEDED
    playing = guard(Answered(bytes))
    playing.begin_playing()
    for _ in range(3):
        playing.read(SILENT_BUDGET_BYTES)
        playing.packet_came()
    playing.read(SILENT_BUDGET_BYTES)
    with pytest.raises(PlayError):
        playing.read(1)


def test_libav_gets_real_bytes_and_not_more_than_it_asked_for_and_nothing_like_a_path_or_a_file_to_write() -> None:
    reader = guard(Answered(lambda n: bytearray(100)))  # as a careless reader does
    data = reader.read(7)
    assert type(data) is bytes
    assert len(data) == 7
    assert not any(hasattr(reader, name) for name in ("name", "mode", "write", "close", "fileno"))


def test_after_an_error_libav_sees_the_end_and_the_error_is_kept() -> None:
    reader = guard(Answered(lambda n: bytes(n // 0)))
    with pytest.raises(ZeroDivisionError):
        reader.read(10)
    assert reader.read(10) == b""
    with pytest.raises(ZeroDivisionError):
        reader.raise_failure()


def test_libav_seeks_from_the_start_from_where_it_is_and_from_the_end() -> None:
    reader = GuardedReader(io.BytesIO(bytes(range(100))), source_name="song", size_bytes=100)
    assert [reader.seek(-4, io.SEEK_END), reader.seek(-6, io.SEEK_CUR), reader.tell()] == [96, 90, 90]
    assert reader.read(2) == bytes([90, 91])
    assert reader.seek(5) == 5
    assert reader.read(1) == b"\5"
    assert guard(io.BytesIO(bytes(100))).seek(0, io.SEEK_END) == -1, "its size is not known"
