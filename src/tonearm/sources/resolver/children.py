"""The node's side of the resolver's processes: a pool of processes, each with one request at a time, killed when late.

An idle process is kept for a while, because starting a process takes long.
"""

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, create_subprocess_exec
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, Self

from tonearm.core.metadata import Json, JsonObject
from tonearm.sandbox.report import SandboxReport, minimal_environment
from tonearm.sources.resolver.door import Dial, Door

LARGEST_ANSWER_BYTES: Final = 512 * 1024


class ChildBroken(Exception):
    """The process ended, or its answer cannot be parsed; it cannot be used any more."""


class ResolverChild:
    """A process of the pool. It has to be killed when its work is cancelled or failed: otherwise its late answer could
    be taken for the next one.

    `sandbox` is what the process reported with its first answer; None before, and for a process that reports nothing.
    """

    def __init__(self, process: Process, door: Door | None) -> None:
        self._process = process
        self._door = door
        self.answers = 0
        self.sandbox: SandboxReport | None = None

    @classmethod
    async def start(cls, command: Sequence[str], dial: Dial | None = None) -> Self:
        """Starts `command`, whose last argument is the descriptor of its door: -1 without `dial`, and connections.

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
            # Later the process has read strangers' pages, and its reports cannot be trusted.
            self.sandbox = _sandbox(report)
        self.answers += 1
        return answer

    def kill(self) -> None:
        """Kills the process and whatever it may have started."""
        if self._door is not None:
            self._door.close()
        with contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:  # once reaped, another process may get the number
                os.killpg(self._process.pid, signal.SIGKILL)

    async def wait(self) -> None:
        await self._process.wait()


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python, OpenSSL and yt-dlp need to find their files, and no others."""
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


# A process that has worked this often is replaced, since extractors keep things in memory.
_ANSWERS_AT_MOST: Final = 100


class ChildPool:
    """Runs at most `at_most` processes; further requests wait until a process is free. A process that was idle for
    `idle_s` is ended, but with `keeps_one` not the last.

    Each new process has to answer the request `warm_up` within `start_s`. `dial` gives the processes their connections;
    without it they get none. `take_note` gets the sandbox report of each process.
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
        self.waiting = 0  # how many requests wait for a process
        self._idle: list[tuple[ResolverChild, asyncio.TimerHandle | None]] = []
        self._working: set[ResolverChild] = set()
        # Processes whose requests were cancelled while they started: the next request takes one of these.
        self._starting: set[asyncio.Task[ResolverChild]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def working(self) -> int:
        return len(self._working)

    @property
    def sandboxes(self) -> list[SandboxReport]:
        """The sandbox that each process reported with its first answer."""
        children = (*self._working, *(child for child, _ in self._idle))
        return [child.sandbox for child in children if child.sandbox is not None]

    async def ask(self, request: JsonObject, within_s: float, begins: Callable[[], None] = lambda: None) -> JsonObject:
        """The answer of a process. `within_s` counts from the moment that a process is free and has started; `begins`
        is called then.

        A late process is killed. Raises `TimeoutError` or `ChildBroken`. When the caller is cancelled, the work is
        ended, too.
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
            except BaseException as error:
                if child is not None:
                    self._end(child)
                if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                    raise ChildBroken(f"it could not be started: {error.strerror or error}") from error
                raise
            self._put_back(child)
            return answer
        finally:
            self._places.release()

    async def close(self) -> None:
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

    async def _asked(self, child: ResolverChild, request: JsonObject) -> JsonObject:
        is_first = not child.answers
        answer = await child.ask(request)
        if is_first and child.sandbox is not None and self._take_note is not None:
            self._take_note(child.sandbox)
        return answer

    def _idle_child(self) -> ResolverChild | None:
        while self._idle:
            child, timer = self._idle.pop()
            if timer is not None:
                timer.cancel()
            if not child.has_ended:
                self._working.add(child)
                return child
            self._end(child)
        return None

    async def _warm_child(self) -> ResolverChild:
        """A new process. Its start goes on when the caller is cancelled: otherwise, where no caller waits long enough,
        a slow start would never succeed."""
        starting = self._starting.pop() if self._starting else asyncio.create_task(self._started())
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if not starting.cancelled():
                self._starting.add(starting)
                starting.add_done_callback(self._started_for_nobody)
            raise

    def _started_for_nobody(self, starting: asyncio.Task[ResolverChild]) -> None:
        """Keeps the process as an idle one, unless a request waits for it again, or it did not start."""
        if starting in self._starting:
            self._starting.discard(starting)
            if not starting.cancelled() and starting.exception() is None:
                self._put_back(starting.result())

    async def _started(self) -> ResolverChild:
        child = None
        try:
            async with asyncio.timeout(self._start_s):
                child = await ResolverChild.start(self._command, self._dial)
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

    def _put_back(self, child: ResolverChild) -> None:
        self._working.discard(child)
        if self._is_closed or child.answers >= _ANSWERS_AT_MOST:
            self._end(child)
            return
        is_kept = self._keeps_one and not self._idle
        loop = asyncio.get_running_loop()
        timer = None if is_kept else loop.call_later(self._idle_s, self._dismiss, child)
        self._idle.append((child, timer))

    def _dismiss(self, child: ResolverChild) -> None:
        self._idle = [entry for entry in self._idle if entry[0] is not child]
        self._end(child)

    def _end(self, child: ResolverChild) -> None:
        self._working.discard(child)
        child.kill()
        task = asyncio.get_running_loop().create_task(child.wait())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
