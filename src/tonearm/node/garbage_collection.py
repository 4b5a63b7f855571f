"""Runs full garbage collections at quiet times, and gives freed memory back to the system.

`serve` has the interpreter collect young cycles only, since to look at all objects of 1500 players takes longer than a
frame lasts. This module collects all objects when players were deleted and none sends frames, or after many ends. A
player or a track leaves little in cycles: errors with their tracebacks, mostly of libraries.
"""

import asyncio
import ctypes
import gc
from collections.abc import Callable
from typing import Any, Final

from tonearm.core.call_later import CallLater, Cancellable

GIVE_BACK_INTERVAL_S: Final = 20.0
_ENDS_BEFORE_COLLECTION: Final = 10_000


class GarbageCollection:
    """Is told what ended, and gives the memory back within `GIVE_BACK_INTERVAL_S`. `is_idle` says whether no player
    sends frames now."""

    def __init__(self, call_later: CallLater, is_idle: Callable[[], bool]) -> None:
        self._trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
        self._call_later = call_later
        self._is_idle = is_idle
        self._ends = 0  # since the last collection
        self._has_deleted = False  # a player since then
        self._timer: Cancellable | None = None

    def player_deleted(self) -> None:
        self._has_deleted = True
        self.track_ended()

    def track_ended(self) -> None:
        self._ends += 1
        if self._timer is None:
            self._timer = self._call_later(GIVE_BACK_INTERVAL_S, self._give_back)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _give_back(self) -> None:
        self._timer = None
        if (self._has_deleted and self._is_idle()) or self._ends >= _ENDS_BEFORE_COLLECTION:
            self._ends, self._has_deleted = 0, False
            gc.collect()
        if self._trim is not None:
            # In a thread: libc keeps free memory between blocks in use, and takes some ms to look through it.
            asyncio.get_running_loop().run_in_executor(None, self._trim, 0)
