"""What is measured: a tonearm node, the plain relay, and ffmpeg as fast as it can."""

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.processes import Cost, cost

FIVE_BANDS: Final = {
    "eq": [{"band": band, "gain_db": gain} for band, gain in ((1, 6), (4, -4), (7, 3), (10, -5), (13, 4))]
}


class Listeners:
    """The process that listens."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def order(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        answer = await self._process.stdout.readline()
        return dict(json.loads(answer))


@asynccontextmanager
async def listeners() -> AsyncIterator[Listeners]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.listeners",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    try:
        yield Listeners(process)
    finally:
        process.kill()
        await process.wait()


class Subject:
    """A server under test. `cost` counts all of its processes."""

    path: str

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        self.url = url

    def cost(self) -> Cost:
        return cost(self.process.pid)

    async def add(self, session: aiohttp.ClientSession, player_id: str, uri: str, *, bands: bool) -> None:
        """Makes whatever the listener `player_id` is to hear."""


class TonearmNode(Subject):
    path = "/v0/players/{}/ws"

    async def add(self, session: aiohttp.ClientSession, player_id: str, uri: str, *, bands: bool) -> None:
        player = f"{self.url}/v0/players/{player_id}"
        await session.post(f"{self.url}/v0/players", json={"id": player_id, "uri": uri})
        await session.patch(f"{player}/loop", json={"mode": "track"})
        if bands:
            await session.patch(f"{player}/filters", json=FIVE_BANDS)


class Relay(Subject):
    path = "/play/{}/ws?uri="


@asynccontextmanager
async def tonearm_node(folder: Path) -> AsyncIterator[TonearmNode]:
    config = folder / "bench.toml"
    config.write_text('[logging]\nlevel = "error"\n')
    port = _free_port()
    arguments = ["-m", "tonearm", "serve", "--config", str(config), "--port", str(port)]
    async with _server(arguments, port) as process:
        yield TonearmNode(process, f"http://127.0.0.1:{port}")


@asynccontextmanager
async def relay(uri: str) -> AsyncIterator[Relay]:
    port = _free_port()
    async with _server(["-m", "bench.relay", str(port)], port) as process:
        subject = Relay(process, f"http://127.0.0.1:{port}")
        subject.path = Relay.path + uri
        yield subject


def floor_us_a_frame(path: Path, length_s: float) -> float:
    """CPU µs that the ffmpeg program needs to decode and resample 20 ms of `path`, its start-up spread over minutes."""
    rounds = max(1, int(600 / length_s))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    reading = ["-stream_loop", str(rounds - 1), "-i", str(path), "-map", "0:a"]
    writing = ["-f", "s16le", "-ar", "48000", "-ac", "2", "-y", "/dev/null"]
    subprocess.run(["ffmpeg", "-v", "error", *reading, *writing], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return cpu_s * 1e6 / (rounds * length_s * 50)


@asynccontextmanager
async def _server(arguments: list[str], port: int) -> AsyncIterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, *arguments], env={**os.environ})
    try:
        await _until_listening(port)
        yield process
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _until_listening(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return
    raise TimeoutError("the server under test does not listen")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
