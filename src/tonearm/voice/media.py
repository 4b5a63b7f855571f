"""The voice processes, from the node's side: which process has which connection, and the messages in both directions.

In each turn of the loop a process gets the packets of all its connections in one message. Messages that the process
cannot take at once wait, but of the frames only the newest do. The loop never waits.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tonearm.core.voice import LATE_MS, DaveStatus, PacketCounts, VoiceProcessFigures, VoiceSettings
from tonearm.decoder.pool.starting import start_interpreter, tell_exit
from tonearm.sandbox.report import SandboxMode
from tonearm.voice import messages

_MODULE: Final = "tonearm.voice.process"
_CONNECTIONS_A_PROCESS: Final = 300
_START_LIMIT_S: Final = 20.0
_FINISH_LIMIT_S: Final = 1.0  # five frames of silence take 0.1 s
_READ_BYTES: Final = 256 * 1024
_READS_AT_ONCE: Final = 32
_MOST_WAITING: Final = 4_000  # messages for a process that takes none

log = logging.getLogger(__name__)


class VoiceProcessError(Exception):
    """No process could take the connection; the message says why."""


class MediaReports(Protocol):
    """The reports to a connection, called from the node's event loop. No method raises."""

    def say(self, message: bytes | tuple[int, Mapping[str, Any]]) -> None:
        """A message to send to the voice server: a binary message with its opcode, or an opcode and an object."""

    def silent(self, frames: int) -> None:
        """Five frames of silence were sent, after `frames` frames."""

    def dave_changed(self, status: DaveStatus) -> None: ...

    def counted(self, packets: PacketCounts) -> None:
        """The counts since this media began. Called at most once a second."""

    def process_lost(self) -> None:
        """The process has ended, and the media with it."""


@dataclass(frozen=True, slots=True)
class MediaFigures:
    """`late`: by a time in ms, how many packets were later than that."""

    processes: tuple[VoiceProcessFigures, ...]
    restarts: int
    late: Mapping[int, int]
    longest_mls_ms: float


class Media:
    """The packets of one connection. `frames`: how many frames it got."""

    def __init__(self, process: "_Process", number: int, reports: MediaReports) -> None:
        self._process = process
        self._finished: asyncio.Future[None] | None = None
        self.number = number
        self.reports = reports
        self.frames = 0
        self.lost = 0  # frames that were dropped because the process took no more

    def frame(self, packet: bytes) -> None:
        """Sends one Opus packet of 20 ms now."""
        self.frames += 1
        self._process.frame(self.number, packet)

    def gateway(self, op: int, data: Mapping[str, Any] | bytes) -> None:
        """Passes on a message of the voice server about members and the end-to-end encryption. Messages that are too
        large or have invalid values are ignored."""
        message = messages.Gateway(self.number, op, data if isinstance(data, bytes) else dict(data))
        with contextlib.suppress(ValueError, OverflowError, RecursionError):
            self._process.post(self._process.pack(message))

    async def finish(self) -> None:
        """Ends after five frames of silence. Takes 0.1 s, or `_FINISH_LIMIT_S` if the process does not answer."""
        if self._process.media.get(self.number) is not self:
            return
        self._finished = asyncio.get_running_loop().create_future()
        self._process.send(messages.Finish(self.number))
        try:
            await asyncio.wait([self._finished], timeout=_FINISH_LIMIT_S)
        finally:
            self.close()

    def close(self) -> None:
        """Ends at once."""
        if self._process.media.pop(self.number, None) is self:
            self._process.send(messages.Close(self.number))
            self._process.on_close(self._process)

    def has_finished(self) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)


