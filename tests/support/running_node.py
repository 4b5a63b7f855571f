"""A whole node in a process of its own: the real command, configured by a file, ended by a signal.

async with running_node(tmp_path, '[server]\\npassword = "x"') as node:
    ... await node.request("GET", "/v0/players") ... node.pid ... node.log
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.command import PATIENCE_S, environment
from tests.support.eventually import eventually
from tests.support.http_client import Answer, Headers, request

_READY = re.compile(r"decoder process \d+ \(pid (\d+)\) is ready")
_ADDRESS = re.compile(r"listens on http://\S+:(\d+)")


@dataclass
class RunningNode:
    """A node that listens. `log` grows while it runs."""

    process: asyncio.subprocess.Process
    port: int
    log: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def request(self, method: str, target: str, value: object = None, *, headers: Headers = ()) -> Answer:
        """One request on a connection of its own, with `value` as its JSON body when there is one."""
        body = None if value is None else json.dumps(value).encode()
        return await request(self.port, method, target, headers=headers, body=body)

    def decoder_pids(self) -> set[int]:
        """The node's child processes, which all are decoders."""
        children = Path(f"/proc/{self.pid}/task").glob("*/children")
        return {int(pid) for listed in children for pid in listed.read_text().split()}

    async def decoders_ready(self, count: int) -> set[int]:
        """Waits until so many decoder processes run and are ready: those in use, and the spare."""
        await eventually(lambda: len(self._ready_decoders()) >= count, f"{count} decoder processes are ready")
        return self._ready_decoders()

    def _ready_decoders(self) -> set[int]:
        return self.decoder_pids() & {int(found[1]) for line in self.log if (found := _READY.search(line))}

    def open_descriptors(self) -> int:
        """How many descriptors the node and its decoders hold."""
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in (self.pid, *self.decoder_pids()))


@asynccontextmanager
async def running_node(
    folder: Path, config: str = "", *, arguments: tuple[str, ...] = (), variables: Mapping[str, str] | None = None
) -> AsyncIterator[RunningNode]:
    """A node on a free port of 127.0.0.1, which has `folder` as its working folder and `config` as its file.

    At the end it gets SIGTERM; then it must exit with 0 and have logged no error of its own.
    """
    file = folder / "node-under-test.toml"
    file.write_text(config, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tonearm", "serve", "--config", str(file), "--port", "0", *arguments),
        cwd=folder,
        env=environment(variables),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    log: list[str] = []
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    reading = asyncio.create_task(_read_log(process, log, port))
    try:
        await asyncio.wait((port, reading), timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert port.done(), f"the node did not start:\n{''.join(log)}"
        yield RunningNode(process, port.result(), log)
        with contextlib.suppress(ProcessLookupError):  # a test may have ended it
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), PATIENCE_S)
        await reading
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await reading
    whole_log = "".join(log)
    assert process.returncode == 0, whole_log
    assert "Traceback" not in whole_log, whole_log


async def _read_log(process: asyncio.subprocess.Process, log: list[str], port: asyncio.Future[int]) -> None:
    assert process.stderr is not None
    async for line in process.stderr:
        log.append(line.decode(errors="replace"))
        found = _ADDRESS.search(log[-1])
        if found is not None and not port.done():
            port.set_result(int(found[1]))
