"""Resolving processes: a few at once, kept for a while because starting one takes half a second."""

import asyncio
from collections.abc import Sequence
from typing import Final

from tonearm.core.json_value import JsonObject
from tonearm.sources.resolver.child_process import ChildBroken, ChildProcess

# Extractors keep things in memory; a process that has worked this often is replaced.
_ANSWERS_AT_MOST: Final = 100


class ChildPool:
    """Who asks while `at_most` are at work waits for the first that is free.

    `warm_up` is asked of each new process within `start_s`; what it answers does not matter.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        at_most: int,
        idle_s: float | None,
        warm_up: JsonObject | None = None,
        start_s: float = 30.0,
    ) -> None:
        self._command = tuple(command)
        self._warm_up = warm_up
        self._start_s = start_s
        self._idle_s = idle_s
        self._places = asyncio.Semaphore(at_most)
        self._idle: list[tuple[ChildProcess, asyncio.TimerHandle | None]] = []
        self._working: set[ChildProcess] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def ask(self, request: JsonObject, within_s: float) -> JsonObject:
        """The answer of a process. `within_s` counts from when one is free and warm; who is late is killed.

        Raises `TimeoutError` or `ChildBroken`. When the caller is cancelled, the work is ended as well.
        """
        async with self._places:
            if self._is_closed:
                raise ChildBroken("the node is shutting down")
            child = self._idle_child()
            try:
                if child is None:
                    async with asyncio.timeout(self._start_s):
                        child = await self._new_child()
                        if self._warm_up is not None:
                            await child.ask(self._warm_up)
                async with asyncio.timeout(within_s):
                    answer = await child.ask(request)
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

    async def close(self) -> None:
        """Ends all processes and returns when they are gone."""
        self._is_closed = True
        for child, timer in self._idle:
            if timer is not None:
                timer.cancel()
            self._end(child)
        self._idle.clear()
        for child in tuple(self._working):
            self._end(child)
        if self._ending:
            await asyncio.wait(self._ending)

    def _idle_child(self) -> ChildProcess | None:
        while self._idle:
            child, timer = self._idle.pop()
            if timer is not None:
                timer.cancel()
            if not child.has_ended:
                self._working.add(child)
                return child
        return None

    async def _new_child(self) -> ChildProcess:
        child = await ChildProcess.start(self._command)
        self._working.add(child)
        return child

    def _put_back(self, child: ChildProcess) -> None:
        self._working.discard(child)
        if self._is_closed or child.answers >= _ANSWERS_AT_MOST:
            self._end(child)
            return
        loop = asyncio.get_running_loop()
        timer = None if self._idle_s is None else loop.call_later(self._idle_s, self._dismiss, child)
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
