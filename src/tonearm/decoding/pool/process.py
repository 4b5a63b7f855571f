"""One decoder process, from the node's side: its start, its socket, its sessions, its watchdog and its exit."""

import asyncio
import logging
import mmap
import os
import signal
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from tonearm.decoding.message_coding import BrokenMessage, Message
from tonearm.decoding.messages import (
    EXIT_MEMORY_LIMIT,
    EXIT_NO_SANDBOX,
    SUSPECT_SLOTS,
    FromDecoder,
    FromNode,
    Ping,
    Pong,
    Ready,
)
from tonearm.decoding.pool.link import RECEIVE_BYTES, DecoderLink
from tonearm.decoding.pool.starting import ChildProcess, DecoderStarter, tell_exit
from tonearm.sandbox.report import SandboxMode, SandboxReport

log = logging.getLogger(__name__)

_CRASH_SIGNALS: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a process may take to be ready, to answer, and to exit when it shall; how often it is asked.

    `spare_delay_s`: how long a spare is not started yet while what has just begun or moved needs the processor; it is
    much shorter where the start itself needs little.
    """

    start_limit_s: float = 30.0
    ping_interval_s: float = 2.0
    silence_limit_s: float = 10.0
    kill_after_s: float = 1.0
    spare_delay_s: float = 0.5


class SessionOwner(Protocol):
    """Receives the messages of a session."""

    @property
    def frames_ahead(self) -> int:
        """How many frames it holds that were not sent yet, and for how long it needs no process therefore."""
        ...

    def receive(self, message: FromDecoder) -> None: ...

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """The session is gone with its process; a new one can be asked for at once.

        `suspect_sources` are those of this session that may have caused the exit: they have to be counted before this
        returns, because other sessions open their sources again after it.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended. `suspects` are the (session, source) pairs that may have caused it; often none."""

    reason: str
    suspects: tuple[tuple[int, int], ...]

    def suspects_of(self, session_id: int) -> tuple[int, ...]:
        """The suspect sources of one session."""
        return tuple(source for session, source in self.suspects if session == session_id)


class DecoderProcess:
    """Runs from `start` to `stop`. Calls `on_ready` once it can take sessions, and `on_exit` if it ends by itself.

    Its sessions and their owners are in `owners`, by the session's number. `sandbox` is what it reported about its
    confinement, None before. One that must be confined and is not never becomes ready: it exits.
    """

    def __init__(
        self,
        number: int,
        starter: DecoderStarter,
        on_ready: "Callable[[DecoderProcess], None]",
        on_exit: "Callable[[DecoderProcess, ProcessExit], None]",
        timeouts: Timeouts | None = None,
        sandbox_mode: SandboxMode = SandboxMode.AUTO,
    ) -> None:
        self.number = number
        self._starter = starter
        self._on_ready = on_ready
        self._on_exit = on_exit
        self._timeouts = timeouts or Timeouts()
        self._sandbox_mode = sandbox_mode
        self.sandbox: SandboxReport | None = None
        self._process: ChildProcess
        self._is_stopping = False
        self._watchdog_fired = False
        self._timer: asyncio.TimerHandle | None = None
        self._exited = asyncio.Event()
        self.started_s = 0.0
        self._last_answer_s = 0.0
        self.owners: dict[int, SessionOwner] = {}
        self.is_ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self) -> None:
        """Starts the process. Raises `OSError` when the system cannot."""
        node_end, decoder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        # What a grant of many players leads to, as far as the system allows: to wake up for less costs both sides more.
        decoder_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECEIVE_BYTES)
        suspects = os.memfd_create("tonearm-suspects", os.MFD_CLOEXEC)
        os.ftruncate(suspects, SUSPECT_SLOTS * 8)
        self._suspects = mmap.mmap(suspects, SUSPECT_SLOTS * 8)
        try:
            self._process = await self._starter.start(decoder_end.fileno(), suspects)
            tell_exit(self._process, f"decoder-{self.number}-exit", self._reap)
        except BaseException:
            node_end.close()
            self._suspects.close()
            raise
        finally:
            decoder_end.close()
            os.close(suspects)
        self._link = DecoderLink(node_end, self._receive, self._link_ended)
        self._loop = asyncio.get_running_loop()
        self.started_s = self._last_answer_s = self._loop.time()
        self._ping(1)

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        """Queues a message. Owns `descriptor` from now on and closes it once it is sent, or cannot be sent."""
        self._link.send(message, descriptor)

    async def stop(self) -> None:
        """Closes the socket, at which the process exits by itself, and kills it if it does not. Returns after that."""
        if self._exited.is_set():
            return
        self._is_stopping = True
        self._link.close()
        self._set_timer(self._timeouts.kill_after_s, self._process.kill)
        await self._exited.wait()

    # What the process sends

    def _receive(self, message: Message) -> None:
        owner = self.owners.get(getattr(message, "session", 0))
        if owner is not None:
            try:
                owner.receive(message)  # type: ignore[arg-type]
            except Exception:
                # Messages for all the other sessions follow.
                log.exception("decoder process %d: a message could not be taken in", self.number)
        elif isinstance(message, Pong):
            if message.busy_s < self._timeouts.silence_limit_s:
                self._last_answer_s = self._loop.time()
        elif isinstance(message, Ready) and self.sandbox is None:
            self.sandbox = message.sandbox
            if self._sandbox_mode.needs_seccomp and not message.sandbox.seccomp:
                return
            self.is_ready = True
            self._last_answer_s = self._loop.time()
            self._on_ready(self)

    def _link_ended(self, error: OSError | BrokenMessage | None) -> None:
        """The process is exiting, if it ended the link: its exit is seen within a millisecond then."""
        if isinstance(error, BrokenMessage):
            log.error("decoder process %d sent a message that cannot be read (%s) and is killed", self.number, error)
            self._process.kill()
            return
        if error is not None:
            log.warning("decoder process %d: %s", self.number, error)
        self._set_timer(self._timeouts.kill_after_s, self._process.kill)

    # The watchdog

    def _ping(self, number: int) -> None:
        self.send(Ping(number))
        asked_s = self._loop.time()
        self._set_timer(self._timeouts.ping_interval_s, lambda: self._check_answers(asked_s, number))

    def _check_answers(self, asked_s: float, number: int) -> None:
        now_s = self._loop.time()
        if now_s - asked_s > 2 * self._timeouts.ping_interval_s:
            self._last_answer_s = now_s  # The node itself stood still and could not read an answer.
        elif now_s - self._last_answer_s > self._silence_limit_s:
            self._watchdog_fired = True
            self._process.kill()
            return
        self._ping(number + 1)

    @property
    def _silence_limit_s(self) -> float:
        return self._timeouts.silence_limit_s if self.is_ready else self._timeouts.start_limit_s

    def _set_timer(self, delay_s: float, call: Callable[[], None]) -> None:
        """The one thing that is waited for: the next check of the watchdog, or the end of the time to exit in."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, call)

    # Its exit

    def _reap(self, code: int) -> None:
        """Takes what the process had sent before it exited, gives everything back, and reports why it exited."""
        if not self._is_stopping:
            self._link.receive_rest()
        self._link.close()
        if self._timer is not None:
            self._timer.cancel()
        noted = struct.unpack(f"<{SUSPECT_SLOTS}Q", self._suspects[:])
        self._suspects.close()
        self._exited.set()
        if not self._is_stopping:
            reason, counts = self._explain(code)
            suspects = tuple((value >> 32, value & 0xFFFFFFFF) for value in noted if value) if counts else ()
            self._on_exit(self, ProcessExit(reason, suspects))

    def _explain(self, code: int) -> tuple[str, bool]:
        """Why it exited, and whether that counts against the sources that it was working on."""
        if self._watchdog_fired:
            return f"did not answer for {self._silence_limit_s:g} seconds", True
        if code == EXIT_MEMORY_LIMIT:
            return "reached its memory limit", True
        if code == EXIT_NO_SANDBOX:
            return f"has no sandbox and must not work without ({self.sandbox})", False
        if code < 0:
            return f"was ended by {_signal_name(-code)}", -code in _CRASH_SIGNALS
        return f"exited with {code}", False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # Most of the real-time signals have no name.
        return f"signal {number}"
