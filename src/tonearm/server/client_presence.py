"""Work that is only worth doing while the client waits for its answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiohttp import web

from tonearm.server.protocol import connection_lost

T = TypeVar("T")


async def while_connected(request: web.BaseRequest, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns or raises. It is cancelled, with `ConnectionResetError`, when the client goes away."""
    lost = connection_lost(request)
    task = asyncio.get_running_loop().create_task(work)
    both: tuple[asyncio.Future[Any], ...] = (task, lost)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    if task.cancelled() and lost.done():
        raise ConnectionResetError("the client did not wait for the answer")
    return task.result()
