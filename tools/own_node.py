"""Starts a node for a tool: on a free port, in a folder that has its configuration file and its log."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

_START_WITHIN_S: Final = 60.0  # on a machine with other work, too


async def start_node(folder: Path, config: str) -> tuple[asyncio.subprocess.Process, str]:
    """The node and its address; it runs in `folder`, which has its log as node.log. Raises SystemExit when it does not
    start. The caller ends it."""
    (folder / "tonearm.toml").write_text(config, encoding="utf-8")
    log = folder / "node.log"
    with log.open("w") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tonearm", "serve", "--config", "tonearm.toml", "--port", "0"),
            cwd=folder,
            stdout=file,
            stderr=asyncio.subprocess.STDOUT,
        )
    ends_s = time.monotonic() + _START_WITHIN_S
    while "listens on" not in log.read_text():
        if process.returncode is not None or time.monotonic() > ends_s:
            raise SystemExit("the node did not start:\n" + log.read_text())
        await asyncio.sleep(0.1)
    return process, log.read_text().split("listens on ")[1].split()[0].rstrip(".,;")
