"""One decoder process, from the node's side: its start, its socket, its sessions, its watchdog and its exit."""

import asyncio
import logging
import mmap
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from tonearm.core.admission import Capacity, Claim, LoadReport
from tonearm.core.call_later import CallLater, Cancellable
from tonearm.core.figures import DecoderWork
from tonearm.decoder.message_coding import BrokenMessage, Message
from tonearm.decoder.messages import (
    END_MEMORY,
    EXIT_MEMORY_LIMIT,
    EXIT_NO_SANDBOX,
    SESSION_SLOT,
    SUSPECT_BYTES,
    SUSPECT_NOTE,
    SUSPECT_SLOTS,
    Audio,
    CloseSession,
    Encoded,
    FromDecoder,
    FromNode,
    NoRoom,
    Ping,
    Pong,
    Ready,
    SessionFailed,
)
from tonearm.decoder.pool.link import RECEIVE_BYTES, DecoderLink
from tonearm.decoder.pool.session_rules import SessionRules
from tonearm.decoder.pool.starting import ChildProcess, DecoderStarter, tell_exit
from tonearm.sandbox.report import SandboxMode, SandboxReport

log = logging.getLogger(__name__)

Suspects: TypeAlias = tuple[tuple[int, int], ...]  # pairs of session and source

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_CRASH_SIGNALS: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a process may take to be ready (`start_limit_s`), to answer (`silence_limit_s`), and to exit after its
    socket is closed (`kill_after_s`), and how often it is pinged.

    The answers report the load, so a process with sessions is pinged every `busy_ping_interval_s`. A process at ease or
    without sessions is pinged every `ping_interval_s`, because each ping wakes threads in both processes. While a ping
    is unanswered, a process with sessions is not at ease.
    `spare_delay_s`: for how long the start of a spare waits, so that sessions that begin or move have the processor;
    the pool waits less if a start is cheap.
    `quick_exit_s`: after each exit sooner than this the next start waits longer, because it may fail every time.
    `move_slice_s`: how long at once the event loop moves sessions to another process; their frames last longer.
    """

    start_limit_s: float = 30.0
    ping_interval_s: float = 2.0
    busy_ping_interval_s: float = 0.5
    silence_limit_s: float = 10.0
    kill_after_s: float = 1.0
    spare_delay_s: float = 0.5
    quick_exit_s: float = 5.0
    move_slice_s: float = 0.004


class SessionOwner(Protocol):
    @property
    def frames_ahead(self) -> int:
        """How many frames are buffered. Until they are sent, the owner needs no process."""

    @property
    def claim(self) -> Claim:
        """How urgent the session is, when processes are overloaded."""

    @property
    def is_silent(self) -> bool:
        """Whether the owner needs no audio now, as in a pause. Then it may wait for a place, and lacks nothing."""

    def receive(self, message: FromDecoder) -> None: ...

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """The session is gone with its process, or the owner has waited for a session. It may open one at once.

        `suspect_sources` are sources of this session that may have caused the exit, 0 for the source that sounds in it.
        The owner counts them before it returns, because other sessions open the same sources again afterwards.
        """


class DecoderProcess:
    """Runs from `start` to `stop`. Calls `on_ready` once it can take sessions, and `on_load` after each report of its
    load, which is in `capacity`. Calls `on_exit` if it ends without `stop`, with the reason and the (session, source)
    pairs that may have caused it; often none. Source 0 means the source that sounded in the session.

    `now_s` is a monotonic clock, `call_later` the event loop's.

    `owners` are the owners of its sessions, by session number. `sandbox` is the process's report about its confinement,
    None before it comes. A process that must be confined and is not exits before it is ready.
    """

    def __init__(
        self,
        number: int,
        starter: DecoderStarter,
        on_ready: "Callable[[DecoderProcess], None]",
        on_exit: "Callable[[DecoderProcess, str, Suspects], None]",
        on_load: "Callable[[DecoderProcess], None]",
        timeouts: Timeouts,
        sandbox_mode: SandboxMode,
        work: DecoderWork,
        capacity: Capacity,
        now_s: Callable[[], float],
        call_later: CallLater,
    ) -> None:
        self.number = number
        self._now_s = now_s
        self._call_later = call_later
        self._work = work
        self._starter = starter
        self._on_ready = on_ready
        self._on_exit = on_exit
        self._on_load = on_load
        self._timeouts = timeouts
        self._sandbox_mode = sandbox_mode
        self.sandbox: SandboxReport | None = None
        self.opus_problem = ""
        self._process: ChildProcess
        self._ended_for: Literal["stop", "silence"] | BrokenMessage | None = None  # by the node
        self._timer: Cancellable | None = None
        self._exited = asyncio.Event()
        self.started_s = 0.0
        self._last_answer_s = 0.0
        self.owners: dict[int, SessionOwner] = {}
        self.rules: dict[int, SessionRules] = {}  # by session number
        self._last_session = 0  # numbers rise, so a message with a lower number may be of a closed session
        self.capacity = capacity
        self._node_late_s = 0.0  # how late the node's own loop was with the last ping
        self._asked = self._answered = 0  # the numbers of the last ping and the last pong
        self._is_asked_rarely = True

    @property
    def is_ready(self) -> bool:
        """Whether it can take sessions: it has loaded everything, and is confined as it must be."""
        return self.sandbox is not None and (self.sandbox.seccomp or not self._sandbox_mode.needs_seccomp)

    async def start(self) -> None:
        """Starts the process. Raises `OSError` when the system cannot."""
        node_end, decoder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        # A large buffer takes the audio for the grants of many players, so that both sides wake up less often.
        decoder_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECEIVE_BYTES)
        suspects = os.memfd_create("tonearm-suspects", os.MFD_CLOEXEC)
        os.ftruncate(suspects, SUSPECT_BYTES)
        self._suspects = mmap.mmap(suspects, SUSPECT_BYTES)
        try:
            self._process = await self._starter.start(decoder_end.fileno(), suspects)
            self.pid = self._process.pid
            tell_exit(self._process, f"decoder-{self.number}-exit", self._reap)
        except BaseException:
            node_end.close()
            self._suspects.close()
            raise
        finally:
            decoder_end.close()
            os.close(suspects)
        self._link = DecoderLink(node_end, self._receive, self._link_ended)
        self.started_s = self._last_answer_s = self._now_s()
        self._ping(1)

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        """Queues a message. Owns `descriptor` from now on and closes it once it is sent, or cannot be sent."""
        self._link.send(message, descriptor)

    def open_session(self, session_id: int, owner: SessionOwner) -> None:
        """From now on `owner` gets the messages about this session."""
        self.owners[session_id] = owner
        self._last_session = session_id
        self.capacity.began()
        if self._is_asked_rarely:
            self._ping(self._asked + 1)
        self.rules[session_id] = SessionRules()

    def close_session(self, session_id: int) -> None:
        """Ends a session; its owner gets no more messages. Does nothing for a session that is closed."""
        if self.owners.pop(session_id, None) is not None:
            del self.rules[session_id]
            self.send(CloseSession(session_id))

    async def stop(self) -> None:
        """Closes the socket, so that the process exits, and kills it if it does not. Returns after its exit."""
        if self._exited.is_set():
            return
        self._ended_for = "stop"
        self._link.close()
        self._set_timer(self._timeouts.kill_after_s, self._process.kill)
        await self._exited.wait()

    # What the process sends

    def _receive(self, message: Message) -> None:
        """Raises `BrokenMessage` for a message that the process may not send."""
        session = getattr(message, "session", None)
        owner = self.owners.get(session or 0)
        if session is not None and owner is not None:
            try:
                self.rules[session].check(message)
            except BrokenMessage as error:
                error.session = session
                raise
            if isinstance(message, NoRoom):
                self.capacity.refused()
            self._count(message)
            try:
                owner.receive(message)  # type: ignore[arg-type]
            except Exception:
                # The error ends neither the link nor the other sessions.
                log.exception("decoder process %d: a message could not be processed", self.number)
        elif isinstance(message, Pong):
            self._take_pong(message)
        elif isinstance(message, Ready) and self.sandbox is None:
            self.sandbox, self.opus_problem = message.sandbox, message.opus_problem
            if self.is_ready:
                self._last_answer_s = self._now_s()
                self._on_ready(self)
        elif not 0 < (session or 0) <= self._last_session:
            raise BrokenMessage(f"a {type(message).__name__} for session {session}, which never was in the process")

    def _count(self, message: Message) -> None:
        frames = self._work.frames
        if isinstance(message, Audio):
            frames["pcm"] += message.frames if message.pcm else 0
            for output, packets in message.packets:
                frames["opus_passed" if message.is_passed and output.passes_through else "opus"] += len(packets)
        elif isinstance(message, Encoded):
            frames["mp3"] += len(message.mp3_frames) if message.output.format == "mp3" else 0
        elif isinstance(message, SessionFailed):
            self._work.sessions_failed += 1

    def _take_pong(self, pong: Pong) -> None:
        if not self._answered < pong.number <= self._asked:
            raise BrokenMessage(f"an answer to ping {pong.number} between {self._answered} and {self._asked}")
        self._answered = pong.number
        # A piece of work that takes long counts as silence since it began.
        now_s = self._now_s()
        self._last_answer_s = max(self._last_answer_s, now_s - pong.busy_s)
        self._work.worked_s += pong.worked_s
        self._work.made_s += pong.made_s
        if pong.seconds:
            late_s = max(pong.late_s, self._node_late_s)
            self.capacity.reported(
                LoadReport(pong.seconds, pong.worked_s, pong.sound_s, pong.made_s, late_s, pong.memory),
                len(self.owners),
                now_s,
            )
            self._on_load(self)

    def _link_ended(self, error: OSError | BrokenMessage | None) -> None:
        """The process should be exiting; otherwise it is killed."""
        self._set_timer(self._timeouts.kill_after_s, self._process.kill)
        if isinstance(error, BrokenMessage):
            self._ended_for = error
            self._process.kill()
        elif error is not None:
            log.warning("decoder process %d: %s", self.number, error)

    # The watchdog

    def _ping(self, number: int) -> None:
        is_at_ease = not self.owners or (self.capacity.is_at_ease and self._answered == self._asked)
        self._is_asked_rarely = is_at_ease
        self._asked = number
        self.send(Ping(number))
        interval_s = self._timeouts.ping_interval_s if is_at_ease else self._timeouts.busy_ping_interval_s
        due_s = self._now_s() + interval_s
        self._set_timer(interval_s, lambda: self._check_answers(due_s, number))

    def _check_answers(self, due_s: float, number: int) -> None:
        now_s = self._now_s()
        self._node_late_s = now_s - due_s
        if self._node_late_s > self._timeouts.ping_interval_s:
            self._last_answer_s = now_s  # the node's loop was blocked and could not read an answer
        elif now_s - self._last_answer_s > self._silence_limit_s:
            self._ended_for = "silence"
            self._process.kill()
            return
        self._ping(number + 1)

    @property
    def _silence_limit_s(self) -> float:
        return self._timeouts.silence_limit_s if self.is_ready else self._timeouts.start_limit_s

    def _set_timer(self, delay_s: float, call: Callable[[], None]) -> None:
        """Sets the only timer, for the watchdog's next check or for the kill after `kill_after_s`."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._call_later(delay_s, call)

    # Its exit

    def _reap(self, code: int) -> None:
        """Takes the last messages of the process, closes its descriptors, and reports why it exited."""
        self._link.receive_remaining()
        self._link.close()
        if self._timer is not None:
            self._timer.cancel()
        notes = self._suspects[:]
        self._suspects.close()
        self._exited.set()
        cause = self._ended_for
        if cause != "stop":
            reason, counts = self._explain(code, notes)
            suspects = suspects_of_exit(notes, code) if counts else ()
            if isinstance(cause, BrokenMessage) and cause.session and not suspects:
                suspects = ((cause.session, 0),)  # a process controlled by an attacker may write no notes
            self._on_exit(self, reason, suspects)

    def _explain(self, code: int, notes: bytes) -> tuple[str, bool]:
        """Why the process exited, and whether that counts against the sources that it worked on."""
        if isinstance(self._ended_for, BrokenMessage):
            return f"said what it may not say, and was killed ({self._ended_for})", True
        if self._ended_for == "silence":
            return f"did not answer for {self._silence_limit_s:g} seconds", True
        if code == EXIT_MEMORY_LIMIT:
            return "reached its memory limit", True
        if code == EXIT_NO_SANDBOX:
            return f"has no sandbox and must not work without ({self.sandbox})", False
        if code < 0:
            cause = " for want of memory" if _lacked_memory(notes, code) else ""
            return f"was ended by {_signal_name(-code)}{cause}", -code in _CRASH_SIGNALS
        return f"exited with {code}", code > 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def suspects_of_exit(notes: bytes, code: int) -> Suspects:
    """The (session, source) pairs that may have caused an exit with this code, often none. They come from the notes of
    the process (`SUSPECT_SLOTS`)."""
    noted = list(SUSPECT_NOTE.iter_unpack(notes[: SUSPECT_SLOTS * SUSPECT_NOTE.size]))
    session, _ = noted.pop(SESSION_SLOT)
    sources = [source for source, _ in noted if source]
    end_bytes = _memory_at_end(notes)
    if end_bytes is not None and _lacked_memory(notes, code):
        # Many players together can use the memory up, and the memory of concurrent steps cannot be distinguished.
        growing = [source for source, guilty_from_bytes in noted if source and end_bytes >= guilty_from_bytes]
        suspects = growing if growing == sources and len(growing) == 1 else []
    # The process's own code raised an error in a session's step. Other exits are caused by a source, if any was noted.
    elif session and (code > 0 or not sources):
        suspects = [session]
    else:
        suspects = sources
    return tuple((suspect >> 32, suspect & 0xFFFFFFFF) for suspect in suspects)


def _lacked_memory(notes: bytes, code: int) -> bool:
    """Whether a process ended because its memory was used up: its code says so, or hardly any remained at a crash."""
    return code == EXIT_MEMORY_LIMIT or (-code in _CRASH_SIGNALS and _memory_at_end(notes) is not None)


def _memory_at_end(notes: bytes) -> int | None:
    """The writable memory, in bytes, of a process that could take hardly any more at its end; None for others."""
    with suppress(ValueError, IndexError):
        return int(notes[END_MEMORY].split()[5]) * _PAGE_BYTES  # proc(5): "data"
    return None
