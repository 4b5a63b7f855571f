"""Notes which source is worked on, for the node to read when the process has died, and clears the innocent ones."""

import math
import os
import threading
from collections.abc import Callable
from typing import Final

# A step that takes this share of the memory limit uses the memory up. The largest ordinary one, opening a long file,
# takes some 30 MiB.
SUSPECT_SHARE: Final = 0.25

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Opened when the process starts, since its sandbox lets it open nothing later.
_STATM: Final = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


def look_at_own_memory() -> None:
    """To be called in a forked process before it is confined: what was opened shows the memory of the one before."""
    opened = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(opened, _STATM, inheritable=False)
    os.close(opened)


def private_memory_bytes() -> int:
    """The writable memory of this process: its heaps and stacks, without what is only reserved. Takes 4 µs."""
    return int(os.pread(_STATM, 128, 0).split()[5]) * _PAGE_BYTES  # proc(5): "data"


class SuspectNotes:
    """`write(slot, suspect)` writes to where the node reads it; 0 is no suspect.

    A crash happens in the code of a source that is worked on, but memory can be used up by many players together. Then
    a suspect counts only if the process grew by `SUSPECT_SHARE` of its limit in the step that it has a slot for, and if
    it is the only such one: what two steps take side by side cannot be told apart.
    """

    def __init__(
        self,
        write: Callable[[int, int], None],
        limit_bytes: int,
        used_bytes: Callable[[], int] = private_memory_bytes,
    ) -> None:
        self._write = write
        self._limit_bytes = limit_bytes
        self._used_bytes = used_bytes
        self._lock = threading.Lock()
        self._is_final = False
        self._begun_with_bytes: dict[int, float] = {}  # by slot: the memory before its step

    def note(self, slot: int, suspect: int) -> None:
        """A step of `suspect` begins in this slot; with 0 the last one has ended. From any thread."""
        with self._lock:
            if self._is_final:
                return
            self._write(slot, suspect)
            if suspect:
                self._begun_with_bytes[slot] = self._used(if_unknown=math.inf)
            else:
                self._begun_with_bytes.pop(slot, None)

    def memory_used_up(self) -> None:
        """The process ends because its memory is used up: leaves only the suspect that used it, if there is one."""
        with self._lock:
            self._is_final = True
            used = self._used(if_unknown=self._limit_bytes)
            growing = [
                slot
                for slot, begun_with in self._begun_with_bytes.items()
                if used - begun_with >= SUSPECT_SHARE * self._limit_bytes
            ]
            for slot in self._begun_with_bytes:
                if [slot] != growing:
                    self._write(slot, 0)

    def _used(self, if_unknown: float) -> float:
        try:
            return self._used_bytes()
        except MemoryError:  # there is too little to ask
            return if_unknown
