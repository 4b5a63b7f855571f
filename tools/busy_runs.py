"""Runs `make test` beside processes that never wait, a given number of times, and prints a table of the runs.

Exits with 1 when a test failed. What the runs said is kept in build/test-busy.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

_KEPT: Final = Path("build/test-busy")
_ROW: Final = "{:>4} {:>8} {:>8} {:>8} {:>8} {:>8}  {}"
_HEADS: Final = ("run", "passed", "failed", "skipped", "retried", "minutes", "load, and what failed")
_SUMMARY: Final = re.compile(r"^=* ?(\d+ \w+.*) in [\d.]+s\b.*$", re.MULTILINE)
_COUNT: Final = re.compile(r"(\d+) (passed|failed|error|skipped)")
_RETRIED: Final = re.compile(r"tried a second time: (\d+)")
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Run(NamedTuple):
    """What one run of all tests says in its last lines. A run that did not come to its end counts nothing."""

    passed: int
    failed: int
    skipped: int
    retried: int
    failures: tuple[str, ...]


def read_run(said: str) -> Run:
    """`said`: all that `make test` writes."""
    summaries = _SUMMARY.findall(said)
    counts = {kind: int(number) for number, kind in _COUNT.findall(summaries[-1] if summaries else "")}
    retried = _RETRIED.findall(said)
    return Run(
        counts.get("passed", 0),
        counts.get("failed", 0) + counts.get("error", 0),
        counts.get("skipped", 0),
        int(retried[-1]) if retried else 0,
        tuple(dict.fromkeys(_FAILED.findall(said))),
    )


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes use as much of the machine as they get."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(processes)]  # noqa: S603
    try:
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make test-busy", description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--busy", type=int, default=2 * (os.cpu_count() or 1), help="processes; two a core by default")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what runs the tests")
    options = parser.parse_args(arguments)
    _KEPT.mkdir(parents=True, exist_ok=True)
    print(_ROW.format(*_HEADS), flush=True)
    has_failed = False
    with busy(options.busy):
        for number in range(1, options.runs + 1):
            begun_s = time.monotonic()
            with (_KEPT / f"{number}.log").open("w+", encoding="utf-8", errors="replace") as log:
                code = subprocess.run(options.command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode  # noqa: S603
                log.seek(0)
                run = read_run(log.read())
            minutes = (time.monotonic() - begun_s) / 60
            has_failed |= code != 0
            wrong = " ".join(run.failures) or f"it ended with {code}: see {log.name}" * (code != 0)
            told = f"{os.getloadavg()[0]:.1f}  {wrong}"
            cells = (number, run.passed, run.failed, run.skipped, run.retried, f"{minutes:.1f}", told)
            print(_ROW.format(*cells), flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
