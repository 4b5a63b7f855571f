"""A decoder process for work without players. It starts when it is needed, and ends some time after its last use."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from tonearm.decoder.pool.pool import DecoderPool
from tonearm.decoder.pool.starting import DecoderStarter
from tonearm.sandbox.report import SandboxRequiredError, SandboxSupervision

IDLE_S: Final = 60.0  # an idle process costs memory; a start costs CPU time, and much of it without a template


class OnDemandPool:
    """One process, started at the first use and stopped when it was not used for `idle_s`."""

    def __init__(
        self,
        memory_limit_mb: int,
        *,
        idle_s: float = IDLE_S,
        sandbox: SandboxSupervision | None = None,
        starter: DecoderStarter | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._starter = starter
        self._memory_limit_mb = memory_limit_mb
        self._idle_s = idle_s
        self._pool: DecoderPool | None = None
        self._starting = asyncio.Lock()
        self._users = 0
        self._idle: asyncio.TimerHandle | None = None
        self._endings: set[asyncio.Task[None]] = set()

    @property
    def process_ids(self) -> list[int]:
        return [] if self._pool is None else self._pool.process_ids

    @contextlib.asynccontextmanager
    async def used(self) -> AsyncIterator[DecoderPool]:
        """The running pool. Raises `OSError` or `TimeoutError` when its process does not start."""
        self._users += 1
        self._cancel_idle()
        try:
            yield await self._running()
        finally:
            self._users -= 1
            if not self._users:
                self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._end)

    async def stop(self) -> None:
        """Stops the process. To be called when nothing uses it any more."""
        self._cancel_idle()
        self._end()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _running(self) -> DecoderPool:
        async with self._starting:
            if self._pool is None:
                pool = DecoderPool(
                    1, self._memory_limit_mb, keeps_spare=False, sandbox=self._sandbox, starter=self._starter
                )
                try:
                    await pool.start()
                except BaseException as error:
                    await pool.stop()
                    if isinstance(error, SandboxRequiredError):
                        raise ChildProcessError(str(error)) from error
                    raise
                self._pool = pool
            return self._pool

    def _end(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            ending = asyncio.get_running_loop().create_task(pool.stop())
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
