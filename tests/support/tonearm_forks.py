"""Processes that are the command `tonearm`, forked from one that has loaded all of it (`tonearm_template`)."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S
from tonearm.decoder.pool.starting import LIBRARY_SETTINGS

_PROGRAM: Final = "tests.support.tonearm_template"
_REPOSITORY: Final = Path(__file__).parents[2]


class ForkedTonearm:
    """A process that began with `tonearm` and `arguments`, in the working folder `folder`. `stdout` and `stderr` are
    descriptors, which the caller closes; `lacks` are what the kernel does not have (`lesser_kernel`)."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        stderr: int,
        stdout: int | None = None,
        variables: Mapping[str, str] | None = None,
        lacks: Sequence[str] = (),
    ) -> None:
        self.returncode: int | None = None
        self._reaping = threading.Lock()
        request = {"arguments": arguments, "folder": str(folder), "variables": environment(variables), "lacks": lacks}
        self._story = _template().start(request, [stderr, *([] if stdout is None else [stdout])])
        self.pid = int(self._story.readline())

    def send_signal(self, number: int) -> None:
        """Unless it has ended before."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        with self._reaping:
            if self.returncode is None:
                with self._story as story:
                    self.returncode = int(story.readline())
        return self.returncode


class _Template:
    """The process that they are forked from. It ends when this one does."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with other:
            self._process = subprocess.Popen(
                # The last word is what `ps` is to show of the template that a node has: it finds it there.
                [sys.executable, "-m", _PROGRAM, str(other.fileno()), "template"],
                cwd=_REPOSITORY,
                env=environment(LIBRARY_SETTINGS),  # as decoders have it
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )
        assert self._socket.recv(1) == b"\n"
        atexit.register(self._end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, request: Mapping[str, object], outputs: Sequence[int]) -> BinaryIO:
        """What is returned gives the number of the process, and at its end its exit code, each in a line."""
        story, other = socket.socketpair()
        with other, story:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [other.fileno(), *outputs])
            story.settimeout(PATIENCE_S)
            return story.makefile("rb")

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _template() -> _Template:
    return _Template()


def tonearm_template_process_id() -> int | None:
    """The process that others are forked from, when there is one."""
    return _template().pid if _template.cache_info().currsize else None
