"""Waiting for what another task or another process's kernel will do."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object]) -> None:
    """Returns as soon as `condition` holds. A condition that never comes true ends with the test's own timeout."""
    while not condition():  # noqa: ASYNC110 - what is waited for is a socket's buffer or a plain value, no event
        await asyncio.sleep(0.005)
