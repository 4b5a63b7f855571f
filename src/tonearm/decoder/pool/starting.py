"""Starts decoder processes: as forks of the template, a process that has loaded everything, or as new interpreters.

The template forks decoder processes as children of the node (`fork_sibling`), so that the node gets their exits, and
they outlive the template. If a template cannot fork, each decoder process is started as a new interpreter.
"""

import asyncio
import contextlib
import errno
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from tonearm.decoder.messages import FORK_ANSWER, FORK_ORDER
from tonearm.sandbox.report import SandboxMode, minimal_environment

DECODER_MODULE: Final = "tonearm.worker"
# Variables of the environment. All threads share one heap of libc: a second heap reserves 64 MB of address space, which
# the memory limit counts. If libc cannot have the 64 MB, each block of a thread takes a page, until there is room after
# all.
LIBRARY_SETTINGS: Final = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}


class ChildProcess(Protocol):
    """A child of this process. `kill` may be called at any time, `wait` once, from any thread."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int:
        """Returns the exit status once it has ended, negative for the signal that ended it."""

    def kill(self) -> None: ...


class DecoderStarter(Protocol):
    @property
    def is_cheap(self) -> bool:
        """Whether a start takes so little CPU that it does not disturb players."""

    async def start(self, connection: int, suspects: int) -> ChildProcess:
        """Starts a decoder process with these two descriptors, its socket and its shared memory, which the caller
        closes afterwards. Raises `OSError` when the system cannot."""


StartInterpreter: TypeAlias = Callable[[tuple[object, ...], tuple[int, ...]], ChildProcess]
"""Starts an interpreter with these arguments and descriptors, as `start_interpreter` does."""


class DirectStarter:
    """Starts each process as a new interpreter, by `start`."""

    is_cheap: Final = False

    def __init__(self, memory_limit_mb: int, sandbox_mode: SandboxMode, start: StartInterpreter | None = None) -> None:
        self._memory_limit_mb = memory_limit_mb
        self._sandbox_mode = sandbox_mode
        self._start = start or start_interpreter

    async def start(self, connection: int, suspects: int) -> ChildProcess:
        descriptors = (connection, suspects)
        return self._start((*descriptors, self._memory_limit_mb, self._sandbox_mode), descriptors)


def start_interpreter(
    arguments: tuple[object, ...],
    descriptors: tuple[int, ...],
    interpreter: str | None = None,
    *,
    module: str = DECODER_MODULE,
) -> ChildProcess:
    """Runs one of our modules, by default that of decoder processes, in a new interpreter, in a session (setsid) of its
    own. `interpreter` is the path of its program, None for the interpreter of this process. Raises `OSError`."""
    return subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
        [interpreter or sys.executable, "-P", "-m", module, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
        env={**minimal_environment(os.environ), **LIBRARY_SETTINGS},
    )


def tell_exit(process: ChildProcess, name: str, on_exit: Callable[[int], None]) -> None:
    """Calls `on_exit` in this event loop with the status, as soon as the process has ended.

    A thread called `name` waits for the exit: the only way to get it at once on every system. Kills the process and
    raises `OSError` when no thread can be started.
    """
    loop = asyncio.get_running_loop()

    def wait() -> None:
        status = process.wait()
        with contextlib.suppress(RuntimeError):  # The event loop is closed.
            loop.call_soon_threadsafe(on_exit, status)

    try:
        threading.Thread(target=wait, name=name, daemon=True).start()
    except RuntimeError as error:
        process.kill()
        process.wait()
        raise OSError(f"no thread for it could be started ({error})") from error


class ForkedProcess:
    """A child of this process that the template has forked. Raises `ChildProcessError` when `pid` is not a child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._lock = threading.Lock()
        self._is_reaped = False  # afterwards another process may get the number
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def wait(self) -> int:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._is_reaped = True
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        with self._lock:
            if not self._is_reaped:
                os.kill(self.pid, signal.SIGKILL)


log = logging.getLogger(__name__)

ANSWER_LIMIT_S: Final = 5.0
LOAD_LIMIT_S: Final = 20.0  # for the first answer, which takes a fraction of a second, but more on a busy machine
KILL_AFTER_S: Final = 1.0
MOST_FAILURES: Final = 2  # after so many templates in a row without a fork, no further template is started
_TRANSIENT: Final = (errno.EAGAIN, errno.ENOMEM)


