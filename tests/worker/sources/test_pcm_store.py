import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonearm.core.frame import SAMPLE_BLOCK_BYTES
from tonearm.worker.sources.pcm_store import PcmStore


def numbered(start: int, count: int) -> bytes:
    """Sample blocks that each hold their number."""
    return np.arange(start, start + count, dtype="<u4").tobytes()


def filled(start: int, *lengths: int) -> PcmStore:
    store = PcmStore(start)
    for length in lengths:
        store.append(numbered(store.end, length))
    return store


@given(st.lists(st.integers(1, 50), min_size=1, max_size=10), st.data())
def test_any_part_is_read_as_it_was_written(lengths: list[int], data: st.DataObject) -> None:
    store = filled(0, *lengths)
    start = data.draw(st.integers(0, store.end))
    count = data.draw(st.integers(0, store.end - start))
    store.release_before(data.draw(st.integers(0, start)))
    assert store.read(start, count) == numbered(start, count)
    assert bytes(store.view(start, count)) == numbered(start, count)


@pytest.mark.parametrize(("start", "count"), [(0, 1), (9, 1), (9, 2), (25, 16), (40, 1), (100, 1)])
def test_reading_samples_that_the_store_does_not_hold_is_an_error(start: int, count: int) -> None:
    store = filled(0, 10, 30)
    store.release_before(10)
    for read in (store.read, store.view):
        with pytest.raises(LookupError, match="of a store of 10 to 40"):
            read(start, count)


def test_only_chunks_wholly_before_are_released() -> None:
    store = filled(0, 10, 10, 10)
    store.release_before(19)
    assert store.oldest == 10
    assert store.read(10, 20) == numbered(10, 20)
    store.release_before(20)
    assert store.oldest == 20
    store.release_before(1000)
    assert (store.oldest, store.end, store.start) == (30, 30, 0)
    store.append(numbered(30, 5))
    assert store.read(30, 5) == numbered(30, 5)


def test_samples_before_end_can_be_read_while_another_thread_appends() -> None:
    store = PcmStore(0)
    count = 3000

    def write() -> None:
        for _ in range(count):
            store.append(numbered(store.end, 7))

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while seen < count * 7:
        end = store.end
        assert store.read(seen, end - seen) == numbered(seen, end - seen)
        store.release_before(seen)
        seen = end
    writer.join()
    assert len(store.read(store.end - 7, 7)) == 7 * SAMPLE_BLOCK_BYTES
