"""Blocks of documents, pasted into a shell as their readers do."""

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S

_CURL = 'curl() { command curl -sS -w "%{stderr}%{http_code}\\n" "$@"; }\n'


async def pasted(
    script: str, folder: Path, *, here: Mapping[str, str], before: Iterable[str] = ()
) -> tuple[list[int], str]:
    """Runs it in `folder`, with the variables of the blocks pasted `before`, and with what `here` has in place of what
    is written. Returns the statuses of its requests by curl, and what is printed."""
    script = "\n".join([_CURL, *re.findall(r"^[A-Z]+=.*$", "\n".join(before), re.MULTILINE), script])
    for written, meant in here.items():
        script = script.replace(written, meant)
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", script),
        cwd=folder,
        env=environment(),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0, errors
    return [int(line) for line in errors.split()], output.decode()
