"""Sources in parts: what the reader asks the node for behind the end of one."""

from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.worker.reading.reader import RequestingReader

LOST = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The connection was lost.", "Try again.")


class Parts:
    """A reader of `parts`. The node says once that a part has ended, and for ever that the last one has."""

    def __init__(
        self, parts: Sequence[bytes | PlayFailure], *, size_bytes: int | None = None, is_seekable: bool = False
    ) -> None:
        self._answers = [answer for part in parts for answer in (part, b"")]
        self.requests = 0
        self.reader = RequestingReader(size_bytes, is_seekable, self._request_read, nullcontext)

    def _request_read(self, offset: int, length: int) -> None:
        self.requests += 1
        answer = self._answers.pop(0) if self._answers else b""
        if isinstance(answer, PlayFailure):
            self.reader.fail(offset, answer)
        else:
            assert len(answer) <= length
            self.reader.deliver(offset, answer)


def read_part(reader: RequestingReader) -> bytes:
    data = b"".join(iter(lambda: reader.read(7), b""))
    assert reader.read(7) == b""  # libav asks several times
    return data


def test_each_part_is_read_from_its_own_start() -> None:
    parts = Parts([b"first part", b"2", b"the third"])
    reader = parts.reader
    assert read_part(reader) == b"first part"
    assert reader.begin_next_part()
    assert read_part(reader) == b"2"
    assert reader.begin_next_part()
    assert read_part(reader) == b"the third"
    assert not reader.begin_next_part()
    assert not reader.begin_next_part()


def test_a_part_is_not_left_before_its_end() -> None:
    reader = Parts([b"first part", b"second"]).reader
    reader.read(3)
    assert not reader.begin_next_part()


@pytest.mark.parametrize(("size_bytes", "is_seekable"), [(10, False), (None, True), (10, True)])
def test_only_what_may_have_parts_is_asked_for_them(size_bytes: int | None, is_seekable: bool) -> None:
    parts = Parts([b"first part", b"second"], size_bytes=size_bytes, is_seekable=is_seekable)
    read_part(parts.reader)
    requests = parts.requests
    assert not parts.reader.begin_next_part()
    assert parts.requests == requests


def test_a_failure_instead_of_a_part() -> None:
    reader = Parts([b"first part", LOST]).reader
    read_part(reader)
    with pytest.raises(PlayError) as caught:
        reader.begin_next_part()
    assert caught.value.failure == LOST
