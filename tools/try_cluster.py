"""`make cluster`: three nodes that are one, and their engine, on this machine, until Ctrl-C.

The engine is the `nats-server` of the path, or that of the wheel in requirements/engine.txt. What it keeps lies in
FOLDER (build/cluster), so that the players are there again at the next start.
"""

import argparse
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.cluster_nodes import engine_program
from bench.subjects import free_port

FIRST_PORT: Final = 2333
NODES: Final = ("a", "b", "c")
_START_WITHIN_S: Final = 30.0
_END_WITHIN_S: Final = 30.0
_CLIP: Final = Path(__file__).parents[1] / "src" / "tonearm" / "clips" / "welcome.opus"


def config_of(node: str, port: int, engine_port: int) -> str:
    """The file of one of the nodes."""
    return (
        f'[server]\nhost = "127.0.0.1"\nport = {port}\n\n'
        f'[cluster]\nurl = "nats://127.0.0.1:{engine_port}"\nname = "try"\nnode = "{node}"\n'
        f'address = "http://127.0.0.1:{port}"\n'
    )


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Returns when the process listens. Raises SystemExit when it does not."""
    ends_s = time.monotonic() + _START_WITHIN_S
    while time.monotonic() < ends_s and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"nothing listens at {port}; {log} says:\n{log.read_text()}")


def _start(command: Sequence[str], folder: Path, port: int, processes: list[subprocess.Popen[bytes]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    with log.open("wb") as file:
        # A session of its own: Ctrl-C is for this process, which ends the others in order.
        process = subprocess.Popen(  # noqa: S603 - an engine that the user has, and our own nodes
            command, cwd=folder, stdout=file, stderr=file, start_new_session=True
        )
    processes.append(process)
    _await_port(port, process, log)


def run(folder: Path, first_port: int) -> None:
    """Returns after Ctrl-C or SIGTERM, when all have ended."""
    program = engine_program()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    processes: list[subprocess.Popen[bytes]] = []
    engine_port = free_port()
    try:
        engine_command = (
            program,
            "-js",
            "-sd",
            str((folder / "engine").resolve()),
            "-a",
            "127.0.0.1",
            "-p",
            str(engine_port),
        )
        _start(engine_command, folder / "engine", engine_port, processes)
        for number, node in enumerate(NODES):
            home, port = folder / node, first_port + number
            home.mkdir(parents=True, exist_ok=True)
            shutil.copy(_CLIP, home)
            (home / "tonearm.toml").write_text(config_of(node, port, engine_port), encoding="utf-8")
            tonearm = (sys.executable, "-m", "tonearm", "serve", "--config", "tonearm.toml")
            _start(tonearm, home, port, processes)
            sys.stdout.write(
                f"node {node}: http://127.0.0.1:{port}  (process {processes[-1].pid}, log {home / 'log'})\n"
            )
        url = f"http://127.0.0.1:{first_port + 1}"
        sys.stdout.write(
            "\nAny of them answers for all. In another terminal, say:\n"
            f"  tonearm play --url {url} --player lobby --keep welcome.opus\n"
            f"  tonearm nodes --url {url}\n"
            f"  tonearm drain a --url {url}\n"
            f"  kill -9 {processes[1].pid}   # its players go on elsewhere\n"
            "Ctrl-C ends all.\n"
        )
        sys.stdout.flush()
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        engine, nodes = processes[:1], processes[1:]
        for some in (nodes, engine):  # the engine last, so that nodes can hand over what they have
            for process in some:
                process.terminate()
            for process in some:
                _await_end(process)


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/cluster"))
    parser.add_argument("--port", type=int, default=FIRST_PORT, help="of the first node; the others have the next ones")
    arguments = parser.parse_args()
    run(arguments.folder, arguments.port)
