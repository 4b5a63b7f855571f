"""The life cycle of a decoder process: its limits and warm-up, then its sandbox, then its work. Also that of the
template: it has loaded and tried everything that a decoder process needs, and forks a decoder process on each order.

The template has one thread and opens no sources, so it has no data that a decoder process must not see. It keeps a
decoder's socket only as long as a fork takes. The processes that it forks close the template's own socket.
"""

import array  # noqa: F401 - imported by socket.recv_fds when it is called
import codecs
import ctypes
import errno
import faulthandler
import gc
import importlib
import mmap
import os
import pkgutil
import resource
import signal
import socket
import sys
import threading
import traceback
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Final, NoReturn

import av

from tonearm.core.filters import BAND_COUNT, Filters
from tonearm.core.frame import FRAME_SAMPLES, SILENT_FRAME, Output
from tonearm.decoder.message_coding import pack
from tonearm.decoder.messages import EXIT_MEMORY_LIMIT, EXIT_NO_SANDBOX, FORK_ANSWER, FORK_ORDER, SUSPECT_BYTES, Ready
from tonearm.sandbox.confine import Confinement, in_a_thread, limit_memory, try_confinement
from tonearm.sandbox.kernel import die_with_the_node, fork_sibling, give_up_privileges, name_process
from tonearm.sandbox.report import SandboxMode, SandboxReport, SandboxUnavailable
from tonearm.sandbox.rules import decoder_rules
from tonearm.worker.filters.chain import ChainState, process
from tonearm.worker.filters.modes import reserve_memory_for_products
from tonearm.worker.media.formats import libavutil, limit_allocation_size
from tonearm.worker.media.media import open_media
from tonearm.worker.memory import reopen_statm
from tonearm.worker.packets.opus_encoder import OpusEncoder, opus_problem
from tonearm.worker.reading.reader import DescriptorReader
from tonearm.worker.suspects import SuspectNotes
from tonearm.worker.worker import Worker

_CLIP_PATH: Final = Path(__file__).parents[1] / "clips" / "welcome.opus"  # importlib.resources is slow to load
_FRAMES: Final = 20
_ENCODINGS: Final = ("ascii", "cp1252", "latin-1", "utf-16", "utf-8")
_NOT_NEEDED: Final = frozenset({"av.__main__", "av.datasets"})


class Exercise:
    """Opens early all files that a decoder process would open late: once it is confined, it can open nothing. Python
    imports modules at their first use, PyAV some at the first source, and libc loads a library when a thread ends. So
    the process does its usual work once.

    The constructor opens the bundled clip and imports the late modules. It raises `OSError` when the clip is missing. A
    call decodes and filters the beginning of the clip, and raises any error. `close` closes the clip.
    """

    def __init__(self) -> None:
        self._clip = os.open(_CLIP_PATH, os.O_RDONLY | os.O_CLOEXEC)
        self._clip_bytes = os.fstat(self._clip).st_size
        for module in pkgutil.walk_packages(av.__path__, "av."):
            if module.name not in _NOT_NEEDED:
                importlib.import_module(module.name)
        for encoding in _ENCODINGS:
            codecs.lookup(encoding)
        libavutil()
        if not opus_problem(None):  # libopus is found by a search in folders
            OpusEncoder(Output("opus")).encode(SILENT_FRAME)

    def __call__(self) -> None:
        reader = DescriptorReader(self._clip, self._clip_bytes, nullcontext)
        media = open_media(reader, name=_CLIP_PATH.name, content_type=None, size_bytes=self._clip_bytes)
        try:
            pcm = media.decode(_FRAMES * FRAME_SAMPLES)
        finally:
            media.close()
        frame_bytes = len(pcm) - len(pcm) % (FRAME_SAMPLES * 4)
        process(ChainState.steady(Filters(0.5, (1.0,) * BAND_COUNT)), pcm[:frame_bytes])

    def close(self) -> None:
        os.close(self._clip)


EXIT_BUG: Final = 1
READ_BYTES: Final = 64 * 1024
PING_WITHIN_S: Final = 1.0
# A source that waits for bytes keeps its thread, and the whole stack counts in RLIMIT_AS. Formats, damaged or not, use
# 28 KiB of the stack, MPEG-TS 144 with the newest libav. Encoding MP3 uses 40 and Opus 60 (x86-64).
THREAD_STACK_BYTES: Final = 320 * 1024
SWITCH_INTERVAL_S: Final = 0.0005  # the renderer must not wait 5 ms for the interpreter lock


def prepare(memory_limit_mb: int, mode: SandboxMode) -> Confinement:
    """Does everything that does not require the node's socket: limits, warm-up, a trial of the sandbox. One thread runs
    afterwards."""
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the node decides when its decoders end
    die_with_the_node()
    reserve_memory_for_products()
    _set_limits(memory_limit_mb * 1024 * 1024)
    return _tried_confinement(mode)


