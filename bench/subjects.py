"""The measured programs: a tonearm node and the plain relay, each started as its users would start it."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import aiohttp

from bench import processes

HOST: Final = "127.0.0.1"
Audio: TypeAlias = Literal["pcm", "opus"]
DEFAULT_COMPLEXITY: Final = 5
FIVE_BANDS: Final = {
    "eq": [{"band": band, "gain_db": gain} for band, gain in ((1, 6), (4, -4), (7, 3), (10, -5), (13, 4))]
}
_START_LIMIT_S: Final = 20.0
_STOP_LIMIT_S: Final = 10.0


class Subject:
    """A server under test. Costs are those of all of its processes."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port
        self.url = f"http://{HOST}:{port}"

    def cpu_s(self) -> float:
        return processes.cpu_s(self.pid)

    def pss_mb(self) -> float:
        return processes.pss_mb(self.pid)

    def path(self, player_id: str, audio: Audio = "pcm") -> str:
        """Where the listeners of a player connect."""
        raise NotImplementedError

    async def add(self, session: aiohttp.ClientSession, player_id: str, uri: str, *, bands: bool) -> None:
        """Makes what the listeners of `player_id` are to hear, without end."""


class TonearmNode(Subject):
    def path(self, player_id: str, audio: Audio = "pcm") -> str:
        return f"/v0/players/{player_id}/ws?format={audio}"

    async def add(self, session: aiohttp.ClientSession, player_id: str, uri: str, *, bands: bool) -> None:
        player = f"/v0/players/{player_id}"
        await self.request(session, "POST", "/v0/players", {"id": player_id, "uri": uri, "loop": "track"})
        if bands:
            await self.request(session, "PATCH", f"{player}/filters", FIVE_BANDS)

    async def request(
        self, session: aiohttp.ClientSession, method: str, path: str, body: dict[str, Any] | None = None
    ) -> None:
        """Raises `aiohttp.ClientResponseError` for an answer that is no success."""
        async with session.request(method, self.url + path, json=body, raise_for_status=True) as answer:
            await answer.read()


class Relay(Subject):
    """Plays one file to each of its listeners; it has players no longer than they have listeners."""

    def __init__(self, pid: int, port: int, uri: str, complexity: int) -> None:
        super().__init__(pid, port)
        self._uri = uri
        self._complexity = complexity

    def path(self, player_id: str, audio: Audio = "pcm") -> str:
        query = f"uri={quote(self._uri, safe='/')}&format={audio}&complexity={self._complexity}"
        return f"/play/{player_id}/ws?{query}"


@asynccontextmanager
async def tonearm_node(
    folder: Path, decoder_processes: int = 0, *, complexity: int = DEFAULT_COMPLEXITY, python: str = sys.executable
) -> AsyncIterator[TonearmNode]:
    """`decoder_processes` as in its configuration: 0 is one for each core. `complexity` is that of Opus. `python`: the
    interpreter of another tree, to measure that."""
    config = folder / "bench.toml"
    sections = {"logging": 'level = "error"', "decoder": f"processes = {decoder_processes}"}
    if complexity != DEFAULT_COMPLEXITY:  # older trees know no such section
        sections["opus"] = f"complexity = {complexity}"
    config.write_text("".join(f"[{name}]\n{line}\n" for name, line in sections.items()))
    port = free_port()
    async with server(["tonearm", "serve", "--config", str(config), "--port", str(port)], port, python) as pid:
        yield TonearmNode(pid, port)


@asynccontextmanager
async def relay(uri: str, *, complexity: int = DEFAULT_COMPLEXITY) -> AsyncIterator[Relay]:
    port = free_port()
    async with server(["bench.relay", str(port)], port) as pid:
        yield Relay(pid, port, uri, complexity)


@asynccontextmanager
async def server(
    arguments: list[str], port: int, python: str | None = sys.executable, folder: Path | None = None
) -> AsyncIterator[int]:
    """Runs `python -m arguments` in `folder` until it listens, in a session of its own, of which nothing is left in the
    end. Without `python` the arguments are a program's."""
    command = arguments if python is None else [python, "-m", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        await _until_listening(process, port)
        yield process.pid
    finally:
        process.terminate()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, _STOP_LIMIT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


async def _until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            _, writer = await asyncio.open_connection(HOST, port)
        except OSError:
            await asyncio.sleep(0.005)
        else:
            writer.close()
            return
    raise TimeoutError("the server under test does not listen")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
