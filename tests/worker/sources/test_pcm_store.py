import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonearm.worker.sources.pcm_store import PcmStore

KINDS = st.sampled_from(["append", "append", "release", "read", "read", "continue"])
STEPS = st.lists(st.tuples(KINDS, st.integers(1, 50)), max_size=40)


def numbered(start: int, count: int) -> bytes:
    """Sample blocks that each hold their number."""
    return np.arange(start, start + count, dtype="<u4").tobytes()


@given(st.integers(0, 9), STEPS, st.data())
def test_what_was_appended_is_read_until_its_chunk_is_released_and_nothing_else_is(
    start: int, steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    store, ends = PcmStore(start), [start]
    oldest = start
    for step, count in steps:
        end = ends[-1]
        sample = data.draw(st.integers(max(oldest - 2, 0), end + 2))
        match step:
            case "append":
                store.append(numbered(end, count))
                ends.append(end + count)
            case "release":
                store.release_before(sample)
                oldest = max(oldest, *(end for end in ends if end <= sample), 0)
            case "read" if oldest <= sample <= sample + count <= end:
                assert store.read(sample, count) == bytes(store.view(sample, count)) == numbered(sample, count)
            case "read":
                for read in (store.read, store.view):
                    with pytest.raises(LookupError, match=f"of a store of {oldest} to {end}"):
                        read(sample, count)
            case "continue":
                continued = store.continued_from(sample)
                assert (continued is not None) is (oldest <= sample <= end)
                if continued is not None:
                    assert (continued.start, continued.oldest, continued.end) == (sample, sample, end)
                    assert continued.read(sample, end - sample) == numbered(sample, end - sample)
        assert (store.start, store.oldest, store.end) == (start, oldest, ends[-1])