def serve_node(node: socket.socket, suspects_descriptor: int, confinement: Confinement, mode: SandboxMode) -> NoReturn:
    """Confines the process, serves the node until it closes the socket, and exits."""
    name_process("tonearm-decoder")
    suspects = mmap.mmap(suspects_descriptor, SUSPECT_BYTES)
    os.close(suspects_descriptor)  # `mmap` keeps its own descriptor
    sandbox = confinement.enter()
    if mode.needs_seccomp and not sandbox.seccomp:
        _refuse_work(node, sandbox)
        os._exit(EXIT_NO_SANDBOX)
    memory_limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    status = _run(Worker(node, SuspectNotes(suspects, memory_limit_bytes), sandbox))
    os._exit(status)  # without waiting for threads that may still be inside libav


def _set_limits(memory_bytes: int) -> None:
    limit_memory(memory_bytes)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    threading.stack_size(THREAD_STACK_BYTES)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    limit_allocation_size()


def _tried_confinement(mode: SandboxMode) -> Confinement:
    """Tries the sandbox before the first thread starts: the sandbox confines this thread and the threads it starts."""
    if mode is SandboxMode.OFF:
        return Confinement()
    if mode is SandboxMode.TRAP:
        faulthandler.register(signal.SIGSYS, all_threads=False, chain=True)
    try:
        with closing(Exercise()) as exercise:
            in_a_thread(exercise)
            return try_confinement(mode, decoder_rules, exercise)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the clip, sources may play
        return Confinement(problem=f"the bundled clip cannot be decoded: {type(error).__name__}: {error}")


def _refuse_work(node: socket.socket, sandbox: SandboxReport) -> None:
    """Reports to the node why the process ends. The node's messages, such as its first `Ping`, are read, because
    closing the socket with unread data would look like a crash."""
    with suppress(OSError):
        node.sendall(pack(Ready(sandbox)))
        node.settimeout(PING_WITHIN_S)
        node.recv(READ_BYTES)
        node.setblocking(False)
        while node.recv(READ_BYTES):
            pass


def _run(worker: Worker) -> int:
    """Returns the exit status. Never raises: Python's own exit would wait for other threads, perhaps for ever."""
    try:
        worker.run()
    except MemoryError:
        return EXIT_MEMORY_LIMIT
    except BaseException:  # noqa: BLE001 - the process ends with it
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
        return EXIT_BUG
    return 0


TEMPLATE: Final = "template"  # the last argument of the template's command line
_DECODER: Final = "decoder"  # the last argument in forked processes


def serve_forks(node: socket.socket, node_id: int, confinement: Confinement, mode: SandboxMode) -> None:
    """Forks at each order from the node, the process `node_id`. In the template this returns when the node closes the
    socket; a forked process runs in here until it exits."""
    name_process("tonearm-template")
    if mode is not SandboxMode.OFF:
        with suppress(SandboxUnavailable):  # each decoder process tries again, and reports the problem
            give_up_privileges()
    command_line = _CommandLine()
    # The objects stay in memory that all processes share: the garbage collector would write to it.
    gc.collect()
    gc.freeze()
    while True:
        order, descriptors, _, _ = socket.recv_fds(node, FORK_ORDER.size, 2)
        if not order:
            return
        (number,) = FORK_ORDER.unpack(order)
        try:
            process_id = fork_sibling()
        except SandboxUnavailable as error:
            _answer(node, number, -(error.number or errno.ENOSYS))
        else:
            if process_id == 0:
                break
        for descriptor in descriptors:
            os.close(descriptor)
    die_with_the_node()
    if os.getppid() != node_id:  # the node has died, or has another process id here, or this kernel forks no siblings
        _answer(node, number, -errno.ENOSYS)
        return
    # The new process answers itself, so that the node has its id even if the template dies meanwhile.
    _answer(node, number, os.getpid())
    node.close()
    os.setsid()
    reopen_statm()
    command_line.replace_last(TEMPLATE, _DECODER)
    serve_node(socket.socket(fileno=descriptors[0]), descriptors[1], confinement, mode)


def _answer(node: socket.socket, number: int, process_id: int) -> None:
    with suppress(OSError):  # The node is gone, and this process ends soon.
        node.send(FORK_ANSWER.pack(number, process_id))


class _CommandLine:
    """The command line that `ps` shows of this process. It is in memory, for a forked process at the same address."""

    def __init__(self) -> None:
        try:
            numbers = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
            begin, end = int(numbers[45]), int(numbers[46])  # proc(5): arg_start, arg_end
            self._end = end if ctypes.string_at(begin, end - begin) == Path("/proc/self/cmdline").read_bytes() else 0
        except (OSError, ValueError, IndexError):
            self._end = 0

    def replace_last(self, argument: str, new: str) -> None:
        """Replaces the last argument by `new`, if it is `argument`. `new` must not be longer."""
        old = b"\0" + argument.encode() + b"\0"
        begin = self._end - len(old)
        if self._end and ctypes.string_at(begin, len(old)) == old:
            ctypes.memmove(begin, b"\0" + new.encode().ljust(len(argument), b"\0"), len(old) - 1)
