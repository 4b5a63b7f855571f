"""The life of a decoder process: its limits and its warm-up, then its sandbox, then its work."""

import faulthandler
import mmap
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from contextlib import closing, suppress
from typing import Final, NoReturn

from tonearm.decoder.message_coding import pack
from tonearm.decoder.messages import EXIT_MEMORY_LIMIT, EXIT_NO_SANDBOX, SUSPECT_BYTES, Ready
from tonearm.sandbox.confine import Confinement, try_confinement
from tonearm.sandbox.kernel import die_with_the_node, name_process
from tonearm.sandbox.report import SandboxMode, SandboxReport
from tonearm.sandbox.rules import decoder_rules
from tonearm.worker.filters.modes import reserve_memory_for_products
from tonearm.worker.media.formats import limit_allocation_size
from tonearm.worker.warm_up import Exercise
from tonearm.worker.worker import Worker

EXIT_BUG: Final = 1
READ_BYTES: Final = 64 * 1024
PING_WITHIN_S: Final = 1.0
NO_CORE_DUMP: Final = (1, 1)  # core(5): with 0 a crash would still start a handler that a pipe leads to
# A source that waits for bytes keeps its thread, and the whole stack counts in RLIMIT_AS. Formats, damaged or not, use
# 28 KiB of it, MPEG-TS 144 with the newest libav, MP3 being encoded 40 and Opus 60 (x86-64).
THREAD_STACK_BYTES: Final = 320 * 1024
SWITCH_INTERVAL_S: Final = 0.0005  # the renderer must not wait 5 ms for the interpreter lock


def prepare(memory_limit_mb: int, mode: SandboxMode) -> Confinement:
    """Everything that does not need the node's socket: limits, warm-up, a trial of the sandbox. One thread runs
    afterwards."""
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the node decides when its decoders end
    die_with_the_node()
    reserve_memory_for_products()
    _set_limits(memory_limit_mb * 1024 * 1024)
    return _tried_confinement(mode)


def run(node: socket.socket, suspects_descriptor: int, confinement: Confinement, mode: SandboxMode) -> NoReturn:
    """Confines the process, serves the node until that closes the socket, and exits."""
    name_process("tonearm-decoder")
    suspects = mmap.mmap(suspects_descriptor, SUSPECT_BYTES)
    os.close(suspects_descriptor)  # it keeps one of its own
    sandbox = confinement.enter()
    if mode.needs_seccomp and not sandbox.seccomp:
        _refuse_work(node, sandbox)
        os._exit(EXIT_NO_SANDBOX)
    status = _run(Worker(node, suspects, sandbox))
    os._exit(status)  # without waiting for threads that may still be inside libav


def _set_limits(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, NO_CORE_DUMP)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    threading.stack_size(THREAD_STACK_BYTES)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    limit_allocation_size()


def _tried_confinement(mode: SandboxMode) -> Confinement:
    """Tries the sandbox, before the first thread starts: it confines this thread and those that it starts."""
    if mode is SandboxMode.OFF:
        return Confinement()
    if mode is SandboxMode.TRAP:
        faulthandler.register(signal.SIGSYS, all_threads=False, chain=True)
    try:
        with closing(Exercise()) as exercise:
            exercise.in_a_thread()
            return try_confinement(mode, decoder_rules, exercise)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the clip, sources may play
        return Confinement(problem=f"the bundled clip cannot be decoded: {type(error).__name__}: {error}")


def _refuse_work(node: socket.socket, sandbox: SandboxReport) -> None:
    """Tells the node why the process ends. The node's messages, such as its first `Ping`, are read: closing the socket
    with unread data would look like a crash."""
    with suppress(OSError):
        node.sendall(pack(Ready(sandbox)))
        node.settimeout(PING_WITHIN_S)
        node.recv(READ_BYTES)
        node.setblocking(False)
        while node.recv(READ_BYTES):
            pass


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
