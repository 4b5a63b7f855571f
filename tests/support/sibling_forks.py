"""Processes that are forked from one which has loaded what they load; by `start` they are children of this process."""

import atexit
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tonearm.decoder.pool.starting import ForkedProcess

_ANSWER_BYTES: Final = 32


class SiblingTemplate:
    """The process that they are forked from: `program` of this folder, with these `variables`. It ends when this one
    does."""

    def __init__(self, program: str, variables: Mapping[str, str]) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                # The last word is what `ps` is to show of a template: it finds it there.
                [sys.executable, "-P", str(Path(__file__).with_name(program)), str(other.fileno()), "template"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                env=dict(variables),
            )
        self._lock = threading.Lock()
        atexit.register(self._end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, arguments: Sequence[object], descriptors: Mapping[int, int]) -> ForkedProcess | None:
        """`descriptors` of this process by the numbers that they are to have. None where there are no such forks."""
        words = [" ".join(map(str, descriptors)), *map(str, arguments)]
        with self._lock:
            self.send("\0".join(words), [*descriptors.values()])
            answer = self._socket.recv(_ANSWER_BYTES)
        assert answer, "the process that others are forked from has ended"
        return ForkedProcess(int(answer)) if int(answer) else None

    def send(self, request: str, descriptors: Sequence[int]) -> None:
        """To a program that answers elsewhere."""
        socket.send_fds(self._socket, [request.encode()], descriptors)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()
