"""Finds which node of this machine already uses an address or a file, for the error message of a second node.

Processes of other users do not show what they have open; then the node is named without its process.
"""

import http.client
import os
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_ANSWER_LIMIT_S: Final = 1.0
_LISTENING: Final = "0A"  # proc_pid_net(5)


def node_at(url: str) -> str:
    """Words about the node that answers at `url`; empty when none does."""
    here = [socket for socket, port in _listening_ports().items() if port == urlsplit(url).port]
    return _words(url, _process_with(here)) if _is_node(url) else ""


def node_with(path: Path) -> str:
    """Words about the node that has the file at `path` open; empty when no process is seen to have it."""
    pid = _process_with([os.path.realpath(path)])
    ports = _listening_ports()
    urls = (f"http://127.0.0.1:{ports[file]}" for process, file in _open_files() if process == pid and file in ports)
    return _words(next(filter(_is_node, urls), ""), pid) if pid else ""


def _words(url: str, pid: int | None) -> str:
    return "; a node runs already" + (f" at {url}" if url else "") + (f" (process {pid})" if pid else "")


def _is_node(url: str) -> bool:
    """Whether a node answers at `url`. Every answer of a node has its name, also without the password."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_ANSWER_LIMIT_S)
    try:
        connection.request("GET", "/version")
        return connection.getresponse().getheader("Server") == "tonearm"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _listening_ports() -> dict[str, int]:
    """The port of each listening socket of this machine, by the name that the socket has in /proc."""
    tables = [table for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if table.exists()]
    lines = [line.split() for table in tables for line in table.read_text("ascii").splitlines()]
    return {f"socket:[{line[9]}]": int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == _LISTENING}


def _process_with(files: Container[str]) -> int | None:
    return min((pid for pid, file in _open_files() if file in files), default=None)


def _open_files() -> Iterator[tuple[int, str]]:
    """The files that other processes have open, each with its process, as far as the system shows them."""
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if int(entry.parts[2]) != os.getpid():
                yield int(entry.parts[2]), os.readlink(entry)
