"""The bytes of a source, from a file or from the node: whole, and the slot is free wherever a reader waits for them."""

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.decoder.messages import DATA_CHUNK_BYTES
from tonearm.worker.reading.reader import DISK_CHUNK_BYTES, DescriptorReader, Dropped, RequestingReader

LOST = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The connection was lost.", "Try again.")
BYTES = b"".join(number.to_bytes(4, "big") for number in range(60_000))  # 240 000 bytes: 4 chunks, the last one short
WAITED = ["release", "acquire"]


class Slot:
    """Notes when it is released and acquired again. `meanwhile` happens while it is released."""

    def __init__(self) -> None:
        self.waits: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    @contextmanager
    def released(self) -> Iterator[None]:
        self.waits.append("release")
        self.meanwhile()
        yield
        self.waits.append("acquire")


class Node:
    """A reader with its node: requests are noted, and answered at once or as the test says."""

    def __init__(self, *, answers: bool = True, fails_at: int | None = None) -> None:
        self.requests: list[int] = []
        self.slot = Slot()
        self.answers = answers
        self.fails_at = fails_at
        self.reader = RequestingReader(len(BYTES), True, self._request_read, self.slot.released)

    def answer(self, *offsets: int) -> None:
        for offset in offsets:
            self.reader.deliver(offset, BYTES[offset : offset + DATA_CHUNK_BYTES])

    def _request_read(self, offset: int, length: int) -> None:
        assert length == DATA_CHUNK_BYTES
        self.requests.append(offset)
        if offset == self.fails_at:
            self.reader.fail(offset, LOST)
        elif self.answers:
            self.answer(offset)


def all_of(reader: RequestingReader | DescriptorReader, n: int) -> bytes:
    return b"".join(iter(lambda: reader.read(n), b""))


def read_at(reader: RequestingReader | DescriptorReader, *offsets: int) -> None:
    for offset in offsets:
        assert reader.seek(offset) == offset
        assert reader.read(4) == BYTES[offset : offset + 4]


@pytest.mark.parametrize("n", [7, 4096, DATA_CHUNK_BYTES, 10**6])
def test_everything_is_read_in_order_and_its_end_is_requested_once(n: int) -> None:
    node = Node()
    assert all_of(node.reader, n) == BYTES
    assert [node.reader.read(100) for _ in range(5)] == [b""] * 5
    assert node.requests == [0, 65_536, 131_072, 196_608, 240_000]
    assert node.slot.waits == []  # a chunk that has arrived is read without a wait
    read_at(node.reader, 4, 50_000, 50_000)
    assert node.requests[5:] == [4, 65_540]  # within the chunk nothing is requested
    read_at(node.reader, len(BYTES) - 8, 8, len(BYTES))


def test_one_chunk_is_requested_ahead_and_what_comes_late_for_older_requests_is_ignored() -> None:
    node = Node(answers=False)
    node.slot.meanwhile = lambda: node.answer(0)
    assert node.reader.read(100) == BYTES[:100]
    assert node.reader.read(60_000) == BYTES[100:60_100]
    assert node.requests == [0, 65_536]  # requested before it is needed, and only one
    assert node.slot.waits == WAITED
    node.reader.seek(150_000)
    node.slot.meanwhile = lambda: node.answer(65_536, 0, 150_000)
    assert node.reader.read(100) == BYTES[150_000:150_100]
    assert node.slot.waits == WAITED * 2
    node.answer(150_000, 65_536)  # twice, and one that nobody waits for any more
    assert node.reader.read(10**6) == BYTES[150_100 : 150_000 + DATA_CHUNK_BYTES]


def test_a_failure_comes_after_the_bytes_before_it_and_a_dropped_reader_reads_no_more() -> None:
    node = Node(fails_at=2 * DATA_CHUNK_BYTES)
    whole = b"".join(node.reader.read(50_000) for _ in range(4))
    assert whole == BYTES[: 2 * DATA_CHUNK_BYTES]
    for _ in range(2):
        with pytest.raises(PlayError) as caught:
            node.reader.read(1)
        assert caught.value.failure == LOST
    read_at(node.reader, 3 * DATA_CHUNK_BYTES, DATA_CHUNK_BYTES, 3 * DATA_CHUNK_BYTES)
    node.reader.drop()
    with pytest.raises(Dropped):  # even of its chunk
        node.reader.read(100)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda reader: reader.deliver(0, BYTES[:DATA_CHUNK_BYTES]), None),
        (lambda reader: reader.fail(0, LOST), PlayError),
        (lambda reader: reader.drop(), Dropped),
    ],
    ids=["bytes", "a failure", "dropping"],
)
def test_a_wait_ends_by_another_thread_with_the_slot_acquired_again(
    end: Callable[[RequestingReader], None], error: type[Exception] | None
) -> None:
    node = Node(answers=False)
    node.slot.meanwhile = threading.Timer(0.05, end, [node.reader]).start
    with nullcontext() if error is None else pytest.raises(error):
        assert node.reader.read(100) == BYTES[:100]
    assert node.slot.waits == WAITED


