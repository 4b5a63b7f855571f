"""The one way to wait: for a condition, with the same patience everywhere, and a sentence about what did not come.

await eventually(lambda: path.exists(), "the file is written")    # of what gives no sign when it happens
await changes.until(lambda: len(frames) >= 3, "three frames")     # of what calls `changes.tell()` when it happens
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import TypeAlias

# Far longer than a loaded machine needs, and shorter than a test may take; only what never happens takes it.
PATIENCE_S = 60.0

# A sentence, or what makes one of what is there when patience ends.
What: TypeAlias = str | Callable[[], str]


async def eventually(condition: Callable[[], object], what: What) -> None:
    """Returns when `condition`, which may be a coroutine function, holds. Fails with `what` when it never does."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        holds = condition()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        assert time.monotonic() < deadline_s, _in_vain(what)
        await asyncio.sleep(0.005)


def eventually_without_a_loop(condition: Callable[[], object], what: What) -> None:
    """As `eventually`, for tests that are no coroutines."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, _in_vain(what)
        time.sleep(0.005)


class Changes:
    """Wakes those who wait for a condition; whatever may make one true calls `tell`."""

    def __init__(self) -> None:
        self._told = asyncio.Event()

    def tell(self) -> None:
        self._told.set()

    async def until(self, condition: Callable[[], object], what: What) -> None:
        """Returns in the turn of the loop after the one that made `condition` true. Fails with `what`."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():
                    self._told.clear()
                    await self._told.wait()
        except TimeoutError:
            raise AssertionError(_in_vain(what)) from None


def _in_vain(what: What) -> str:
    return f"waited in vain: {what if isinstance(what, str) else what()}"
