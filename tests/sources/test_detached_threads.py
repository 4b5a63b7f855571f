"""Blocking calls beside the event loop."""

import asyncio
import threading

import pytest

from tests.support.planted_faults import no_threads
from tonearm.sources.detached_threads import DetachedThreads


async def test_call_whose_thread_cannot_be_started_fails_and_gives_its_place_back() -> None:
    threads = DetachedThreads(1)
    with no_threads():
        for _ in range(2):
            with pytest.raises(OSError, match="no thread"):
                await asyncio.wait_for(threads.run(lambda: 1), 5)
    assert await asyncio.wait_for(threads.run(lambda: 2), 5) == 2
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)


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
