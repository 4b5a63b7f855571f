"""The process of a node, forked from one that has loaded it or started as a user starts it."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S
from tests.support.tonearm_forks import ForkedTonearm


class NodeProcess:
    """A process that began with `tonearm` and `arguments`. What it logs is to be read from `log`, to its end.

    `variables`: more of its environment; Python reads some of them at its very start, so it is no fork then, but the
    module `program`.
    """

    def __init__(
        self,
        folder: Path,
        arguments: tuple[str, ...],
        variables: Mapping[str, str] | None,
        program: str = "tonearm",
    ) -> None:
        reading, writing = os.pipe()
        self.log: BinaryIO = os.fdopen(reading, "rb")
        self._reaping = threading.Lock()
        self._process: ForkedTonearm | subprocess.Popen[bytes]
        try:
            if variables is None:
                self._process = ForkedTonearm(arguments, folder, writing)
            else:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", program, *arguments],
                    cwd=folder,
                    env=environment(variables),
                    stdin=subprocess.DEVNULL,
                    stderr=writing,
                )
        finally:
            os.close(writing)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def send_signal(self, number: int) -> None:
        """Unless it has ended before."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        with self._reaping:
            return self._process.wait() if isinstance(self._process, ForkedTonearm) else self._process.wait(PATIENCE_S)
