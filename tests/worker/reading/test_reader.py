import errno
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.support.eventually import PATIENCE_S
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.decoder.messages import DATA_CHUNK_BYTES
from tonearm.worker.reading.reader import DISK_CHUNK_BYTES, DescriptorReader, Dropped, RequestingReader

LOST = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The connection was lost.", "Try again.")
BYTES = b"".join(number.to_bytes(4, "big") for number in range(60_000))  # 240 000 bytes: 4 chunks, the last one short


@contextmanager
def without_slot(waits: list[str]) -> Iterator[None]:
    """Notes when the slot is released and acquired again."""
    waits.append("release")
    yield
    waits.append("acquire")


class Node:
    """A reader with its node: requests are noted, and answered as the test says."""

    def __init__(self, *, size_bytes: int | None = len(BYTES), is_seekable: bool = True, answers: bool = True) -> None:
        self.requests: list[int] = []
        self.waits: list[str] = []
        self.request_queue: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.answers = answers
        self.fails_at: int | None = None
        self.reader = RequestingReader(size_bytes, is_seekable, self._request_read, lambda: without_slot(self.waits))

    def waiting_at(self, offset: int) -> "Reading":
        """A read that has asked for this offset."""
        reading = Reading(self.reader)
        assert self.request_queue.get(timeout=PATIENCE_S) == offset
        return reading

    def answer(self, offset: int) -> None:
        self.reader.deliver(offset, BYTES[offset : offset + DATA_CHUNK_BYTES])

    def _request_read(self, offset: int, length: int) -> None:
        assert length == DATA_CHUNK_BYTES
        self.requests.append(offset)
        self.request_queue.put(offset)
        if offset == self.fails_at:
            self.reader.fail(offset, LOST)
        elif self.answers:
            self.answer(offset)