class DecoderTemplate:
    """Starts decoder processes, until `stop`. The first `load` or `start` starts the template. It is replaced when it
    ends or, after its first fork, does not answer for `answer_limit_s`. The argument `start` starts interpreters."""

    def __init__(
        self,
        memory_limit_mb: int,
        sandbox_mode: SandboxMode,
        start: StartInterpreter | None = None,
        *,
        answer_limit_s: float = ANSWER_LIMIT_S,
    ) -> None:
        self._memory_limit_mb = memory_limit_mb
        self._sandbox_mode = sandbox_mode
        self._start = start or start_interpreter
        self._answer_limit_s = answer_limit_s
        self._direct = DirectStarter(memory_limit_mb, sandbox_mode, start)
        self._process: _TemplateProcess | None = None
        self._failures = 0
        self._is_given_up = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_cheap(self) -> bool:
        """Whether there is a template that has forked before, so that the next fork is cheap."""
        return self._process is not None and self._process.has_forked

    def load(self) -> None:
        """Starts the template now, in the background, instead of with the first `start`."""
        if self._process is None:
            with contextlib.suppress(OSError):  # `start` tries again, and reports the error
                self._begin()

    async def start(self, connection: int, suspects: int) -> ChildProcess:
        """See `DecoderStarter`. Waits while the template is loading, since a direct start would take as long. When the
        template ends meanwhile, the process is started directly."""
        if not self._is_given_up:
            with contextlib.suppress(_TemplateLost):
                return await self._fork(connection, suspects)
        return await self._direct.start(connection, suspects)

    async def stop(self) -> None:
        """Ends the template. Decoder processes that it has forked go on."""
        process, self._process = self._process, None
        if process is not None:
            await process.stop()

    async def _fork(self, connection: int, suspects: int) -> ChildProcess:
        if self._process is None:
            self._begin()
        assert self._process is not None
        limit_s = self._answer_limit_s if self._process.has_forked else LOAD_LIMIT_S
        answer = await self._process.order(connection, suspects, limit_s)
        if answer > 0:
            return ForkedProcess(answer)
        if -answer in _TRANSIENT:
            raise OSError(-answer, os.strerror(-answer))
        self._give_up(logging.INFO, f"a template cannot fork here ({errno.errorcode.get(-answer, -answer)})")
        raise _TemplateLost

    def _begin(self) -> None:
        words = (self._memory_limit_mb, self._sandbox_mode, "template")
        self._process = _TemplateProcess(words, self._start, self._ended)

    def _ended(self, process: "_TemplateProcess") -> None:
        if process is not self._process:
            return
        self._process = None
        self._failures = 0 if process.has_forked else self._failures + 1
        if self._failures >= MOST_FAILURES:
            self._give_up(logging.WARNING, "their template ends before it has forked one")
        else:
            log.warning(
                "the template of the decoder processes has ended; these processes continue, and it is started again"
            )
            self.load()

    def _give_up(self, level: int, reason: str) -> None:
        if self._is_given_up:
            return
        self._is_given_up = True
        log.log(level, "each decoder process is started as a new interpreter, which takes longer: %s", reason)
        process, self._process = self._process, None
        if process is not None:
            process.end()


class _TemplateLost(Exception):
    """The template or its socket has ended, and no process was started."""


class _TemplateProcess:
    """A template process. Calls `on_end` when the process has ended or is killed. Raises `OSError` when it cannot be
    started."""

    def __init__(
        self, words: tuple[object, ...], start: StartInterpreter, on_end: "Callable[[_TemplateProcess], None]"
    ) -> None:
        self._on_end = on_end
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[int]] = {}
        self._is_over = asyncio.Event()  # the socket is closed
        self._exited = asyncio.Event()
        self._is_killed = False
        self.has_forked = False
        # A socket of packets, since both the template and the processes that it forks answer on it.
        self._socket, template_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.setblocking(False)
            self._process = start((template_end.fileno(), os.getpid(), *words), (template_end.fileno(),))
            self.pid = self._process.pid
            tell_exit(self._process, "template-exit", lambda _: self._exited.set())
        except BaseException:
            self._socket.close()
            raise
        finally:
            template_end.close()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._receive)

    async def order(self, connection: int, suspects: int, limit_s: float) -> int:
        """Orders a fork. Returns the id of the new process, or the negative number of the error. Raises
        `_TemplateLost`, or `OSError` when it is unknown whether a process was forked. A template that does not answer
        within `limit_s` is killed."""
        number = next(self._numbers)
        try:
            socket.send_fds(self._socket, [FORK_ORDER.pack(number)], [connection, suspects])
        except OSError as error:
            self.end()
            raise _TemplateLost from error
        answer: asyncio.Future[int] = self._loop.create_future()
        self._answers[number] = answer
        try:
            await asyncio.wait([answer], timeout=limit_s)
            if not answer.done():
                if not self._is_killed:
                    log.warning("the template of the decoder processes does not answer and is killed")
                self._kill()
                await asyncio.wait([answer], timeout=KILL_AFTER_S)
            if not answer.done():
                raise OSError(errno.ETIMEDOUT, "the template does not answer")
            return answer.result()
        except asyncio.CancelledError:
            if answer.done() and answer.exception() is None:
                _end_unwanted(answer.result())
            raise
        finally:
            answer.cancel()

    async def stop(self) -> None:
        """Ends the template, and the ordered processes that nobody waits for any more."""
        if self._answers and not self._is_over.is_set():
            # The template still forks what was ordered; the socket is closed after the last answer.
            self._socket.shutdown(socket.SHUT_WR)
            for end_it in (self._kill, self.end):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._is_over.wait(), KILL_AFTER_S)
                    break
                end_it()
        self.end()
        await self._exited.wait()

    def end(self) -> None:
        """Kills the template. Orders without an answer are lost. Decoder processes that it has forked go on."""
        if self._is_over.is_set():
            return
        self._is_over.set()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._kill()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(_TemplateLost())
        self._answers.clear()
        self._on_end(self)

    def _kill(self) -> None:
        self._is_killed = True
        self._process.kill()

    def _receive(self) -> None:
        try:
            packet = self._socket.recv(FORK_ANSWER.size)
        except (BlockingIOError, InterruptedError, ConnectionResetError):
            return  # reset: the template ended before it read an order; other answers and the end are still to come
        if not packet:
            # The other end is closed everywhere: the template has ended, and every forked process has answered.
            self.end()
            return
        number, process_id = FORK_ANSWER.unpack(packet)
        self.has_forked |= process_id > 0
        answer = self._answers.pop(number)
        if not answer.done():
            answer.set_result(process_id)
        else:
            _end_unwanted(process_id)


def _end_unwanted(process_id: int) -> None:
    """Kills a process that nobody waits for any more. A negative number is an error, and is ignored."""
    if process_id < 0:
        return
    with contextlib.suppress(OSError):
        process = ForkedProcess(process_id)
        process.kill()
        tell_exit(process, "unwanted-decoder-exit", lambda _: None)
