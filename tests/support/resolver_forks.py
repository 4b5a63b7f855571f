"""Resolving processes that are forked from one which has loaded yt-dlp (`resolver_template`)."""

import asyncio
import os
import socket
from asyncio.subprocess import create_subprocess_exec
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import pytest

from tests.support.resolving import FAKE_SITES
from tests.support.sibling_forks import SiblingTemplate
from tonearm.decoder.pool.starting import ForkedProcess
from tonearm.sources.resolver import children
from tonearm.sources.resolver.pages import COMMAND

_WORDS: Final = {FAKE_SITES: "fake", COMMAND: "real"}  # what the template is told, for the commands that it stands for


class _Process:
    """As much of `asyncio.subprocess.Process` as is asked of a resolving process."""

    def __init__(self, process: ForkedProcess, stdout: asyncio.StreamReader, stdin: asyncio.StreamWriter) -> None:
        self.pid = process.pid
        self.stdout = stdout
        self.stdin = stdin
        self.returncode: int | None = None
        self._process = process
        self._has_ended = asyncio.Event()
        self._handle = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._handle, self._end)

    async def wait(self) -> None:
        await self._has_ended.wait()

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self.returncode = self._process.wait()
        self.stdin.close()
        self._has_ended.set()


@cache
def _template() -> SiblingTemplate:
    return SiblingTemplate("resolver_template.py", children.child_environment(os.environ))


@contextmanager
def quick_resolvers() -> Iterator[None]:
    """What the node starts to resolve pages is a fork meanwhile, unless a test has a command of its own for it."""
    _template()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(children, "create_subprocess_exec", _start)
        yield


async def _start(*command: str, limit: int, **options: Any) -> Any:
    word = _WORDS.get(command[: len(COMMAND)]) or _WORDS.get(command[: len(FAKE_SITES)])
    ours, theirs = socket.socketpair()
    with theirs:
        process = word and _template().start(
            [word, *command[len(COMMAND if word == "real" else FAKE_SITES) :]],
            {0: theirs.fileno(), 1: theirs.fileno()},
        )
    if not process:
        ours.close()
        return await create_subprocess_exec(*command, limit=limit, **options)
    return _Process(process, *await asyncio.open_connection(sock=ours, limit=limit))
