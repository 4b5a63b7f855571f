"""How a decoder process starts: as a new interpreter, or as a fork of a template (see `template`)."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final, Protocol

from tonearm.sandbox.report import SandboxMode
from tonearm.sandbox.supervision import minimal_environment

_MODULE: Final = "tonearm.worker"


class ChildProcess(Protocol):
    """A child of this process. `kill` may be called at any time, `wait` once, from any thread."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int:
        """Returns the exit status once it has ended, negative for the signal that ended it."""
        ...

    def kill(self) -> None: ...


class DecoderStarter(Protocol):
    @property
    def is_cheap(self) -> bool:
        """Whether a start takes so little CPU that it does not disturb players."""
        ...

    async def start(self, connection: int, suspects: int) -> ChildProcess:
        """Starts a decoder process with these two descriptors, its socket and its shared memory, which the caller
        closes afterwards. Raises `OSError` when the system cannot."""
        ...


class DirectStarter:
    """Starts each process as a new interpreter."""

    is_cheap: Final = False

    def __init__(self, memory_limit_mb: int, sandbox_mode: SandboxMode) -> None:
        self._memory_limit_mb = memory_limit_mb
        self._sandbox_mode = sandbox_mode

    async def start(self, connection: int, suspects: int) -> ChildProcess:
        descriptors = (connection, suspects)
        return start_interpreter((*descriptors, self._memory_limit_mb, self._sandbox_mode), descriptors)


def start_interpreter(arguments: tuple[object, ...], descriptors: tuple[int, ...]) -> ChildProcess:
    """Runs the module of decoder processes in a new interpreter, in a session (setsid) of its own. Raises
    `OSError`."""
    return subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
        [sys.executable, "-m", _MODULE, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
        env={**minimal_environment(os.environ), "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
    )


def tell_exit(process: ChildProcess, name: str, on_exit: Callable[[int], None]) -> None:
    """Calls `on_exit` in this event loop with the status, as soon as the process has ended.

    A thread called `name` waits for the exit: the only way to see it at once on every system. Kills the process and
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
    """A child of this process that the template has forked. Raises `ChildProcessError` when `pid` is no child."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._is_reaped = False  # once reaped, another process may get the number
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    @property
    def pid(self) -> int:
        return self._pid

    def wait(self) -> int:
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._is_reaped = True
            return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def kill(self) -> None:
        with self._lock:
            if not self._is_reaped:
                os.kill(self._pid, signal.SIGKILL)
