"""A disk that does not answer, for decoder processes.

A file on a real one (a network share, a disk that spins up) cannot be had without privileges. So this takes its place
at the lowest seam: `os.pread` and `os.preadv` of the decoder process, which is started by an interpreter that replaces
them before it runs the decoder. What they do is what the kernel does: `preadv` with RWF_NOWAIT fails with EAGAIN, and
`pread` blocks without holding the interpreter lock.
"""

import sys
from pathlib import Path
from typing import Final

_INTERPRETER: Final = """#!{python}
import errno, os, runpy, sys, threading

real_pread, real_preadv = os.pread, os.preadv

def stalls(descriptor, end):
    with open({control!r}) as control:
        inode, first_byte = map(int, control.read().split())
    return end > first_byte and os.fstat(descriptor).st_ino == inode

def pread(descriptor, length, offset):
    while stalls(descriptor, offset + length):
        threading.Event().wait(0.005)
    return real_pread(descriptor, length, offset)

def preadv(descriptor, buffers, offset, flags=0):
    if stalls(descriptor, offset + sum(map(len, buffers))):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return real_preadv(descriptor, buffers, offset, flags)

os.pread, os.preadv = pread, preadv
sys.argv = sys.argv[sys.argv.index("-m") + 1 :]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class SlowDisk:
    """`interpreter` is the path to start decoder processes with, instead of `sys.executable`."""

    def __init__(self, folder: Path) -> None:
        self._control = folder / "stalled"
        self.answer()
        script = folder / "interpreter"
        script.write_text(_INTERPRETER.format(python=sys.executable, control=str(self._control)))
        script.chmod(0o755)
        self.interpreter = str(script)

    def stall(self, path: Path, first_byte: int = 0) -> None:
        """From now on reads of this file that reach `first_byte` do not return."""
        self._say(f"{path.stat().st_ino} {first_byte}")

    def answer(self) -> None:
        """Lets all reads go on."""
        self._say("0 0")

    def _say(self, what: str) -> None:
        unfinished = self._control.with_suffix(".new")
        unfinished.write_text(what)
        unfinished.replace(self._control)