class Disk:
    """Reads of a file, and how it is read: from the page cache, or with a wait where that answers with an error or, if
    `refusal` is 0, with nothing."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path.write_bytes(BYTES)
        self.refusal: int | None = None
        self.slot = Slot()
        self.reads: list[int] = []  # from the disk: how many bytes each time
        self.queries = 0
        self._read, self._read_cached = os.pread, os.preadv
        monkeypatch.setattr(os, "pread", self._pread)
        monkeypatch.setattr(os, "preadv", self._preadv)
        self.descriptor = os.open(path, os.O_RDONLY)
        self.reader = DescriptorReader(self.descriptor, len(BYTES), self.slot.released)

    def _pread(self, descriptor: int, length: int, offset: int) -> bytes:
        assert self.slot.waits[-1:] == ["release"], "a read that may block in the slot"
        self.reads.append(length)
        return self._read(descriptor, length, offset)

    def _preadv(self, descriptor: int, buffers: tuple[bytearray], offset: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        self.queries += 1
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        return 0 if self.refusal == 0 else self._read_cached(descriptor, buffers, offset)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(tmp_path / "bytes", monkeypatch)
    yield disk
    disk.reader.close()


@pytest.mark.parametrize(
    ("refusal", "reads", "queries"),
    [
        (None, 0, 61),
        (errno.EAGAIN, 3, 3),  # the third finds the end
        *((refusal, 3, 1) for refusal in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM)),
        (0, 2, 3),  # as Linux 5.9 and 5.10 for what they lack (preadv2(2), bugs)
    ],
)
def test_a_file_is_read_from_the_cache_or_in_large_pieces_without_the_slot(
    disk: Disk, refusal: int | None, reads: int, queries: int
) -> None:
    shared = os.dup(disk.descriptor)  # shares its position, as a descriptor that the node keeps would
    disk.refusal = refusal
    assert disk.reader.seekable()
    assert all_of(disk.reader, 4000) == BYTES
    assert disk.reads == [DISK_CHUNK_BYTES] * reads
    assert disk.slot.waits == WAITED * reads
    assert disk.queries == queries
    assert os.lseek(shared, 0, os.SEEK_CUR) == 0
    os.close(shared)


def test_of_a_chunk_that_was_read_from_the_disk_nothing_is_read_again(disk: Disk) -> None:
    disk.refusal = errno.EAGAIN
    read_at(disk.reader, 0, 100_000, 200_000)
    assert len(disk.reads) == 2
    disk.refusal = None
    read_at(disk.reader, 8)
    assert len(disk.reads) == 2


def test_dropping_during_a_read_of_the_disk_ends_it_and_the_file_is_read_no_more(disk: Disk) -> None:
    disk.refusal = errno.EAGAIN
    disk.slot.meanwhile = disk.reader.drop
    for _ in range(2):
        with pytest.raises(Dropped):
            disk.reader.read(100)
    assert disk.slot.waits == WAITED


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    reader = DescriptorReader(os.open(tmp_path, os.O_RDONLY), 0, nullcontext)
    with pytest.raises(PlayError, match="Reading the file failed: Is a directory") as caught:
        reader.read(100)
    assert caught.value.failure.code is FailureCode.FILE_UNREADABLE
    reader.close()


def reader_of_parts(
    parts: Sequence[bytes | PlayFailure], *, size_bytes: int | None = None, is_seekable: bool = False
) -> RequestingReader:
    """The node says once that a part has ended, and for ever that the last one has."""
    answers = [answer for part in parts for answer in (part, b"")]

    def request_read(offset: int, length: int) -> None:
        answer = answers.pop(0) if answers else b""
        if isinstance(answer, PlayFailure):
            reader.fail(offset, answer)
        else:
            reader.deliver(offset, answer)

    reader = RequestingReader(size_bytes, is_seekable, request_read, nullcontext)
    return reader


def read_part(reader: RequestingReader) -> bytes:
    data = all_of(reader, 7)
    assert reader.read(7) == b""  # libav asks several times
    return data


def test_each_part_is_read_from_its_own_start_and_none_is_left_before_its_end() -> None:
    reader = reader_of_parts([b"first part", b"2", b"the third", LOST])
    for part in (b"first part", b"2"):
        assert read_part(reader) == part
        assert reader.begin_next_part()
    assert reader.read(3) == b"the"
    assert not reader.begin_next_part()
    assert read_part(reader) == b" third"
    with pytest.raises(PlayError, match=LOST.message):
        reader.begin_next_part()
    assert [reader.begin_next_part() for _ in range(2)] == [False, False]


@pytest.mark.parametrize(("size_bytes", "is_seekable"), [(10, False), (None, True), (10, True)])
def test_only_what_may_have_parts_is_asked_for_them(size_bytes: int | None, is_seekable: bool) -> None:
    reader = reader_of_parts([b"first part", LOST], size_bytes=size_bytes, is_seekable=is_seekable)
    read_part(reader)
    assert not reader.begin_next_part()