class Reading:
    """A read in a thread of its own."""

    def __init__(self, reader: RequestingReader, n: int = 100) -> None:
        self._outcome: bytes | Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(reader, n), daemon=True)
        self._thread.start()

    @property
    def is_going_on(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> bytes:
        self._thread.join(PATIENCE_S)
        assert self._outcome is not None, "it still reads"
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def _run(self, reader: RequestingReader, n: int) -> None:
        try:
            self._outcome = reader.read(n)
        except PlayError as error:
            self._outcome = error


def all_of(reader: RequestingReader | DescriptorReader, n: int) -> bytes:
    return b"".join(iter(lambda: reader.read(n), b""))


@pytest.mark.parametrize("n", [7, 4096, DATA_CHUNK_BYTES, 10**6])
def test_everything_is_read_in_order_and_its_end_is_requested_once(n: int) -> None:
    node = Node()
    assert all_of(node.reader, n) == BYTES
    assert [node.reader.read(100) for _ in range(5)] == [b""] * 5
    assert node.requests == [0, 65_536, 131_072, 196_608, 240_000]
    assert node.waits == []  # a chunk that has arrived is read without a wait
    node.reader.seek(4)
    assert node.reader.read(4) == BYTES[4:8]
    node.reader.seek(len(BYTES))
    assert node.reader.read(4) == b""


def test_one_chunk_is_requested_while_another_is_read_and_the_slot_is_released_around_every_wait() -> None:
    node = Node(answers=False)
    first = node.waiting_at(0)
    node.answer(0)
    assert first.result() == BYTES[:100]
    assert node.requests == [0, 65_536]  # requested before it is needed …
    assert node.waits in (["release", "acquire"], [])  # [] when the answer was faster than the wait
    node.waits.clear()
    node.reader.read(60_000)
    assert node.requests == [0, 65_536]  # … and only one
    node.reader.read(10**6)
    reading = Reading(node.reader)
    while node.waits != ["release"]:
        assert reading.is_going_on
    node.answer(65_536)
    reading.result()
    assert node.waits == ["release", "acquire"]


def test_seeking_within_the_chunk_requests_nothing_and_elsewhere_that_offset() -> None:
    node = Node()
    node.reader.read(100)
    requests = list(node.requests)
    for _ in range(2):
        assert node.reader.seek(50_000) == 50_000
        assert node.reader.read(4) == BYTES[50_000:50_004]
    assert node.requests == requests
    node.reader.seek(len(BYTES) - 8)
    assert node.reader.read(100) == BYTES[-8:]
    node.reader.seek(8)
    assert node.reader.read(4) == BYTES[8:12]


def test_what_comes_late_for_an_older_request_is_ignored() -> None:
    node = Node(answers=False)
    first = node.waiting_at(0)
    node.reader.fail(DATA_CHUNK_BYTES, LOST)
    node.answer(0)
    assert first.result() == BYTES[:100]
    assert node.request_queue.get(timeout=PATIENCE_S) == 65_536

    node.reader.seek(150_000)
    reading = node.waiting_at(150_000)
    node.answer(65_536)
    node.answer(0)
    assert reading.is_going_on
    node.answer(150_000)
    assert reading.result() == BYTES[150_000:150_100]
    node.answer(150_000)  # twice
    node.answer(65_536)
    rest = Reading(node.reader, 10**6)
    assert rest.result() == BYTES[150_100 : 150_000 + DATA_CHUNK_BYTES]


def test_a_failure_comes_after_the_bytes_before_it() -> None:
    node = Node()
    node.reader.read(100)  # the second chunk has arrived as well
    node.fails_at = 2 * DATA_CHUNK_BYTES
    whole = b"".join(node.reader.read(50_000) for _ in range(4))
    assert whole == BYTES[100 : 2 * DATA_CHUNK_BYTES]
    for _ in range(2):
        with pytest.raises(PlayError) as caught:
            node.reader.read(1)
        assert caught.value.failure == LOST


def test_a_failed_read_ahead_does_not_fail_a_read_elsewhere() -> None:
    node = Node()
    node.fails_at = DATA_CHUNK_BYTES
    assert node.reader.read(100) == BYTES[:100]  # the next chunk was requested and failed
    node.reader.seek(3 * DATA_CHUNK_BYTES)
    assert node.reader.read(100) == BYTES[3 * DATA_CHUNK_BYTES : 3 * DATA_CHUNK_BYTES + 100]
    node.reader.seek(DATA_CHUNK_BYTES)
    with pytest.raises(PlayError, match="connection was lost"):
        node.reader.read(100)


@pytest.mark.parametrize(
    ("end", "error"),
    [(lambda reader: reader.fail(0, LOST), PlayError), (lambda reader: reader.drop(), Dropped)],
    ids=["a failure", "dropping"],
)
def test_a_wait_ends_with_the_slot_acquired_again(
    end: Callable[[RequestingReader], None], error: type[Exception]
) -> None:
    node = Node(answers=False)
    reading = Reading(node.reader)
    while node.waits != ["release"]:
        assert reading.is_going_on
    end(node.reader)
    with pytest.raises(error):
        reading.result()
    assert node.waits == ["release", "acquire"]


def test_a_dropped_reader_reads_no_more_even_of_its_chunk() -> None:
    node = Node()
    node.reader.read(100)
    node.reader.drop()
    with pytest.raises(Dropped):
        node.reader.read(100)


class Disk:
    """Reads of a file, and how it is read: from the page cache if `cached`, else with a wait."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path.write_bytes(BYTES)
        self.cached = True
        self.refusal = 0
        self.waits: list[str] = []
        self.reads: list[int] = []  # from the disk: how many bytes each time
        self.queries = 0
        self._read, self._read_cached = os.pread, os.preadv
        monkeypatch.setattr(os, "pread", self._pread)
        monkeypatch.setattr(os, "preadv", self._preadv)
        self.descriptor = os.open(path, os.O_RDONLY)
        self.reader = DescriptorReader(self.descriptor, len(BYTES), lambda: without_slot(self.waits))

    def _pread(self, descriptor: int, length: int, offset: int) -> bytes:
        assert self.waits[-1:] == ["release"], "a read that may block in the slot"
        self.reads.append(length)
        return self._read(descriptor, length, offset)

    def _preadv(self, descriptor: int, buffers: tuple[bytearray], offset: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        self.queries += 1
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        if not self.cached:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return self._read_cached(descriptor, buffers, offset)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(tmp_path / "bytes", monkeypatch)
    yield disk
    disk.reader.close()


def test_a_cached_file_is_read_in_the_slot_and_the_position_of_the_descriptor_is_left_alone(disk: Disk) -> None:
    shared = os.dup(disk.descriptor)  # shares its position, as a descriptor that the node keeps would
    assert disk.reader.seekable()
    assert all_of(disk.reader, 32_768) == BYTES
    for offset in (len(BYTES) - 4, 12):
        disk.reader.seek(offset)
        assert disk.reader.read(4) == BYTES[offset : offset + 4]
    assert disk.waits == []
    assert os.lseek(shared, 0, os.SEEK_CUR) == 0
    os.close(shared)


def test_the_slot_is_released_for_each_read_of_the_disk_and_such_reads_are_large(disk: Disk) -> None:
    disk.cached = False
    assert all_of(disk.reader, 5000) == BYTES
    assert disk.waits == ["release", "acquire"] * len(disk.reads)
    assert disk.reads == [DISK_CHUNK_BYTES] * 3  # the third finds the end


def test_seeks_leave_the_chunk_that_was_read_from_the_disk(disk: Disk) -> None:
    disk.cached = False
    disk.reader.read(100)
    disk.reader.seek(100_000)
    assert disk.reader.read(4) == BYTES[100_000:100_004]
    assert len(disk.reads) == 1
    disk.reader.seek(200_000)
    assert disk.reader.read(4) == BYTES[200_000:200_004]
    disk.cached = True
    disk.reader.seek(8)
    assert disk.reader.read(4) == BYTES[8:12]
    assert len(disk.reads) == 2


@pytest.mark.parametrize("refusal", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM])
def test_where_the_cache_cannot_be_asked_the_disk_is_read(disk: Disk, refusal: int) -> None:
    disk.refusal = refusal
    assert all_of(disk.reader, 5000) == BYTES
    assert disk.queries == 1
    assert disk.waits == ["release", "acquire"] * 3


def test_a_kernel_that_answers_zero_for_what_it_lacks_is_not_believed(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux 5.9 and 5.10 do so (preadv2(2), bugs)."""
    monkeypatch.setattr(os, "preadv", lambda *arguments: 0)
    assert all_of(disk.reader, 32_768) == BYTES


def test_dropping_during_a_read_of_the_disk_ends_it_and_the_file_is_read_no_more(disk: Disk) -> None:
    disk.cached = False
    read = disk._read

    def drop_and_read(descriptor: int, length: int, offset: int) -> bytes:
        disk.reader.drop()
        return read(descriptor, length, offset)

    disk._read = drop_and_read
    for _ in range(2):
        with pytest.raises(Dropped):
            disk.reader.read(100)
    assert disk.waits == ["release", "acquire"]


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    reader = DescriptorReader(os.open(tmp_path, os.O_RDONLY), 0, nullcontext)
    with pytest.raises(PlayError, match="Reading the file failed: Is a directory") as caught:
        reader.read(100)
    assert caught.value.failure.code is FailureCode.FILE_UNREADABLE
    reader.close()


# Sources in parts: what the node is asked for behind the end of one


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
