"""Resolving processes that are forked from one which has loaded yt-dlp (`resolver_template`)."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import create_subprocess_exec
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.sibling_forks import SiblingTemplate
from tonearm.decoder.pool.starting import ForkedProcess
from tonearm.sources.resolver import children
from tonearm.sources.resolver.pages import COMMAND

FAKE_SITES: Final = (sys.executable, "-B", "-P", str(Path(__file__).with_name("fake_sites.py")))
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


def load() -> None:
    """Starts the process that the others are forked from, if that was not done yet."""
    _template()


async def start_quickly(*command: str, limit: int, **options: Any) -> Any:
    """For `ResolverSettings.start_process`: a fork, unless a test has a command of its own. To load yt-dlp takes each
    other start a third of a second."""
    word = _WORDS.get(command[: len(COMMAND)]) or _WORDS.get(command[: len(FAKE_SITES)])
    ours, theirs = socket.socketpair()
    process: ForkedProcess | None = None
    with theirs:
        if word:
            words = [word, *command[len(COMMAND if word == "real" else FAKE_SITES) :]]
            descriptors = {0: theirs.fileno(), 1: theirs.fileno()}
            process = await asyncio.to_thread(_template().start, words, descriptors)  # the first waits for the modules
    if process is None:
        ours.close()
        return await create_subprocess_exec(*command, limit=limit, **options)
    return _Process(process, *await asyncio.open_connection(sock=ours, limit=limit))
