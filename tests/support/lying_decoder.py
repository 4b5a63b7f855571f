"""A decoder process that says whatever a test has it say, over a real socket, and ends when it is killed."""

import mmap
import os
import signal
import socket
import threading
from typing import Final

from tonearm.decoder.message_coding import pack
from tonearm.decoder.messages import SUSPECT_BYTES, SUSPECT_NOTE, FromDecoder, Ready
from tonearm.sandbox.report import SandboxReport


class LyingDecoder:
    """A child process for a pool. It is in this process, and has the decoder's end of the socket."""

    pid: Final = 0

    def __init__(self, connection: int, suspects: int) -> None:
        self._socket = socket.socket(fileno=os.dup(connection))
        self._suspects = mmap.mmap(suspects, SUSPECT_BYTES)
        self._ended = threading.Event()
        self.was_killed = False
        self.say(Ready(SandboxReport(seccomp=True)))

    def say(self, *messages: FromDecoder | bytes) -> None:
        self._socket.sendall(b"".join(said if isinstance(said, bytes) else pack(said) for said in messages))

    def work_on(self, session: int, source: int) -> None:
        """Notes this as what it works on."""
        SUSPECT_NOTE.pack_into(self._suspects, 0, session << 32 | source, 0)

    def wait(self) -> int:
        self._ended.wait()
        return -signal.SIGKILL

    def kill(self) -> None:
        if not self.was_killed:
            self.was_killed = True
            self._socket.close()
            self._suspects.close()
            self._ended.set()


class LyingStarter:
    """Starts such processes, which are in `processes`."""

    is_cheap: Final = True

    def __init__(self) -> None:
        self.processes: list[LyingDecoder] = []

    async def start(self, connection: int, suspects: int) -> LyingDecoder:
        self.processes.append(LyingDecoder(connection, suspects))
        return self.processes[-1]
