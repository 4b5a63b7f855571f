"""A cluster for tests: a real nats-server in a folder, and real nodes that are one by it."""

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.eventually import eventually
from tests.support.http_client import Headers
from tests.support.missing_programs import skip_for_want_of
from tests.support.running_node import RunningNode, start_node

LEASE_S: Final = 3


def found_nats_server() -> str | None:
    """The program on the path, or that of the wheel in requirements/engine.txt."""
    return shutil.which("nats-server") or shutil.which("nats-server", path=str(Path(sys.executable).parent))


def nats_server() -> str:
    """Skips the test where there is none."""
    return found_nats_server() or skip_for_want_of("nats-server")


class Engine:
    """A nats-server on one port, whose disk is `folder`."""

    def __init__(self, folder: Path, config: str = "") -> None:
        self._folder = folder
        self._config = folder.parent / "engine.conf"
        self.configure(config)
        self._program = nats_server()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, config: str) -> None:
        """From the next start on."""
        self._config.write_text(config)

    def start(self) -> None:
        command = [self._program, "-js", "-sd", str(self._folder), "-a", "127.0.0.1", "-p", str(self.port)]
        command += ["-c", str(self._config)]
        with (self._folder.parent / "engine.log").open("ab") as log:
            self._process = subprocess.Popen(command, stderr=log, stdout=log)
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            self._process.poll()
            subprocess.run(["sleep", "0.05"], check=True)
        raise AssertionError("the engine does not start")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def lose_disk(self) -> None:
        shutil.rmtree(self._folder)
        self._folder.mkdir()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


@dataclass
class RunningCluster:
    folder: Path
    engine: Engine
    config: str = ""
    headers: Headers = ()
    nodes: dict[str, RunningNode] = field(default_factory=dict)

    def node_config(self, name: str) -> str:
        return (
            f'[cluster]\nurl = "{self.engine.url}"\nname = "test"\nnode = "{name}"\nlease_s = {LEASE_S}\n{self.config}'
        )

    async def start_behind(self, name: str, url: str) -> None:
        """Starts a node that reaches the engine by another way."""
        (self.folder / name).mkdir()
        for path in self.folder.glob("a/*.wav"):
            shutil.copy(path, self.folder / name)
        config = self.node_config(name).replace(self.engine.url, url)
        self.nodes[name] = await asyncio.to_thread(start_node, self.folder / name, config)
        await eventually(self.all_are_one, "all nodes see each other")

    async def start(self, *names: str) -> list[RunningNode]:
        """Starts nodes of these names, and waits until all see each other."""
        for name in names:
            folder = self.folder / name
            folder.mkdir(exist_ok=True)
            self.nodes[name] = await asyncio.to_thread(start_node, folder, self.node_config(name))
        await eventually(self.all_are_one, "all nodes see each other")
        return [self.nodes[name] for name in names]

    async def all_are_one(self) -> bool:
        for node in self.nodes.values():
            found = await nodes_of(node, self.headers)
            if {name for name, one in found.items() if one["alive"] and one["address"]} != set(self.nodes):
                return False
        return True

    async def kill(self, name: str) -> None:
        await asyncio.to_thread(self.nodes.pop(name).kill)

    async def owner(self, player: str) -> str:
        """The node that has a player, by what one that lives says."""
        for node in self.nodes.values():
            answer = await node.request("GET", f"/v0/players/{player}")
            if answer.status == 200:
                return str(answer.json()["node"])
        return ""


async def nodes_of(node: RunningNode, headers: Headers = ()) -> dict[str, Any]:
    answer = await node.request("GET", "/v0/nodes", headers=headers)
    assert answer.status == 200, answer.body
    return {one["name"]: one for one in answer.json()["nodes"]}


@asynccontextmanager
async def running_cluster(
    folder: Path,
    *names: str,
    config: str = "",
    engine_config: str = "",
    headers: Headers = (),
    prepare: Callable[[Path], None] | None = None,
) -> AsyncIterator[RunningCluster]:
    """An engine and nodes of these names, asked with `headers`; `prepare` puts files into the folder of each."""
    disk = folder / "engine"
    disk.mkdir()
    cluster = RunningCluster(folder, Engine(disk, engine_config), config, headers)
    for name in names:
        (folder / name).mkdir()
        if prepare is not None:
            prepare(folder / name)
    await asyncio.to_thread(cluster.engine.start)
    try:
        await cluster.start(*names)
        yield cluster
        for node in cluster.nodes.values():
            await asyncio.to_thread(node.stop)
    finally:
        for node in cluster.nodes.values():
            node.kill()
        cluster.engine.kill()


class Cuttable:
    """A way to the engine, or to another server, that can be cut."""

    def __init__(self, server: Engine | RunningNode, scheme: str = "nats") -> None:
        self._to, self._scheme = server, scheme
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        self._is_cut = True
        for writer in tuple(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False

    async def begin(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.url = f"{self._scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def end(self) -> None:
        self._server.close()
        self.cut()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to.port)
        except OSError:  # it is not there
            writer.transport.abort()
            return
        ends = {writer, back}
        self._writers |= ends
        await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        self._writers -= ends


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def cuttable(server: Engine | RunningNode, scheme: str = "nats") -> AsyncIterator[Cuttable]:
    way = Cuttable(server, scheme)
    await way.begin()
    try:
        yield way
    finally:
        await way.end()
