"""The node's side of the resolver's processes: a pool of processes, each with one request at a time, killed when late.

An idle process is kept for a while, because starting a process takes long.
"""

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, create_subprocess_exec
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NoReturn, Self, TypeAlias

from tonearm.core.metadata import Json, JsonObject
from tonearm.sandbox.report import SandboxReport, minimal_environment
from tonearm.sources.resolver.messages import ASK, BYTES, LARGEST_BODY_BYTES, LARGEST_LINE_BYTES, Message

Serve: TypeAlias = Callable[[str, Message], Awaitable[Message]]
"""Replies to what a process asks for, by the word for it. Raises `ChildBroken` for what it may not ask for."""

StartProcess: TypeAlias = Callable[..., Awaitable[Process]]
"""Starts a program as `asyncio.create_subprocess_exec` does."""


class ChildBroken(Exception):
    """The process ended, or its answer cannot be parsed; it cannot be used any more."""


class ResolverChild:
    """A process of the pool. It must be killed when a request is cancelled or fails: otherwise its late answer could be
    taken for the next answer.

    `sandbox` is what the process reported with its first answer; None before, and for a process that reports nothing.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self.answers = 0
        self.sandbox: SandboxReport | None = None

    @classmethod
    async def start(cls, command: Sequence[str], start_process: StartProcess) -> Self:
        """Raises `OSError` when the system cannot."""
        process = await start_process(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
            limit=LARGEST_LINE_BYTES,
            env=child_environment(os.environ),
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        output = self._process.stdout  # its end is seen before the process is reaped
        return self._process.returncode is not None or (output is not None and output.at_eof())

    async def ask(self, request: Message, serve: Serve | None = None) -> Message:
        """The answer; `serve` replies to the process's own requests before it. Raises `ChildBroken`."""
        try:
            await self._write(request)
            while ASK in (answer := await self._read()).head:
                if serve is None:
                    raise ChildBroken("it asks for what it may not have")
                await self._write(await serve(str(answer.head[ASK]), answer))
        except asyncio.LimitOverrunError as error:
            raise ChildBroken("its answer is too long") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ChildBroken("it ended without an answer") from error
        report = answer.head.pop("sandbox", None)
        if not self.answers and isinstance(report, dict):
            # Later the process has read strangers' pages, and its reports cannot be trusted.
            self.sandbox = _sandbox(report)
        self.answers += 1
        return answer

    async def _write(self, message: Message) -> None:
        writer = self._process.stdin
        assert writer is not None
        writer.write(message.encoded())
        await writer.drain()

    async def _read(self) -> Message:
        reader = self._process.stdout
        assert reader is not None
        head = _parsed(await reader.readuntil(b"\n"))
        count = head.pop(BYTES, 0)
        if not isinstance(count, int) or not 0 <= count <= LARGEST_BODY_BYTES:
            raise ChildBroken("its answer is too long")
        return Message(head, await reader.readexactly(count) if count else b"")

    def kill(self) -> None:
        """Kills the process and whatever it may have started."""
        with contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:  # once reaped, another process may get the number
                os.killpg(self._process.pid, signal.SIGKILL)

    async def wait(self) -> None:
        await self._process.wait()


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python and yt-dlp need to find their files, and no others."""
    return {**minimal_environment(environment), "YTDLP_NO_PLUGINS": "1", "PYTHONUTF8": "1"}


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


class ChildPool:
    """Runs at most `at_most` processes; further requests wait until a process is free. A process that was idle for
    `idle_s` is ended, but with `keeps_one` not the last.

    Each new process has to answer the request `warm_up` within `start_s`. A process is replaced after `answers_at_most`
    answers, since extractors keep data in memory. `take_note` gets the sandbox report of each process.
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
        answers_at_most: int = 100,
        take_note: Callable[[SandboxReport], None] | None = None,
        start_process: StartProcess = create_subprocess_exec,
    ) -> None:
        self._command = tuple(command)
        self._start_process = start_process
        self._answers_at_most = answers_at_most
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
        """As `exchange`, with a process that asks for nothing."""
        return (await self.exchange(Message(request), within_s, begins)).head

    async def exchange(
        self, request: Message, within_s: float, begins: Callable[[], None] = lambda: None, serve: Serve | None = None
    ) -> Message:
        """The answer of a process. `within_s` counts from when a process is free and has started; `begins` is called
        then. `serve` replies to the requests of the process.

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
                    answer = await self._asked(child, request, serve)
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

    async def _asked(self, child: ResolverChild, request: Message, serve: Serve | None = None) -> Message:
        is_first = not child.answers
        answer = await child.ask(request, serve)
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
        """A new process. The start goes on when the caller is cancelled: otherwise a slow start would never succeed if
        no caller waited long enough."""
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
                child = await ResolverChild.start(self._command, self._start_process)
                self._working.add(child)
                if self._is_closed:
                    raise ChildBroken("the node is shutting down")
                if self._warm_up is not None:
                    await self._asked(child, Message(self._warm_up))
        except BaseException:
            if child is not None:
                self._end(child)
            raise
        return child

    def _put_back(self, child: ResolverChild) -> None:
        self._working.discard(child)
        if self._is_closed or child.answers >= self._answers_at_most:
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
