"""The time from the command until the node answers, beside the time of its imports alone."""

import asyncio
import subprocess
import sys
import time
from typing import Final

from bench.plan import Run
from bench.subjects import tonearm_node

STARTS: Final = 3


async def startup(run: Run) -> None:
    for _ in range(STARTS):
        await _timed(run, "startup/import_tonearm/ms", "import tonearm")
        await _timed(run, "startup/imports_of_serve/ms", "import tonearm.serve, uvloop")
        begun = time.monotonic()
        async with tonearm_node(run.folder):
            run.figures.add("startup/node_listens/ms", (time.monotonic() - begun) * 1000)


async def _timed(run: Run, name: str, program: str) -> None:
    begun = time.monotonic()
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], check=True)
    run.figures.add(name, (time.monotonic() - begun) * 1000)
