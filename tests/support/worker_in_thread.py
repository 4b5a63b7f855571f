"""A worker of a decoder process in a thread of the test, so that its parts can be made to fail."""

import mmap
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tests.support.decoder_driver import noted_suspects, open_order
from tests.support.eventually import PATIENCE_S, eventually_without_a_loop
from tonearm.decoder.message_coding import MessageSplitter, pack
from tonearm.decoder.messages import SUSPECT_BYTES, FromDecoder, FromNode
from tonearm.sandbox.report import SandboxReport
from tonearm.worker.worker import Worker

_M = TypeVar("_M", bound=FromDecoder)


class WorkerInThread:
    """Sends orders and collects the answers, until `close`."""

    def __init__(self) -> None:
        self._socket, self._decoder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._splitter = MessageSplitter()
        self._received: list[FromDecoder] = []
        self._suspects = mmap.mmap(-1, SUSPECT_BYTES)
        self._end: BaseException | None = None
        self._worker = Worker(self._decoder_end, self._suspects, SandboxReport())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        self.send_bytes(pack(message), descriptor)

    def send_bytes(self, data: bytes, descriptor: int | None = None) -> None:
        if descriptor is not None:
            data = data[socket.send_fds(self._socket, [data], [descriptor]) :]
        self._socket.sendall(data)

    def open_file(self, path: Path, session: int, source: int = 1) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self.send(open_order(session, source, path.stat().st_size, has_descriptor=True), descriptor)
        finally:
            os.close(descriptor)

    def wait_for(self, kind: type[_M], session: int, that: Callable[[_M], bool] = lambda _: True) -> _M:
        """The first message of this kind that was not returned before."""
        while True:
            for index, message in enumerate(self._received):
                if isinstance(message, kind) and getattr(message, "session", 0) == session and that(message):
                    del self._received[index]
                    return message
            self._socket.settimeout(PATIENCE_S)
            data = self._socket.recv(1 << 20)
            assert data, f"the worker has ended with {self._end!r}"
            self._received.extend(self._splitter.feed(data))  # type: ignore[arg-type]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        eventually_without_a_loop(condition, "what the worker does without a word")

    def wait_for_end(self) -> BaseException | None:
        """What the worker raised."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the worker goes on"
        return self._end

    def suspects(self) -> list[tuple[int, int]]:
        return noted_suspects(self._suspects[:])

    def close(self) -> None:
        self._socket.close()
        self._thread.join(PATIENCE_S)
        self._decoder_end.close()

    def _run(self) -> None:
        try:
            self._worker.run()
        except BaseException as error:  # noqa: BLE001 - the test asks for it
            self._end = error
        finally:
            self._decoder_end.shutdown(socket.SHUT_RDWR)


def open_descriptors_of(path: Path) -> int:
    """How often this process has a file open."""
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # for that of the directory
            count += os.readlink(entry) == str(path)
    return count
