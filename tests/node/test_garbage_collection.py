"""Memory that a node has freed goes back to the system, and cycles are looked for when nobody hears it."""

import ctypes
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.hand_time import HandTime
from tonearm.node.garbage_collection import GIVE_BACK_INTERVAL_S, GarbageCollection


@pytest.fixture(autouse=True)
def no_other_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


class Knot:
    """An object that only the collector of cycles frees."""

    def __init__(self) -> None:
        self.itself = self


def private_mb() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) / 1024


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the libc is not glibc")
async def test_memory_between_blocks_in_use_goes_back_after_a_while() -> None:
    time = HandTime()
    collection = GarbageCollection(time.call_later, lambda: False)
    blocks = [bytes(2000) for _ in range(20_000)]
    for number in range(len(blocks)):
        if number % 50:
            blocks[number] = b""
    held_mb = private_mb()
    collection.player_deleted()
    time.forward(GIVE_BACK_INTERVAL_S)
    await eventually(lambda: private_mb() < held_mb - 15, "the memory is given back")
    assert len(blocks) == 20_000


@pytest.mark.parametrize(
    ("is_idle", "ends", "is_stopped", "collects"),
    [(True, 0, False, True), (False, 0, False, False), (False, 9_999, False, True), (True, 0, True, False)],
)
async def test_cycles_are_looked_for_when_no_player_sends_frames_or_after_many_ends(
    is_idle: bool, ends: int, is_stopped: bool, collects: bool
) -> None:
    time = HandTime()
    collection = GarbageCollection(time.call_later, lambda: is_idle)
    knot = weakref.ref(Knot())
    for _ in range(ends):
        collection.track_ended()
    time.forward(GIVE_BACK_INTERVAL_S)
    assert knot() is not None
    collection.player_deleted()
    if is_stopped:
        collection.stop()
    time.forward(GIVE_BACK_INTERVAL_S)
    assert (knot() is None) == collects
