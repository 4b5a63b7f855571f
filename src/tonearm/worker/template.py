"""The template: a process that has loaded and tried all that a decoder process needs, and forks one at each order.

It has one thread and opens no sources, so it contains nothing that a decoder process should not know. It keeps a
decoder's socket only as long as a fork takes, and its own socket is closed in the processes that it forks.
"""

import ctypes
import errno
import gc
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from tonearm.decoder.messages import FORK_ANSWER, FORK_ORDER
from tonearm.sandbox.confine import Confinement
from tonearm.sandbox.kernel import die_with_the_node, fork_sibling, give_up_privileges, name_process
from tonearm.sandbox.report import SandboxMode, SandboxUnavailable
from tonearm.worker.memory import reopen_statm
from tonearm.worker.process import run

TEMPLATE: Final = "template"  # the last argument of its command line
_DECODER: Final = "decoder"  # the last argument in forked processes


def serve_forks(node: socket.socket, node_id: int, confinement: Confinement, mode: SandboxMode) -> None:
    """Forks at each order from the node, the process `node_id`. Returns in the template when the node closes the
    socket; a forked process runs in here until it exits."""
    name_process("tonearm-template")
    if mode is not SandboxMode.OFF:
        with suppress(SandboxUnavailable):  # each decoder process tries it again, and tells
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
    if os.getppid() != node_id:  # it has died, or knows itself by another number, or this kernel makes no siblings
        _answer(node, number, -errno.ENOSYS)
        return
    # The new process says itself that it is there, so that the node knows of it even if the template dies meanwhile.
    _answer(node, number, os.getpid())
    node.close()
    os.setsid()
    reopen_statm()
    command_line.replace_last(TEMPLATE, _DECODER)
    run(socket.socket(fileno=descriptors[0]), descriptors[1], confinement, mode)


def _answer(node: socket.socket, number: int, process_id: int) -> None:
    with suppress(OSError):  # It is gone, and so is this process soon.
        node.send(FORK_ANSWER.pack(number, process_id))


class _CommandLine:
    """What `ps` shows of this process. It lies in memory, where a forked process finds it in the same place."""

    def __init__(self) -> None:
        try:
            numbers = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
            begin, end = int(numbers[45]), int(numbers[46])  # proc(5): arg_start, arg_end
            self._end = end if ctypes.string_at(begin, end - begin) == Path("/proc/self/cmdline").read_bytes() else 0
        except (OSError, ValueError, IndexError):
            self._end = 0

    def replace_last(self, argument: str, new: str) -> None:
        """Puts `new`, which is no longer, in the place of the last argument if that is `argument`."""
        old = b"\0" + argument.encode() + b"\0"
        begin = self._end - len(old)
        if self._end and ctypes.string_at(begin, len(old)) == old:
            ctypes.memmove(begin, b"\0" + new.encode().ljust(len(argument), b"\0"), len(old) - 1)
