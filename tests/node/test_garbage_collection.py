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


@pytest.mark.parametrize("is_idle", [True, False])
async def test_cycles_are_looked_for_when_no_player_sends_frames(is_idle: bool) -> None:
    time = HandTime()
    collection = GarbageCollection(time.call_later, lambda: is_idle)
    knot = weakref.ref(Knot())
    collection.player_deleted()
    time.forward(GIVE_BACK_INTERVAL_S)
    assert (knot() is None) == is_idle


async def test_cycles_are_looked_for_while_frames_are_sent_only_after_many_ends() -> None:
    time = HandTime()
    collection = GarbageCollection(time.call_later, lambda: False)
    knot = weakref.ref(Knot())
    for _ in range(9_999):
        collection.track_ended()
    time.forward(GIVE_BACK_INTERVAL_S)
    assert knot() is not None
    collection.track_ended()
    time.forward(GIVE_BACK_INTERVAL_S)
    assert knot() is None


async def test_after_the_stop_nothing_is_done() -> None:
    time = HandTime()
    collection = GarbageCollection(time.call_later, lambda: True)
    collection.player_deleted()
    collection.stop()
    knot = weakref.ref(Knot())
    time.forward(GIVE_BACK_INTERVAL_S)
    assert knot() is not None
    gc.collect()
