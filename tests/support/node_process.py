"""The process of a node, forked from one that has loaded it (`node_template`) or started as a user starts it."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO

from tests.support.command import environment
from tests.support.eventually import PATIENCE_S

_TEMPLATE = Path(__file__).with_name("node_template.py")


class NodeProcess:
    """A process that began with `tonearm` and `arguments`. What it logs is to be read from `log`, to its end.

    `variables`: more of its environment; Python reads some of them at its very start, so it is no fork then.
    """

    def __init__(self, folder: Path, arguments: tuple[str, ...], variables: Mapping[str, str] | None) -> None:
        reading, writing = os.pipe()
        self.log: BinaryIO = os.fdopen(reading, "rb")
        self.returncode: int | None = None
        self._reaping = threading.Lock()
        try:
            if variables is None:
                self._process = None
                self._story = _template().start(folder, arguments, writing)
                self.pid = int(self._story.readline())
            else:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tonearm", *arguments],
                    cwd=folder,
                    env=environment(variables),
                    stdin=subprocess.DEVNULL,
                    stderr=writing,
                )
                self.pid = self._process.pid
        finally:
            os.close(writing)

    def send_signal(self, number: int) -> None:
        """Unless it has ended before."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        with self._reaping:
            if self.returncode is None:
                self.returncode = self._ended()
        return self.returncode

    def _ended(self) -> int:
        if self._process is not None:
            return self._process.wait(PATIENCE_S)
        with self._story as story:
            return int(story.readline())


class _Template:
    """The process that nodes are forked from. It ends when this one does."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, str(_TEMPLATE), str(other.fileno())],
                env=environment(),
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )
        assert self._socket.recv(1) == b"\n"
        atexit.register(self._end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, folder: Path, arguments: tuple[str, ...], log: int) -> BinaryIO:
        """A node. What is returned gives its number, and at its end its exit code, each in a line."""
        request = {"arguments": arguments, "folder": str(folder), "variables": environment()}
        story, other = socket.socketpair()
        with other, story:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [log, other.fileno()])
            story.settimeout(PATIENCE_S)
            return story.makefile("rb")

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _template() -> _Template:
    return _Template()


def template_process_id() -> int | None:
    """The process that nodes are forked from, when there is one."""
    return _template().pid if _template.cache_info().currsize else None
