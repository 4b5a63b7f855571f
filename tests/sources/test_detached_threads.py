"""Blocking calls beside the event loop."""

import asyncio
import threading

import pytest

from tests.support.eventually import PATIENCE_S
from tests.support.hand_ins import noted_hand_ins
from tests.support.planted_faults import no_threads
from tonearm.sources.detached_threads import DetachedThreads


async def test_result_and_error_reach_the_waiter() -> None:
    threads = DetachedThreads(2)
    assert await threads.run(lambda: 6 * 7) == 42
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)


async def test_call_that_hangs_holds_only_its_own_place() -> None:
    threads, gate = DetachedThreads(2), threading.Event()
    hanging = asyncio.create_task(threads.run(gate.wait))
    assert await threads.run(lambda: "through") == "through"
    gate.set()
    assert await hanging


async def test_call_whose_thread_cannot_be_started_fails_and_gives_its_place_back() -> None:
    threads = DetachedThreads(1)
    with no_threads():
        for _ in range(2):
            with pytest.raises(OSError, match="no thread"):
                await asyncio.wait_for(threads.run(lambda: 1), 5)
    assert await asyncio.wait_for(threads.run(lambda: 2), 5) == 2


async def test_no_more_than_permitted_run_at_once() -> None:
    threads, gate = DetachedThreads(2), threading.Event()
    started: list[int] = []

    def call() -> None:
        started.append(1)
        gate.wait()

    calls = [asyncio.create_task(threads.run(call)) for _ in range(5)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(started) <= 2
    gate.set()
    await asyncio.gather(*calls)
    assert len(started) == 5


async def test_result_that_nobody_waits_for_any_more_is_discarded() -> None:
    threads, gate = DetachedThreads(1), threading.Event()
    discarded: list[str] = []

    def call() -> str:
        gate.wait()
        return "late"

    calling = asyncio.create_task(threads.run(call, discard=discarded.append))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    gate.set()
    await threads.run(lambda: None)  # its place is free only after the first call came back
    assert discarded == ["late"]


async def test_result_that_came_just_before_its_waiter_was_cancelled_is_discarded() -> None:
    threads, loop = DetachedThreads(1), asyncio.get_running_loop()
    discarded: list[str] = []
    hand_in = loop.call_soon_threadsafe

    def hold_the_loop_then_cancel() -> None:
        # Meanwhile the thread hands in its result, which the loop finds before the cancellation.
        assert is_handed_in.wait(PATIENCE_S)
        loop.call_soon(calling.cancel)

    def call() -> str:
        hand_in(hold_the_loop_then_cancel)
        return "in time"

    with noted_hand_ins() as is_handed_in:
        calling = asyncio.create_task(threads.run(call, discard=discarded.append))
        with pytest.raises(asyncio.CancelledError):
            await calling
    assert discarded == ["in time"]
