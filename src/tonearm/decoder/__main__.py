"""`python -m tonearm.decoder SOCKET_FD CULPRITS_FD MEMORY_LIMIT_MB`: started by the node, never by hand."""

import faulthandler
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import threading
from typing import Final

from tonearm.decoder.libav_limits import limit_allocation_size
from tonearm.decoder.turns import CULPRIT_SLOTS
from tonearm.decoder.worker import Worker

THREAD_STACK_BYTES: Final = 512 * 1024
SWITCH_INTERVAL_S: Final = 0.0005  # the renderer must not wait 5 ms for the interpreter lock


def main() -> None:
    node_descriptor, culprits_descriptor, memory_limit_mb = map(int, sys.argv[1:4])
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the node decides when its decoders end
    limit_bytes = memory_limit_mb * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.stack_size(THREAD_STACK_BYTES)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    limit_allocation_size()
    culprits = mmap.mmap(culprits_descriptor, CULPRIT_SLOTS * 8)

    def note(slot: int, culprit: int) -> None:
        struct.pack_into("<Q", culprits, slot * 8, culprit)

    Worker(socket.socket(fileno=node_descriptor), note).run()
    os._exit(0)  # source threads may still be inside libav: waiting for them would only delay the end


main()
