"""Processes that are the command `tonearm`, forked from one that has loaded all of it (`tonearm_template`)."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S
from tests.support.sibling_forks import SiblingTemplate
from tonearm.decoder.pool.starting import LIBRARY_SETTINGS


class ForkedTonearm:
    """A process that began with `tonearm` and `arguments`, in the working folder `folder`. `stdout` and `stderr` are
    descriptors, which the caller closes; `lacks` are what the kernel does not have (`lesser_kernel`)."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        stderr: int,
        stdout: int,
        variables: Mapping[str, str] | None = None,
        lacks: Sequence[str] = (),
    ) -> None:
        self.returncode: int | None = None
        self._reaping = threading.Lock()
        request = {"arguments": arguments, "folder": str(folder), "variables": environment(variables), "lacks": lacks}
        story, other = socket.socketpair()
        with other, story:
            _template().send(json.dumps(request), [other.fileno(), stderr, stdout])
            story.settimeout(PATIENCE_S)
            self._story = story.makefile("rb")
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


@cache
def _template() -> SiblingTemplate:
    return SiblingTemplate("tonearm_template.py", environment(LIBRARY_SETTINGS))  # as decoders have it


def tonearm_template_process_id() -> int | None:
    """The process that others are forked from, when there is one."""
    return _template().pid if _template.cache_info().currsize else None
