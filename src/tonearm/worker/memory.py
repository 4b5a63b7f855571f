"""The memory of a decoder process: its size, the share that sessions use, and its return to the system."""

import ctypes
import gc
import os
import resource
import time
from typing import Any, Final

from tonearm.core.memory_budget import LESS_AHEAD_FROM, promised_bytes

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Opened when the process starts, since its sandbox allows no opening later.
STATM: Final = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
# With less memory left no session begins: without any memory Python, PyAV and libav crash or read on for ever.
LEAST_LEFT_BYTES: Final = 8 * 1024 * 1024
_RESERVE_BYTES: Final = 32 * 1024 * 1024
# Share of the memory for sessions: libc keeps freed memory between blocks in use, and the limit counts it.
_FRAGMENTED: Final = 0.25
_LEAST_BYTES: Final = 8 * 1024 * 1024  # minimum for sessions, even with a very low limit
_GIVE_BACK_INTERVAL_S: Final = 3.0  # minimum, since a return takes some milliseconds
# Memory of ended sessions is between blocks of other sessions. So the return is repeated for some minutes.
_AGAIN_AFTER_S: Final = 8.0
_TIMES_AGAIN: Final = 40


def reopen_statm() -> None:
    """Call this in a forked process before it is confined, because the inherited `STATM` shows the parent's memory."""
    opened = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(opened, STATM, inheritable=False)
    os.close(opened)


def read_statm() -> bytes:
    """The text of /proc/self/statm: numbers of pages."""
    return os.pread(STATM, 128, 0)


def address_space_bytes(statm: bytes | None = None) -> int:
    """The size of the address space, which RLIMIT_AS limits; by default the current size."""
    return int((read_statm() if statm is None else statm).split()[0]) * _PAGE_BYTES  # proc(5): "size"


def private_memory_bytes(statm: bytes | None = None) -> int:
    """The writable memory of this process: its heaps and stacks, without memory that is only reserved."""
    return int((read_statm() if statm is None else statm).split()[5]) * _PAGE_BYTES  # proc(5): "data"


class _Mallinfo(ctypes.Structure):
    """mallinfo(3): the number of free bytes comes after eight other numbers."""

    _fields_ = (("before", ctypes.c_size_t * 8), ("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t))


class FreeHeap:
    """Counts the free bytes of libc's heap. A count takes up to some ms."""

    def __init__(self) -> None:
        self._mallinfo: Any = getattr(ctypes.CDLL(None), "mallinfo2", None)  # glibc from 2.33 on
        if self._mallinfo is not None:
            self._mallinfo.restype = _Mallinfo

    def __call__(self) -> int:
        return 0 if self._mallinfo is None else int(self._mallinfo().fordblks)


class FreedMemory:
    """Returns memory that decoders have freed to the system. Any thread may call `note`, only one thread `give_back`.

    libc keeps free memory between blocks that are in use. A decoder of Opus takes 180 kB that is needed only while a
    source is opened; with a hundred players that would be most of the process's memory.
    """

    def __init__(self) -> None:
        self._trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
        self._is_noted = self._has_cycles = False
        self._times_again = 0
        self._last_s = 0.0

    def note(self) -> None:
        """Call this after freeing a large amount of memory."""
        self._is_noted = True

    def note_session(self) -> None:
        """Call this after the end of a session. Its objects refer to each other, so only Python's garbage collector
        frees them, and it seldom runs on its own."""
        self._has_cycles = self._is_noted = True
        self._times_again = _TIMES_AGAIN

    def give_back(self) -> None:
        """Returns memory, if some was freed and the last return was long enough ago. Call this often."""
        if self._trim is None or not (self._is_noted or self._times_again):
            return
        if time.monotonic() - self._last_s < (_GIVE_BACK_INTERVAL_S if self._is_noted else _AGAIN_AFTER_S):
            return
        if not self._is_noted:
            self._times_again -= 1
        self._is_noted = False
        if self._has_cycles:
            self._has_cycles = False
            gc.collect()
        self._trim(0)
        self._last_s = time.monotonic()


freed_memory: Final = FreedMemory()


class MemoryBudget:
    """The part of the limit (`RLIMIT_AS`) that sessions may use. It excludes the memory that the process uses when this
    object is made, a reserve for large steps, such as opening a long file, and free memory between blocks in use.

    `used` is the share of the budget in use at the last count; any thread may read it. The methods are for one thread.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._count_free_bytes = FreeHeap()
        self._free_bytes = 0
        self._before_bytes = private_memory_bytes()
        left_bytes = limit_bytes - address_space_bytes() - _RESERVE_BYTES
        self._for_sessions_bytes = max(_LEAST_BYTES, left_bytes * (1 - _FRAGMENTED))
        self._begun = [0, 0]  # sessions that began since the last count, and between the last two
        self._counted_bytes = [0, 0]  # the bytes in use at each of the last two counts
        self.used = 0.0

    def began(self) -> None:
        """Call this when a session begins; it does not use all of its memory yet."""
        self._begun[0] += 1

    def promised(self, *, plays_on: bool) -> float:
        """The share that will be in use when the sessions that began recently use all of their memory, as it counts for
        a session that comes now: see `promised_bytes`."""
        begun = sum(self._begun)
        return self._share(promised_bytes(self._used_bytes, self._counted_bytes[-1], begun, plays_on=plays_on))

    def count(self) -> float:
        """Counts and returns the share in use. Takes up to some ms when the share is large."""
        self._free_bytes = 0
        self.used = self._share(self._used_bytes)
        if self.used > LESS_AHEAD_FROM:
            self._free_bytes = self._count_free_bytes()
            self.used = self._share(self._used_bytes)
        self._begun = [0, *self._begun[:-1]]
        self._counted_bytes = [self._used_bytes, *self._counted_bytes[:-1]]
        return self.used

    @property
    def is_nearly_used_up(self) -> bool:
        if self._limit_bytes == resource.RLIM_INFINITY:
            return False
        return self._limit_bytes - address_space_bytes() + self._free_bytes < LEAST_LEFT_BYTES

    @property
    def _used_bytes(self) -> int:
        return private_memory_bytes() - self._free_bytes - self._before_bytes

    def _share(self, used_bytes: int) -> float:
        if self._limit_bytes == resource.RLIM_INFINITY:
            return 0.0
        return min(1.0, max(0.0, used_bytes / self._for_sessions_bytes))
