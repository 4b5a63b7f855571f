"""The decoder processes of the node: which session lives where, and a new process for each that died."""

import asyncio
import itertools
import logging
from typing import Final

from tonearm.audio.decoder_process import Death, DecoderProcess, Patience, SessionOwner
from tonearm.decoder.messages import CloseSession, FromNode

SESSIONS_BEFORE_NEXT: Final = 4  # a further process is started only when each one has this many
RESTART_DELAYS_S: Final = (0.0, 0.2, 0.5, 1.0)
QUICK_DEATH_S: Final = 5.0  # one that lived for less is replaced later each time: it may not be able to live at all

log = logging.getLogger(__name__)


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

    def __init__(self, limit: int, memory_limit_mb: int, patience: Patience | None = None) -> None:
        self._limit = limit
        self._memory_limit_mb = memory_limit_mb
        self._patience = patience or Patience()
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
        await asyncio.wait_for(process.is_ready.wait(), self._patience.start_limit_s)

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
        self._homeless = [(waiting, guilty) for waiting, guilty in self._homeless if waiting is not owner]

    async def stop(self) -> None:
        self._is_stopping = True
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.wait([self._restart])
        await asyncio.gather(*(process.stop() for process in self._processes))
        self._processes.clear()

    def _add_process(self) -> DecoderProcess:
        process = DecoderProcess(next(self._process_numbers), self._memory_limit_mb, self._take_death, self._patience)
        process.start()
        self._processes.append(process)
        return process

    def _add_process_or(self, fallback: DecoderProcess) -> DecoderProcess:
        try:
            return self._add_process()
        except OSError as error:
            log.warning("no further decoder process could be started: %s", error)
            return fallback

    def _take_death(self, process: DecoderProcess, death: Death) -> None:
        if process in self._processes:
            self._processes.remove(process)
        if self._is_stopping:
            return
        log.error("decoder process %d (pid %d) %s; it is replaced", process.number, process.pid, death.reason)
        lived_s = asyncio.get_running_loop().time() - process.started_s
        self._quick_deaths = self._quick_deaths + 1 if lived_s < QUICK_DEATH_S else 0
        for session_id, owner in process.owners.items():
            guilty = tuple(source for session, source in death.culprits if session == session_id)
            self._homeless.append((owner, guilty))
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
        for owner, guilty in homeless:
            try:
                owner.process_lost(guilty)
            except Exception:
                log.exception("a player could not go on in another decoder process")
