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
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from tonearm.decoder.messages import (
    CULPRIT_SLOTS,
    EXIT_MEMORY_LIMIT,
    BrokenMessage,
    FromDecoder,
    FromNode,
    Message,
    MessageSplitter,
    Ping,
    Pong,
    Ready,
    pack,
)

PING_INTERVAL_S: Final = 2.0
SILENCE_LIMIT_S: Final = 10.0
KILL_AFTER_S: Final = 1.0
RECEIVE_BYTES: Final = 512 * 1024
_CRASH_SIGNALS: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})

log = logging.getLogger(__name__)


class SessionOwner(Protocol):
    """Who a session's messages are for."""

    def receive(self, message: FromDecoder) -> None: ...


@dataclass(frozen=True, slots=True)
class Death:
    """How a process ended. `culprits` are the (session, source) pairs that count as the cause; often none."""

    reason: str
    culprits: tuple[tuple[int, int], ...]


class DecoderProcess:
    """Started with `start`; `died` is called once when it ends without being stopped."""

    def __init__(self, number: int, memory_limit_mb: int, died: "Callable[[DecoderProcess, Death], None]") -> None:
        self._number = number
        self._memory_limit_mb = memory_limit_mb
        self._died = died
        self._outgoing: deque[tuple[bytes, int | None]] = deque()
        self._has_outgoing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._watchdog_fired = False
        self._last_sign_s = 0.0
        self.owners: dict[int, SessionOwner] = {}
        self.is_ready = asyncio.Event()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Starts the process. Raises `OSError` when the system cannot."""
        node_end, decoder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        culprits = os.memfd_create("tonearm-culprits", os.MFD_CLOEXEC)
        try:
            os.ftruncate(culprits, CULPRIT_SLOTS * 8)
            self._culprits = mmap.mmap(culprits, CULPRIT_SLOTS * 8)
            descriptors = (decoder_end.fileno(), culprits)
            self._process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                [sys.executable, "-m", "tonearm.decoder", *map(str, descriptors), str(self._memory_limit_mb)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,
                env={**os.environ, "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
            )
        except BaseException:
            node_end.close()
            raise
        finally:
            decoder_end.close()
            os.close(culprits)
        node_end.setblocking(False)
        self._socket = node_end
        loop = asyncio.get_running_loop()
        self._last_sign_s = loop.time()
        self._tasks = [
            loop.create_task(self._receive_all()),
            loop.create_task(self._write_all()),
            loop.create_task(self._watch()),
        ]

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        """Queues a message; `descriptor` is taken over and closed when it was sent."""
        if self._is_stopping:
            if descriptor is not None:
                os.close(descriptor)
            return
        self._outgoing.append((pack(message), descriptor))
        self._has_outgoing.set()

    async def stop(self) -> None:
        """Closes the socket, at which the process ends by itself, and kills it when it does not."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._release()
        await self._reap()

    def _release(self) -> None:
        self._socket.close()
        for _, descriptor in self._outgoing:
            if descriptor is not None:
                os.close(descriptor)
        self._outgoing.clear()
        self._culprits.close()

    async def _reap(self) -> int:
        try:
            return await asyncio.to_thread(self._process.wait, KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return await asyncio.to_thread(self._process.wait)

    async def _receive_all(self) -> None:
        loop = asyncio.get_running_loop()
        splitter = MessageSplitter()
        buffer = bytearray(RECEIVE_BYTES)
        view = memoryview(buffer)
        try:
            while received := await loop.sock_recv_into(self._socket, buffer):
                for message in splitter.feed(view[:received]):
                    self._take_in(message)
        except (OSError, BrokenMessage) as error:
            log.warning("decoder %d: %s", self._number, error)
        self._is_stopping = True
        loop.create_task(self._bury())  # noqa: RUF006 - kept alive by the loop's child: it ends in a call

    def _take_in(self, message: Message) -> None:
        match message:
            case Pong():
                if message.busy_s < SILENCE_LIMIT_S:
                    self._last_sign_s = asyncio.get_running_loop().time()
            case Ready():
                self.is_ready.set()
            case _:
                session: int = getattr(message, "session", 0)
                owner = self.owners.get(session)
                if owner is not None:
                    owner.receive(message)  # type: ignore[arg-type]

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._has_outgoing.wait()
            self._has_outgoing.clear()
            while self._outgoing:
                plain: list[bytes] = []
                while self._outgoing and self._outgoing[0][1] is None:
                    plain.append(self._outgoing.popleft()[0])
                try:
                    if plain:
                        await loop.sock_sendall(self._socket, b"".join(plain))
                    if self._outgoing:
                        await self._send_with_descriptor()
                except OSError:
                    return  # the process is gone; the receiving task sees it too and buries it

    async def _send_with_descriptor(self) -> None:
        data, descriptor = self._outgoing[0]
        if descriptor is None:
            return
        try:
            sent = socket.send_fds(self._socket, [data], [descriptor])
        except BlockingIOError:
            await _until_writable(self._socket)
            return
        self._outgoing.popleft()
        os.close(descriptor)
        if sent < len(data):
            await asyncio.get_running_loop().sock_sendall(self._socket, data[sent:])

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        number = 0
        while True:
            number += 1
            asked_s = loop.time()
            self.send(Ping(number))
            await asyncio.sleep(PING_INTERVAL_S)
            if loop.time() - asked_s > 2 * PING_INTERVAL_S:
                self._last_sign_s = loop.time()  # this process itself stood still: no sign could be read
            elif loop.time() - self._last_sign_s > SILENCE_LIMIT_S:
                self._watchdog_fired = True
                self._process.kill()
                return

    async def _bury(self) -> None:
        """After the process closed its end: finds out why, and tells."""
        code = await self._reap()
        culprits = struct.unpack(f"<{CULPRIT_SLOTS}Q", self._culprits[:])
        for task in self._tasks:
            task.cancel()
        self._release()
        if self._watchdog_fired:
            reason, counts = "gave no sign for 10 seconds", True
        elif code == EXIT_MEMORY_LIMIT:
            reason, counts = "reached its memory limit", True
        elif code < 0:
            reason, counts = f"was ended by {signal.Signals(-code).name}", signal.Signals(-code) in _CRASH_SIGNALS
        else:
            reason, counts = f"exited with {code}", False
        pairs = tuple((value >> 32, value & 0xFFFFFFFF) for value in culprits if value) if counts else ()
        self._died(self, Death(reason, pairs))


async def _until_writable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    writable = loop.create_future()
    loop.add_writer(connection, lambda: None if writable.done() else writable.set_result(None))
    try:
        await writable
    finally:
        loop.remove_writer(connection)
