"""A decoder process that plays nothing: it runs only while somebody uses it, and for a while after.

The decoder processes of the node: which session lives where, and a new process for each that died.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tonearm.decoding.messages import CloseSession, FromNode
from tonearm.decoding.pool.process import DecoderProcess, ProcessExit, SessionOwner, Timeouts

log = logging.getLogger(__name__)

SESSIONS_BEFORE_NEXT: Final = 4  # a further process is started only when each one has this many
RESTART_DELAYS_S: Final = (0.0, 0.2, 0.5, 1.0)
QUICK_DEATH_S: Final = 5.0  # one that lived for less is replaced later each time: it may not be able to live at all


class PoolSession:
    """One session's way to its decoder process."""

    def __init__(self, session_id: int, process: DecoderProcess) -> None:
        self.id = session_id
        self._process = process

    @property
    def process_id(self) -> int:
        return self._process.pid

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        """Sends to the process; `descriptor` is taken over."""
        self._process.send(message, descriptor)

    def close(self) -> None:
        if self._process.owners.pop(self.id, None) is not None:
            self._process.send(CloseSession(self.id))


class DecoderPool:
    """At most `limit` processes: the first at start, others with need."""

    def __init__(self, limit: int, memory_limit_mb: int, timeouts: Timeouts | None = None) -> None:
        self._limit = limit
        self._memory_limit_mb = memory_limit_mb
        self._timeouts = timeouts or Timeouts()
        self._processes: list[DecoderProcess] = []
        self._session_ids = itertools.count(1)
        self._process_numbers = itertools.count(1)
        self._quick_deaths = 0
        self._restart: asyncio.Task[None] | None = None
        self._homeless: list[tuple[SessionOwner, tuple[int, ...]]] = []
        self._is_stopping = False

    async def start(self) -> None:
        """Starts the first process and waits until it answers. Raises `OSError` or `TimeoutError`."""
        process = self._add_process()
        await asyncio.wait_for(process.is_ready.wait(), self._timeouts.start_limit_s)

    @property
    def process_ids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def open(self, owner: SessionOwner) -> PoolSession | None:
        """A new session in the least busy process. None while there is none: `process_lost` follows then."""
        if not self._processes:
            self._homeless.append((owner, ()))
            return None
        process = min(self._processes, key=lambda process: len(process.owners))
        if len(process.owners) >= SESSIONS_BEFORE_NEXT and len(self._processes) < self._limit:
            process = self._add_process_or(process)
        session_id = next(self._session_ids)
        process.owners[session_id] = owner
        return PoolSession(session_id, process)

    def forget(self, owner: SessionOwner) -> None:
        """A player that is deleted while it waits for a process."""
        self._homeless = [(waiting, suspects) for waiting, suspects in self._homeless if waiting is not owner]

    async def stop(self) -> None:
        self._is_stopping = True
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.wait([self._restart])
        await asyncio.gather(*(process.stop() for process in self._processes))
        self._processes.clear()

    def _add_process(self) -> DecoderProcess:
        process = DecoderProcess(next(self._process_numbers), self._memory_limit_mb, self._take_death, self._timeouts)
        process.start()
        self._processes.append(process)
        return process

    def _add_process_or(self, fallback: DecoderProcess) -> DecoderProcess:
        try:
            return self._add_process()
        except OSError as error:
            log.warning("no further decoder process could be started: %s", error)
            return fallback

    def _take_death(self, process: DecoderProcess, death: ProcessExit) -> None:
        if process in self._processes:
            self._processes.remove(process)
        if self._is_stopping:
            return
        log.error("decoder process %d (pid %d) %s; it is replaced", process.number, process.pid, death.reason)
        lived_s = asyncio.get_running_loop().time() - process.started_s
        self._quick_deaths = self._quick_deaths + 1 if lived_s < QUICK_DEATH_S else 0
        for session_id, owner in process.owners.items():
            suspects = tuple(source for session, source in death.suspects if session == session_id)
            self._homeless.append((owner, suspects))
        process.owners.clear()
        if self._restart is None or self._restart.done():
            self._restart = asyncio.get_running_loop().create_task(self._replace())

    async def _replace(self) -> None:
        """Starts a new process, trying again for as long as the system refuses, and re-houses its sessions."""
        for attempt in itertools.count(self._quick_deaths):
            await asyncio.sleep(RESTART_DELAYS_S[min(attempt, len(RESTART_DELAYS_S) - 1)])
            try:
                self._add_process()
                break
            except OSError as error:
                log.error("a decoder process could not be started: %s; trying again", error)
        homeless, self._homeless = self._homeless, []
        for owner, suspects in homeless:
            try:
                owner.process_lost(suspects)
            except Exception:
                log.exception("a player could not go on in another decoder process")


IDLE_S: Final = 60.0  # a start costs about 0.3 s of CPU, a process that waits about 45 MB


class OnDemandPool:
    """One process, started at the first use and ended when nobody has used it for `idle_s`."""

    def __init__(self, memory_limit_mb: int, *, idle_s: float = IDLE_S) -> None:
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

    @asynccontextmanager
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
        """Ends the process. To be called when nobody uses it any more."""
        self._cancel_idle()
        self._end()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _running(self) -> DecoderPool:
        async with self._starting:
            if self._pool is None:
                pool = DecoderPool(1, self._memory_limit_mb)
                try:
                    await pool.start()
                except BaseException:
                    await pool.stop()
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
