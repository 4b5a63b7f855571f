"""`python -m tonearm.decoding.worker SOCKET_FD SUSPECTS_FD MEMORY_LIMIT_MB`: started by the node, never by hand.

Ends with 0 when the node closes the socket, with 77 when the memory is used up, and with 1 and a traceback for a bug.
"""

import faulthandler
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import threading
import traceback
from typing import Final

from tonearm.decoding.messages import EXIT_MEMORY_LIMIT, SUSPECT_SLOTS
from tonearm.decoding.worker.formats import limit_allocation_size
from tonearm.decoding.worker.worker import Worker

EXIT_BUG: Final = 1
THREAD_STACK_BYTES: Final = 512 * 1024
SWITCH_INTERVAL_S: Final = 0.0005  # the renderer must not wait 5 ms for the interpreter lock


def main() -> None:
    node_descriptor, suspects_descriptor, memory_limit_mb = map(int, sys.argv[1:4])
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the node decides when its decoders end
    _set_limits(memory_limit_mb * 1024 * 1024)
    suspects = mmap.mmap(suspects_descriptor, SUSPECT_SLOTS * 8)

    def note(slot: int, suspect: int) -> None:
        struct.pack_into("<Q", suspects, slot * 8, suspect)

    status = _run(Worker(socket.socket(fileno=node_descriptor), note))
    os._exit(status)  # without waiting for threads that may still be inside libav


def _set_limits(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    threading.stack_size(THREAD_STACK_BYTES)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    limit_allocation_size()


def _run(worker: Worker) -> int:
    """Returns the exit status. Never raises: Python's own exit would wait for the other threads, perhaps for ever."""
    try:
        worker.run()
    except MemoryError:
        return EXIT_MEMORY_LIMIT
    except BaseException:  # noqa: BLE001 - the process ends with it
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
        return EXIT_BUG
    return 0


main()
