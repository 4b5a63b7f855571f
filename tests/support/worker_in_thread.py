"""A worker of a decoder process in a thread of the test, so that its parts can be made to fail."""

import mmap
import resource
import socket
import threading
from collections.abc import Callable
from typing import Any

from tests.support.decoder_driver import DecoderOrders
from tests.support.eventually import PATIENCE_S
from tonearm.decoder.messages import SUSPECT_BYTES
from tonearm.sandbox.report import SandboxReport
from tonearm.worker.suspects import SuspectNotes
from tonearm.worker.worker import Worker


class WorkerInThread(DecoderOrders):
    """It works until `close`. `kind` is that of the worker, `given` is for it, `noting` for its notes of suspects."""

    def __init__(
        self, kind: type[Worker] = Worker, noting: Callable[[mmap.mmap, int], SuspectNotes] = SuspectNotes, **given: Any
    ) -> None:
        node_end, self._decoder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        super().__init__(node_end, mmap.mmap(-1, SUSPECT_BYTES))
        self._end: BaseException | None = None
        self._worker = kind(self._decoder_end, noting(self._suspects, resource.RLIM_INFINITY), SandboxReport(), **given)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def how_it_ended(self) -> str:
        return repr(self._end)

    def wait_for_end(self) -> BaseException | None:
        """What the worker raised."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the worker goes on"
        return self._end

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
