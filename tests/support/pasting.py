"""Blocks of documents, pasted into a shell as their readers do."""

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S

_CURL = 'curl() { command curl -sS -o /dev/null -w "%{http_code}\\n" "$@"; }\n'


def variables_in(*blocks: str) -> str:
    """What these blocks leave in the reader's shell."""
    return "\n".join(re.findall(r"^[A-Z]+=.*$", "\n".join(blocks), re.MULTILINE)) + "\n"


async def pasted(script: str, folder: Path) -> list[int]:
    """Runs it in `folder`. Returns the statuses of its requests by curl."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", _CURL + script),
        cwd=folder,
        env=environment(),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert (process.returncode, errors) == (0, b"")
    return [int(line) for line in output.split()]
