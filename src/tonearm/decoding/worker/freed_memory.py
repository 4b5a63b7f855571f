"""Gives memory back to the system that decoders have freed.

libc keeps what lies between blocks that are in use. A decoder of Opus takes 180 kB that is needed for a moment only,
when a source is opened; with a hundred players that would be most of what a process holds.
"""

import ctypes
import time
from typing import Any, Final

INTERVAL_S: Final = 3.0  # at least, for it takes some milliseconds


class FreedMemory:
    """`note` from any thread; `give_back` from one."""

    def __init__(self) -> None:
        self._trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
        self._is_noted = False
        self._last_s = 0.0

    def note(self) -> None:
        """Something large was freed."""
        self._is_noted = True

    def give_back(self) -> None:
        """To be called often: it does something only now and then."""
        if self._is_noted and self._trim is not None and time.monotonic() - self._last_s >= INTERVAL_S:
            self._is_noted = False
            self._trim(0)
            self._last_s = time.monotonic()


freed_memory: Final = FreedMemory()
