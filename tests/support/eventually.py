"""Waiting for something that gives no sign when it happens."""

import asyncio
from collections.abc import Callable

PATIENCE_S = 30.0


async def eventually(condition: Callable[[], object], what: str) -> None:
    """Returns when `condition` holds, and fails with `what` when it does not in a long time."""
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline_s, f"waited in vain: {what}"
        await asyncio.sleep(0.005)
