"""One decoder process as the node sees it: its socket, its sessions, its signs of life and its end."""

import asyncio
import logging
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from tonearm.decoding.message_coding import BrokenMessage, Message
from tonearm.decoding.messages import EXIT_MEMORY_LIMIT, SUSPECT_SLOTS, FromDecoder, FromNode, Ping, Pong, Ready
from tonearm.decoding.pool.link import RECEIVE_BYTES, DecoderLink

log = logging.getLogger(__name__)

_CRASH_SIGNALS: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How often a process is asked for a sign of life, and how long it may take to start, to give one and to end."""

    start_limit_s: float = 10.0
    ping_interval_s: float = 2.0
    silence_limit_s: float = 10.0
    kill_after_s: float = 1.0


class SessionOwner(Protocol):
    """Who a session's messages are for."""

    def receive(self, message: FromDecoder) -> None: ...

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """The session is gone with its process; a new one can be opened at once.

        `suspect_sources` are those of this session that the death counts against.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended. `suspects` are the (session, source) pairs that count as the cause; often none."""

    reason: str
    suspects: tuple[tuple[int, int], ...]


class DecoderProcess:
    """Started with `start`; `died` is called once when it ends without being stopped."""

    def __init__(
        self,
        number: int,
        memory_limit_mb: int,
        died: "Callable[[DecoderProcess, ProcessExit], None]",
        timeouts: Timeouts | None = None,
    ) -> None:
        self.number = number
        self._memory_limit_mb = memory_limit_mb
        self._died = died
        self._timeouts = timeouts or Timeouts()
        self._burial: asyncio.Task[None] | None = None
        self._watchdog_fired = False
        self.started_s = 0.0
        self._last_sign_s = 0.0
        self.owners: dict[int, SessionOwner] = {}
        self.is_ready = asyncio.Event()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Starts the process. Raises `OSError` when the system cannot."""
        node_end, decoder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        # What a grant of many players leads to, as far as the system allows: to wake up for less costs both sides more.
        decoder_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECEIVE_BYTES)
        suspects = os.memfd_create("tonearm-suspects", os.MFD_CLOEXEC)
        os.ftruncate(suspects, SUSPECT_SLOTS * 8)
        self._suspects = mmap.mmap(suspects, SUSPECT_SLOTS * 8)
        try:
            descriptors = (decoder_end.fileno(), suspects)
            self._process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                [sys.executable, "-m", "tonearm.decoding.worker", *map(str, descriptors), str(self._memory_limit_mb)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,
                env={**_inherited_environment(), "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
            )
        except BaseException:
            node_end.close()
            self._suspects.close()
            raise
        finally:
            decoder_end.close()
            os.close(suspects)
        self._link = DecoderLink(node_end, self._take_in, self._link_ended)
        loop = asyncio.get_running_loop()
        self.started_s = self._last_sign_s = loop.time()
        self._watching = loop.create_task(self._watch())

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        """Queues a message; `descriptor` is taken over and closed when it was sent, or cannot be."""
        self._link.send(message, descriptor)

    async def stop(self) -> None:
        """Closes the socket, at which the process ends by itself, and kills it when it does not."""
        if self._burial is not None:
            await asyncio.wait([self._burial])
            return
        self._link.close()
        await self._end_watch()
        await self._reap()
        self._suspects.close()

    async def _end_watch(self) -> None:
        self._watching.cancel()
        await asyncio.wait([self._watching])

    async def _reap(self) -> int:
        try:
            return await asyncio.to_thread(self._process.wait, self._timeouts.kill_after_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return await asyncio.to_thread(self._process.wait)

    def _link_ended(self, error: OSError | BrokenMessage | None) -> None:
        if isinstance(error, BrokenMessage):
            log.error("decoder process %d said what cannot be understood (%s) and is ended", self.number, error)
            self._process.kill()
        elif error is not None:
            log.warning("decoder process %d: %s", self.number, error)
        self._burial = asyncio.get_running_loop().create_task(self._bury())

    def _take_in(self, message: Message) -> None:
        owner = self.owners.get(getattr(message, "session", 0))
        if owner is not None:
            try:
                owner.receive(message)  # type: ignore[arg-type]
            except Exception:
                # It must not end what is received for all the other sessions.
                log.exception("decoder process %d: what it said could not be taken in", self.number)
        elif isinstance(message, Pong):
            if message.busy_s < self._timeouts.silence_limit_s:
                self._last_sign_s = asyncio.get_running_loop().time()
        elif isinstance(message, Ready):
            self.is_ready.set()
            self._last_sign_s = asyncio.get_running_loop().time()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        interval_s, limit_s = self._timeouts.ping_interval_s, self._timeouts.silence_limit_s
        start_limit_s = self._timeouts.start_limit_s
        number = 0
        while True:
            number += 1
            asked_s = loop.time()
            self.send(Ping(number))
            await asyncio.sleep(interval_s)
            if loop.time() - asked_s > 2 * interval_s:
                self._last_sign_s = loop.time()  # this process itself stood still: no sign could be read
            elif loop.time() - self._last_sign_s > (limit_s if self.is_ready.is_set() else start_limit_s):
                self._watchdog_fired = True
                self._process.kill()
                return

    async def _bury(self) -> None:
        """After the process closed its end: finds out why, and tells."""
        code = await self._reap()
        suspects = struct.unpack(f"<{SUSPECT_SLOTS}Q", self._suspects[:])
        self._suspects.close()
        self._link.close()
        await self._end_watch()
        if self._watchdog_fired:
            reason, counts = f"gave no sign for {self._timeouts.silence_limit_s:g} seconds", True
        elif code == EXIT_MEMORY_LIMIT:
            reason, counts = "reached its memory limit", True
        elif code < 0:
            reason, counts = f"was ended by {signal.Signals(-code).name}", signal.Signals(-code) in _CRASH_SIGNALS
        else:
            reason, counts = f"exited with {code}", False
        pairs = tuple((value >> 32, value & 0xFFFFFFFF) for value in suspects if value) if counts else ()
        self._died(self, ProcessExit(reason, pairs))


def _inherited_environment() -> dict[str, str]:
    """Without the node's own settings: who decodes what strangers made shall not hold the node's password."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TONEARM_")}
