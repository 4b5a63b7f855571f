"""A whole node in a process of its own: the real command, configured by a file, ended by a signal.

async with running_node(tmp_path, '[server]\\npassword = "x"') as node:
    ... await node.request("GET", "/v0/players") ... node.pid ... node.log
"""

import asyncio
import fcntl
import json
import os
import re
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from tests.support.command import RunningTonearm
from tests.support.eventually import PATIENCE_S, eventually, eventually_without_a_loop
from tests.support.http_client import Answer, Headers, request
from tests.support.processes import children_of, kind_of

_READY = re.compile(r"decoder process \d+ \(pid (\d+)\) is ready")
_ADDRESS = re.compile(r"listens on http://\S+:(\d+)")
_CONFIG = "node-under-test.toml"


class RunningNode:
    """A node that listens. `folder` is its working folder, and `log` grows while it runs. `expected_tracebacks` may be
    in that at the end, and no more."""

    def __init__(self, folder: Path, process: RunningTonearm) -> None:
        self.folder = folder
        self.process = process
        self.log: list[str] = []
        self.expected_tracebacks = 0
        self.port = 0
        self._may_read = threading.Lock()
        self._has_line = False  # that is not in `log` yet
        self._listens_or_ended = threading.Event()
        self._reading = threading.Thread(target=self._read_log)
        self._reading.start()
        self._listens_or_ended.wait(PATIENCE_S)
        if not self.port:
            self.kill()
            raise AssertionError(f"the node did not start:\n{''.join(self.log)}")

    def stop(self) -> None:
        """Sends SIGTERM, unless the node has ended before; it must exit with 0 and have logged no error of its own
        that is not expected."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self._reading.join()
        whole_log = "".join(self.log)
        assert self.process.returncode == 0, whole_log
        assert whole_log.count("Traceback") == self.expected_tracebacks, whole_log

    def kill(self) -> None:
        """Leaves no process behind, whatever happened."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reading.join()

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

    async def ended(self) -> int:
        """The exit code, once the process has ended by itself or by a signal, and `log` is whole."""
        code = await asyncio.to_thread(self.process.wait)
        await asyncio.to_thread(self._reading.join)
        return code

    async def forget_all(self, headers: Headers = ()) -> None:
        """Deletes every player and every file in its folder, so that the next test finds it as if it were new."""
        for player in (await self.request("GET", "/v0/players", headers=headers)).json():
            assert (await self.request("DELETE", f"/v0/players/{player['id']}", headers=headers)).status == 204
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != _CONFIG:
                path.unlink()

    def decoder_pids(self) -> set[int]:
        """The node's child processes, which all are decoders but one: see `template_pids`."""
        return children_of(self.pid) - self.template_pids()

    def template_pids(self) -> set[int]:
        """The process that decoders are forked from; none for the moment in which it is replaced."""
        return {pid for pid in children_of(self.pid) if kind_of(pid) == "template"}

    async def decoders_ready(self, count: int) -> set[int]:
        """Waits until so many decoder processes run and are ready: those in use, and the spare."""
        await eventually(lambda: len(self._ready_decoders()) >= count, f"{count} decoder processes are ready")
        return self._ready_decoders()

    def _ready_decoders(self) -> set[int]:
        return self.decoder_pids() & {int(found[1]) for line in self.log if (found := _READY.search(line))}

    def open_descriptors(self) -> int:
        """How many descriptors the node and its decoders hold."""
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in (self.pid, *children_of(self.pid)))

    @contextmanager
    def unread_log(self) -> Iterator[None]:
        """While it lasts nobody reads the log, and its pipe is full: of empty lines, which are in `log` later."""
        log = self.process.stderr.fileno()
        pipe = os.open(f"/proc/self/fd/{log}", os.O_WRONLY | os.O_NONBLOCK)
        try:
            with self._may_read:
                os.write(pipe, b"\n")
                eventually_without_a_loop(lambda: self._has_line, "the reader of the log waits")
                fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, 4096)
                with suppress(BlockingIOError):
                    while True:
                        os.write(pipe, b"\n")
                yield
        finally:
            os.close(pipe)

    def _read_log(self) -> None:
        with self.process.stderr as log, self.process.stdout:
            for line in log:
                self._has_line = True
                with self._may_read:
                    self.log.append(line.decode(errors="replace"))
                    self._has_line = False
                found = _ADDRESS.search(self.log[-1])
                if found is not None:
                    self.port = int(found[1])
                    self._listens_or_ended.set()
        self._listens_or_ended.set()


def start_node(
    folder: Path,
    config: str,
    arguments: tuple[str, ...] = (),
    variables: Mapping[str, str] | None = None,
    program: str = "tonearm",
) -> RunningNode:
    """A node on a free port of 127.0.0.1, to be ended by whoever asks for it. It has `folder` as its
    working folder and `config` as its file. `variables` are more of its environment; Python reads some of them at its
    very start, so it is no fork then, but the module `program`."""
    file = folder / _CONFIG
    file.write_text(config, encoding="utf-8")
    serve = ("serve", "--config", str(file), "--port", "0", *arguments)
    process = RunningTonearm(*serve, folder=folder, variables=variables, is_fork=variables is None, program=program)
    return RunningNode(folder, process)


@asynccontextmanager
async def running_node(
    folder: Path, config: str = "", *, arguments: tuple[str, ...] = (), variables: Mapping[str, str] | None = None
) -> AsyncIterator[RunningNode]:
    """A node for one test; how it must end stands at `RunningNode.stop`."""
    node = await asyncio.to_thread(start_node, folder, config, arguments, variables)
    try:
        yield node
        await asyncio.to_thread(node.stop)
    finally:
        node.kill()


@contextmanager
def shared_node(folder: Path, config: str, variables: Mapping[str, str] | None = None) -> Iterator[RunningNode]:
    """A node that many tests use one after the other, and that belongs to none of their event loops."""
    node = start_node(folder, config, variables=variables)
    try:
        yield node
        node.stop()
    finally:
        node.kill()
