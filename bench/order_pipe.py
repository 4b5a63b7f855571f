"""A helper process of the bench that answers each line with a line."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

_LONGEST_ANSWER_BYTES: Final = 1 << 20


class OrderPipe:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def order(self, **order: Any) -> dict[str, Any]:
        """Sends `order` as JSON and returns the answer. Raises `ConnectionError` for an error or a dead process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        line = await self._process.stdout.readline()
        answer = dict(json.loads(line)) if line else {"error": "the helper process is gone"}
        if "error" in answer:
            raise ConnectionError(answer["error"])
        return answer


@asynccontextmanager
async def order_pipe(module: str) -> AsyncIterator[OrderPipe]:
    """Runs `python -m module`. In a session of its own: Ctrl-C reaches the bench alone, which ends its helpers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST_ANSWER_BYTES,
        start_new_session=True,
    )
    try:
        yield OrderPipe(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
