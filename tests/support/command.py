"""The real command, run as a user runs it."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.eventually import PATIENCE_S


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process' environment without settings of a node, and `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TONEARM_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **(extra or {})}


def run_tonearm(
    *arguments: str, folder: Path, variables: Mapping[str, str] | None = None, before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """`tonearm` with `arguments` in the working folder `folder`, to its end; `before` is a command that runs it."""
    return subprocess.run(
        [*before, sys.executable, "-m", "tonearm", *arguments],
        cwd=folder,
        env=environment(variables),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )


def start_tonearm(
    *arguments: str, folder: Path, variables: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """`tonearm` with `arguments`, still running; stdout and stderr are pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "tonearm", *arguments],
        cwd=folder,
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
