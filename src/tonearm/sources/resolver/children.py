"""The node's side of the resolver's processes: a pool of them, each asked one thing at a time and killed when late.

They are kept for a while because starting one takes half a second.
"""

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, create_subprocess_exec
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, Self

from tonearm.core.json_value import Json, JsonObject
from tonearm.sandbox.report import SandboxReport
from tonearm.sandbox.supervision import minimal_environment
from tonearm.sources.resolver.door import Dial, Door

LARGEST_ANSWER_BYTES: Final = 512 * 1024


class ChildBroken(Exception):
    """The process ended, or its answer cannot be understood; it is of no use any more."""


class ChildProcess:
    """To be killed when its work is cancelled or failed: its answer could be taken for the next one.

    `sandbox` is what it reported with its first answer, None before or when it reports nothing.
    """

    def __init__(self, process: Process, door: Door | None) -> None:
        self._process = process
        self._door = door
        self.answers = 0
        self.sandbox: SandboxReport | None = None

    @classmethod
    async def start(cls, command: Sequence[str], dial: Dial | None = None) -> Self:
        """`command` gets the descriptor of its door as a last argument, -1 without `dial`, from which connections come.

        Raises `OSError` when the system cannot.
        """
        door = None if dial is None else Door(dial)
        passed = () if door is None else (door.process_end.fileno(),)
        try:
            process = await create_subprocess_exec(
                *command,
                *(map(str, passed or (-1,))),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                start_new_session=True,
                pass_fds=passed,
                limit=LARGEST_ANSWER_BYTES,
                env=child_environment(os.environ),
            )
        except BaseException:
            if door is not None:
                door.close()
            raise
        finally:
            if door is not None:
                door.process_end.close()
        return cls(process, door)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        output = self._process.stdout  # its end is seen before the process is reaped
        return self._process.returncode is not None or (output is not None and output.at_eof())

    async def ask(self, request: JsonObject) -> JsonObject:
        """Raises `ChildBroken`."""
        writer, reader = self._process.stdin, self._process.stdout
        assert writer is not None
        assert reader is not None
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            raise ChildBroken("its answer is too long") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ChildBroken("it ended without an answer") from error
        answer = _parsed(line)
        report = answer.pop("sandbox", None)
        if not self.answers and isinstance(report, dict):
            # Later it has read what strangers wrote, and may say anything.
            self.sandbox = _sandbox(report)
        self.answers += 1
        return answer

    def kill(self) -> None:
        """Ends it and whatever it may have started."""
        if self._door is not None:
            self._door.close()
        with contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:  # reaped: its number may belong to another process
                os.killpg(self._process.pid, signal.SIGKILL)

    async def wait(self) -> None:
        """Returns once it has ended and is taken note of."""
        await self._process.wait()


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What Python, OpenSSL and yt-dlp need to find their files, no more."""
    kept = minimal_environment(environment, "SSL_CERT_FILE", "SSL_CERT_DIR")
    return {**kept, "YTDLP_NO_PLUGINS": "1", "PYTHONUTF8": "1"}


def _parsed(line: bytes) -> JsonObject:
    try:
        answer: Json = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ChildBroken("its answer is not JSON") from error
    if not isinstance(answer, dict):
        raise ChildBroken("its answer is no object")
    return answer


def _sandbox(report: JsonObject) -> SandboxReport:
    """Raises `ChildBroken`."""
    match report:
        case {"seccomp": bool(seccomp), "landlock_abi": int(abi), "problem": str(problem)}:
            return SandboxReport(seccomp, abi, problem)
    raise ChildBroken("what it reports of its sandbox makes no sense")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _nothing() -> None:
    """What is done at the beginning unless something else is asked for."""


# Extractors keep things in memory; a process that has worked this often is replaced.
_ANSWERS_AT_MOST: Final = 100


class ChildPool:
    """Runs at most `at_most` processes; further requests wait until one is free. One that did nothing for `idle_s` is
    sent home, but with `keeps_one` not the last.

    `warm_up` is asked of each new process within `start_s`; what it answers does not matter. `dial` gives the processes
    their connections; without it they get none. `take_note` gets the sandbox report of each.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        at_most: int,
        idle_s: float,
        keeps_one: bool = False,
        warm_up: JsonObject | None = None,
        start_s: float = 30.0,
        dial: Dial | None = None,
        take_note: Callable[[SandboxReport], None] | None = None,
    ) -> None:
        self._command = tuple(command)
        self._dial = dial
        self._take_note = take_note
        self._warm_up = warm_up
        self._start_s = start_s
        self._idle_s = idle_s
        self._keeps_one = keeps_one
        self._places = asyncio.Semaphore(at_most)
        self.waiting = 0  # who wants a process and has none yet
        self._idle: list[tuple[ChildProcess, asyncio.TimerHandle | None]] = []
        self._working: set[ChildProcess] = set()
        # Whoever asked for these has given up meanwhile: the next one who needs a process waits for one of them.
        self._starting: set[asyncio.Task[ChildProcess]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def working(self) -> int:
        """How many processes work."""
        return len(self._working)

    @property
    def sandboxes(self) -> list[SandboxReport]:
        """What each process reported that has answered."""
        children = (*self._working, *(child for child, _ in self._idle))
        return [child.sandbox for child in children if child.sandbox is not None]

    async def ask(self, request: JsonObject, within_s: float, begins: Callable[[], None] = _nothing) -> JsonObject:
        """The answer of a process. `within_s` counts from when one is free and warm, and `begins` is called then.

        A late one is killed. Raises `TimeoutError` or `ChildBroken`. When the caller is cancelled, the work is ended as
        well.
        """
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        try:
            if self._is_closed:
                raise ChildBroken("the node is shutting down")
            child = self._idle_child()
            try:
                if child is None:
                    child = await self._warm_child()
                begins()
                async with asyncio.timeout(within_s):
                    answer = await self._asked(child, request)
            except OSError as error:
                if child is not None:
                    self._end(child)
                if isinstance(error, TimeoutError):
                    raise
                raise ChildBroken(f"it could not be started: {error.strerror or error}") from error
            except BaseException:
                if child is not None:
                    self._end(child)
                raise
            self._put_back(child)
            return answer
        finally:
            self._places.release()

    async def close(self) -> None:
        """Ends all processes and returns when they are gone."""
        self._is_closed = True
        for starting in self._starting:
            starting.cancel()
        if self._starting:
            await asyncio.wait(tuple(self._starting))
        for child, timer in self._idle:
            if timer is not None:
                timer.cancel()
            self._end(child)
        self._idle.clear()
        for child in tuple(self._working):
            self._end(child)
        if self._ending:
            await asyncio.wait(self._ending)

    async def _asked(self, child: ChildProcess, request: JsonObject) -> JsonObject:
        is_first = not child.answers
        answer = await child.ask(request)
        if is_first and child.sandbox is not None and self._take_note is not None:
            self._take_note(child.sandbox)
        return answer

    def _idle_child(self) -> ChildProcess | None:
        while self._idle:
            child, timer = self._idle.pop()
            if timer is not None:
                timer.cancel()
            if not child.has_ended:
                self._working.add(child)
                return child
            self._end(child)
        return None

    async def _warm_child(self) -> ChildProcess:
        """A new process. Its start goes on when the caller is cancelled: else one that is slow to start never would,
        where nobody waits for so long."""
        starting = self._starting.pop() if self._starting else asyncio.create_task(self._started())
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if not starting.cancelled():
                self._starting.add(starting)
                starting.add_done_callback(self._started_for_nobody)
            raise

    def _started_for_nobody(self, starting: asyncio.Task[ChildProcess]) -> None:
        """Keeps the process, unless somebody waits for it again, or it did not start."""
        if starting in self._starting:
            self._starting.discard(starting)
            if not starting.cancelled() and starting.exception() is None:
                self._put_back(starting.result())

    async def _started(self) -> ChildProcess:
        child = None
        try:
            async with asyncio.timeout(self._start_s):
                child = await ChildProcess.start(self._command, self._dial)
                self._working.add(child)
                if self._is_closed:
                    raise ChildBroken("the node is shutting down")
                if self._warm_up is not None:
                    await self._asked(child, self._warm_up)
        except BaseException:
            if child is not None:
                self._end(child)
            raise
        return child

    def _put_back(self, child: ChildProcess) -> None:
        self._working.discard(child)
        if self._is_closed or child.answers >= _ANSWERS_AT_MOST:
            self._end(child)
            return
        is_kept = self._keeps_one and not self._idle
        loop = asyncio.get_running_loop()
        timer = None if is_kept else loop.call_later(self._idle_s, self._dismiss, child)
        self._idle.append((child, timer))

    def _dismiss(self, child: ChildProcess) -> None:
        self._idle = [entry for entry in self._idle if entry[0] is not child]
        self._end(child)

    def _end(self, child: ChildProcess) -> None:
        self._working.discard(child)
        child.kill()
        task = asyncio.get_running_loop().create_task(child.wait())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