class VoiceProcesses:
    """All voice processes of a node; the first one starts with `prepare` or the first connection."""

    def __init__(self, settings: VoiceSettings, sandbox_mode: SandboxMode) -> None:
        self._settings = settings
        self._sandbox_mode = sandbox_mode
        self._processes: list[_Process] = []
        self._starts: set[asyncio.Task[_Process]] = set()  # of processes that many connections share
        self._ending: set[_Process] = set()  # not needed any more
        self._last = 0
        self._restarts = 0
        self._late = [0] * len(LATE_MS)  # of processes that have ended
        self._longest_mls_ms = 0.0
        self._is_over = False

    def prepare(self) -> None:
        """Starts a process in the background, if there is none."""
        if not self._processes and not self._starts and not self._is_over:
            self._begin()

    async def open(self, setting: messages.MediaSetting, udp: socket.socket, reports: MediaReports) -> Media:
        """Owns the connected socket from now on, even when it raises. Raises `VoiceProcessError`."""
        with udp:
            process = await self._process_for(is_large=setting.is_large)
            try:
                descriptor = os.dup(udp.fileno())
            except OSError as error:
                self._closed(process)
                raise VoiceProcessError(f"a voice process could not be given its socket ({error})") from error
            self._last += 1
            number = self._last
            media = process.media[number] = Media(process, number, reports)
            process.send(messages.Open(number, setting), descriptor)
            return media

    def figures(self) -> MediaFigures:
        late, longest_mls_ms = list(self._late), self._longest_mls_ms
        for process in self._processes:
            late = _sum_of(late, process.late)
            longest_mls_ms = max(longest_mls_ms, process.longest_mls_ms)
        processes = tuple(VoiceProcessFigures(process.pid, len(process.media)) for process in self._processes)
        return MediaFigures(processes, self._restarts, dict(zip(LATE_MS, late, strict=True)), longest_mls_ms)

    async def stop(self) -> None:
        self._is_over = True
        for start in self._starts:
            start.cancel()
        if self._starts:
            await asyncio.wait(self._starts)
        processes, self._processes = self._processes, []
        for process in processes:
            process.end()
        for process in (*processes, *self._ending):
            await process.exited.wait()

    async def _process_for(self, *, is_large: bool) -> "_Process":
        try:
            return await (self._start(is_alone=True) if is_large else self._shared_process())
        except (OSError, TimeoutError) as error:
            raise VoiceProcessError(f"a voice process could not be started ({error})") from error

    async def _shared_process(self) -> "_Process":
        """The shared process with the fewest connections."""
        if self._is_over:
            raise VoiceProcessError("the node is stopping")
        for _ in range(self._wanted_processes - len(self._shared) - len(self._starts)):
            self._begin()
        if self._starts and (self._settings.processes or not self._shared):
            await asyncio.wait(self._starts)
        if self._shared:
            return min(self._shared, key=lambda each: len(each.media))
        raise VoiceProcessError("no voice process could be started")

    @property
    def _shared(self) -> "list[_Process]":
        return [each for each in self._processes if not each.is_alone]

    @property
    def _wanted_processes(self) -> int:
        connections = sum(len(each.media) for each in self._shared)
        needed = min(1 + connections // _CONNECTIONS_A_PROCESS, len(os.sched_getaffinity(0)))
        return self._settings.processes or needed

    def _begin(self) -> None:
        start = asyncio.get_running_loop().create_task(self._start(is_alone=False))
        self._starts.add(start)
        start.add_done_callback(self._start_ended)

    def _start_ended(self, start: "asyncio.Task[_Process]") -> None:
        self._starts.discard(start)
        if not start.cancelled() and start.exception() is not None:
            log.warning("a voice process could not be started: %s", start.exception())

    async def _start(self, *, is_alone: bool) -> "_Process":
        process = _Process(self._sandbox_mode, self._ended, self._closed, is_alone=is_alone)
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                await process.started()
            if process.exited.is_set():
                raise OSError(f"it {process.why}")
        except BaseException:
            process.end()
            await process.exited.wait()
            raise
        self._processes.append(process)
        return process

    def _closed(self, process: "_Process") -> None:
        """A connection of the process is over."""
        if process.is_alone and process in self._processes:
            self._processes.remove(process)
            self._ending.add(process)
            process.end()

    def _ended(self, process: "_Process") -> None:
        """A process has ended, by itself or because the node killed it."""
        self._ending.discard(process)
        self._late = _sum_of(self._late, process.late)
        self._longest_mls_ms = max(self._longest_mls_ms, process.longest_mls_ms)
        if process not in self._processes:
            return
        self._processes.remove(process)
        self._restarts += 1
        log.warning(
            "voice process %d %s; its %d connections are opened again", process.pid, process.why, len(process.media)
        )
        if process.media and not process.is_alone:
            self.prepare()
        media, process.media = process.media, {}
        for each in media.values():
            each.has_finished()
            each.reports.process_lost()


class _Process:
    """One voice process. `on_end` is called when it has ended, `on_close` when the node has closed a connection.
    Raises `OSError` when it cannot be started."""

    def __init__(
        self,
        mode: SandboxMode,
        on_end: "Callable[[_Process], None]",
        on_close: "Callable[[_Process], None]",
        *,
        is_alone: bool,
    ) -> None:
        self._mode = mode
        self._on_end = on_end
        self.on_close = on_close
        self._coder = messages.Coder(messages.FromProcess)
        self._frames: list[tuple[int, bytes]] = []
        self._waiting: deque[tuple[bytes, int | None]] = deque()
        self._started: asyncio.Future[messages.Started] = asyncio.get_running_loop().create_future()
        self._is_over = self._is_flush_due = self._waits_for_room = False
        self.is_alone = is_alone
        self.media: dict[int, Media] = {}
        self.late = (0,) * len(LATE_MS)
        self.longest_mls_ms = 0.0
        self.exited = asyncio.Event()
        self.why = "has ended"
        self._socket, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * messages.MOST_MESSAGE_BYTES)
            descriptor = its_end.fileno()
            self._child = start_interpreter((descriptor, mode), (descriptor,), module=_MODULE)
            self.pid = self._child.pid
            tell_exit(self._child, "voice-exit", self._exited)
        except BaseException:
            self._socket.close()
            raise
        finally:
            its_end.close()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._receive)

    async def started(self) -> None:
        """Returns when it takes connections. Raises `OSError` when it never will."""
        report = await self._started
        log.debug("voice process %d has the sandbox %s", self.pid, report.sandbox)

    def frame(self, number: int, packet: bytes) -> None:
        self._frames.append((number, packet))
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def pack(self, message: messages.FromNode) -> bytes:
        """Raises the errors of msgspec for foreign values that cannot be packed, and ValueError for a message that is
        too large."""
        packed = self._coder.pack(message)
        if len(packed) > messages.MOST_MESSAGE_BYTES:
            raise ValueError("the message is too large")
        return packed

    def send(self, message: messages.FromNode, descriptor: int | None = None) -> None:
        """Owns `descriptor` from now on."""
        self.post(self.pack(message), descriptor)

    def post(self, packed: bytes, descriptor: int | None = None) -> None:
        """As `send`, for a message that is packed already."""
        self._flush()  # the frames that came before
        if self._is_over:
            _close(descriptor)
            return
        self._waiting.append((packed, descriptor))
        if len(self._waiting) > _MOST_WAITING:
            self._kill("takes nothing, and was killed")
        else:
            self._flush()

    def end(self) -> None:
        """Closes the socket and kills the process, which has nothing to finish."""
        if self._is_over:
            return
        self._is_over = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, descriptor in self._waiting:
            _close(descriptor)
        self._waiting.clear()
        self._frames.clear()
        self._child.kill()
        if not self._started.done():
            self._started.set_exception(OSError(f"it {self.why}"))

    def _flush(self) -> None:
        """Sends the waiting messages, then the frames, as far as the process takes them."""
        self._is_flush_due = False
        if self._is_over:
            return
        try:
            while self._waiting:
                message, descriptor = self._waiting[0]
                if descriptor is None:
                    self._socket.send(message)
                else:
                    socket.send_fds(self._socket, [message], [descriptor])
                    _close(descriptor)
                self._waiting.popleft()
            if self._frames:
                self._send_frames()
        except (BlockingIOError, InterruptedError):
            self._wait_for_room()
        except OSError as error:
            self._kill(f"cannot be reached ({error.strerror})")
        else:
            if self._waits_for_room:
                self._waits_for_room = False
                self._loop.remove_writer(self._socket)

    def _send_frames(self) -> None:
        frames, self._frames = self._frames, []
        taken = 0
        try:
            for message, count in messages.pack_frames(frames):
                self._socket.send(message)
                taken += count
        except OSError:
            self._frames = frames[taken:]
            raise

    def _wait_for_room(self) -> None:
        """Sends the rest when the socket has room. A flood of other messages fills the socket for less than a frame's
        time, so frames that are too old are dropped."""
        if not self._waits_for_room:
            self._waits_for_room = True
            self._loop.add_writer(self._socket, self._flush)
        too_many = len(self._frames) - messages.MOST_FRAMES_BEHIND * len(self.media)
        if too_many > 0:
            for number, _ in self._frames[:too_many]:
                if (media := self.media.get(number)) is not None:
                    media.lost += 1
            del self._frames[:too_many]

    def _receive(self) -> None:
        try:
            for _ in range(_READS_AT_ONCE):
                packet = self._socket.recv(_READ_BYTES)
                if not packet:
                    self._kill("has ended")
                    return
                self._take(self._coder.read(packet))
        except (BlockingIOError, InterruptedError):
            return
        except messages.BrokenVoiceMessage as error:
            self._kill(f"said what it may not say ({error}), and was killed")
        except OSError as error:
            self._kill(f"cannot be reached ({error.strerror})")

    def _take(self, message: messages.FromProcess) -> None:
        if isinstance(message, messages.Started):
            self._take_start(message)
        elif isinstance(message, messages.Counts):
            self.late, self.longest_mls_ms = message.late, message.longest_mls_ms
            for number, sent, silence, dropped in message.connections:
                if (media := self.media.get(number)) is not None:
                    media.reports.counted(PacketCounts(sent, silence, dropped + media.lost))
        elif (media := self.media.get(message.connection)) is not None:
            _take_for(media, message)

    def _take_start(self, message: messages.Started) -> None:
        if self._started.done():
            return
        if self._mode.needs_seccomp and not message.is_confined:
            self.why = f"has no sandbox and must not work without ({message.problem})"
        else:
            self._started.set_result(message)

    def _kill(self, why: str) -> None:
        if not self._is_over:
            self.why = why
            self.end()

    def _exited(self, status: int) -> None:
        if not self._is_over and self.why == "has ended":
            self.why = f"ended with status {status}"
        self.end()
        self.exited.set()
        self._on_end(self)


def _sum_of(some: Sequence[int], others: Sequence[int]) -> list[int]:
    return [one + other for one, other in zip(some, others, strict=True)]


def _take_for(media: Media, message: messages.Say | messages.Silent | messages.DaveChanged | messages.Finished) -> None:
    match message:
        case messages.Say(_, op, bytes(data)) if op in messages.OPS_SAID:
            media.reports.say(bytes((op,)) + data)
        case messages.Say(_, op, dict(data)) if op in messages.OPS_SAID:
            media.reports.say((op, data))
        case messages.Silent(_, frames):
            media.reports.silent(frames + media.lost)
        case messages.DaveChanged(_, status):
            media.reports.dave_changed(status)
        case messages.Finished():
            media.has_finished()
        case _:
            raise messages.BrokenVoiceMessage(type(message).__name__)


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
