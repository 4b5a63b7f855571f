"""The real command, run as a user runs it; or forked from a process that has loaded it, which is half a second less."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S
from tests.support.lesser_kernel import without
from tests.support.tonearm_forks import ForkedTonearm


def run_tonearm(
    *arguments: str,
    folder: Path,
    variables: Mapping[str, str] | None = None,
    lacks: Sequence[str] = (),
    is_fork: bool = True,
) -> subprocess.CompletedProcess[str]:
    """As `RunningTonearm`, to its end."""
    running = RunningTonearm(*arguments, folder=folder, variables=variables, lacks=lacks, is_fork=is_fork)
    stdout, stderr = running.communicate()
    return subprocess.CompletedProcess(arguments, running.wait(), stdout.decode("utf-8"), stderr.decode("utf-8"))


class RunningTonearm:
    """`tonearm` with `arguments` in the working folder `folder`, still running; `stdout` and `stderr` are pipes.

    `lacks`: what its kernel does not have (`lesser_kernel`). Without `is_fork` an interpreter runs `program`.
    """

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        variables: Mapping[str, str] | None = None,
        lacks: Sequence[str] = (),
        is_fork: bool = True,
        program: str = "tonearm",
    ) -> None:
        (out, stdout), (errors, stderr) = os.pipe(), os.pipe()
        self.stdout, self.stderr = os.fdopen(out, "rb"), os.fdopen(errors, "rb")
        self._process: ForkedTonearm | subprocess.Popen[bytes]
        try:
            if is_fork:
                self._process = ForkedTonearm(arguments, folder, stderr, stdout, variables, lacks)
            else:
                self._process = subprocess.Popen(
                    [*(without(*lacks) if lacks else ()), sys.executable, "-m", program, *arguments],
                    cwd=folder,
                    env=environment(variables),
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                )
        finally:
            os.close(stdout)
            os.close(stderr)

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

    def communicate(self) -> tuple[bytes, bytes]:
        """What it still writes to stdout and stderr, once it has closed both."""
        with ThreadPoolExecutor(1) as beside, self.stdout, self.stderr:
            errors = beside.submit(self.stderr.read)
            try:
                return self.stdout.read(), errors.result()
            except BaseException:  # A limit of time: who reads beside would wait for ever.
                self.send_signal(signal.SIGKILL)
                raise

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait() if isinstance(self._process, ForkedTonearm) else self._process.wait(PATIENCE_S)

    def end(self) -> None:
        """Leaves nothing behind, whatever happened."""
        self.send_signal(signal.SIGKILL)
        self.wait()
        self.stdout.close()
        self.stderr.close()
