"""Notes which source a decoder process is working on: the node reads the note after the process has died. Ends the
process when it runs out of memory.
"""

import ctypes
import math
import mmap
import os
import resource
from collections.abc import Callable
from typing import Final, NoReturn

from tonearm.decoder.messages import END_MEMORY, EXIT_MEMORY_LIMIT, SESSION_SLOT, SUSPECT_NOTE
from tonearm.worker.memory import (
    LEAST_LEFT_BYTES,
    STATM,
    address_space_bytes,
    private_memory_bytes,
    read_statm,
)

# When memory is used up, a step that took this share of the memory limit is the cause. The largest ordinary step,
# opening a long file, takes some 30 MiB.
SUSPECT_SHARE: Final = 0.25

# Python 3.13 raises SystemError when there is not even memory for a MemoryError.
MEMORY_ERRORS: Final = (MemoryError, SystemError)

_RESERVE_BYTES: Final = 2 * 1024 * 1024  # twice Python's request at once; only address space until touched

_STATM_BYTES: Final = END_MEMORY.stop - END_MEMORY.start
_PREAD: Final = ctypes.PyDLL(None).pread  # keeps the interpreter lock


class SuspectNotes:
    """Writes notes for the node into shared memory, which the node reads after the process has ended (`SUSPECT_SLOTS`).
    Ends the process when its memory is used up.

    A crash happens in the code of the source that is worked on, but many players together can use up the memory. Then a
    suspect counts only if the process grew by `SUSPECT_SHARE` of its limit in the suspect's step. PyAV crashes when it
    finds no memory for its read buffer, before any code can call `end`. So a note is present while memory is scarce.
    """

    def __init__(
        self,
        notes: mmap.mmap,
        memory_limit_bytes: int,
        statm: Callable[[], bytes] = read_statm,
        statm_at_end: Callable[..., object] = _PREAD,
        exit_process: Callable[[int], NoReturn] = os._exit,
    ) -> None:
        """`statm_at_end` reads the same as `statm`, in the manner of pread(2), and allocates no memory."""
        self._notes = notes
        self._statm_at_end = statm_at_end
        self._exit_process = exit_process
        self.memory_limit_bytes = memory_limit_bytes
        is_limited = memory_limit_bytes != resource.RLIM_INFINITY
        self._guilty_growth_bytes = int(SUSPECT_SHARE * memory_limit_bytes) if is_limited else 0
        self._scarce_from_bytes = memory_limit_bytes - LEAST_LEFT_BYTES if is_limited else math.inf
        self._is_scarce = False
        self._statm = statm
        # For the end, when no more memory can be allocated.
        self._reserve = [bytes(_RESERVE_BYTES)]
        self._end_memory = (ctypes.c_char * _STATM_BYTES).from_buffer(notes, END_MEMORY.start)

    def note(self, slot: int, suspect: int) -> None:
        """A step of `suspect` begins in this slot; with 0 the last step has ended. Call it from any thread."""
        guilty_from_bytes = private_memory_bytes(self.note_memory()) + self._guilty_growth_bytes if suspect else 0
        SUSPECT_NOTE.pack_into(self._notes, slot * SUSPECT_NOTE.size, suspect, guilty_from_bytes)

    def note_session(self, session: int, source: int) -> None:
        """The rendering thread begins a step of this session, in which `source` plays; with 0 the last step has ended.

        Only this thread writes to the slot. The note has no memory figure, because it is written for each block.
        """
        SUSPECT_NOTE.pack_into(self._notes, SESSION_SLOT * SUSPECT_NOTE.size, session << 32 | source, 0)

    def note_memory(self) -> bytes:
        """Notes the memory in use while it is scarce. Returns it in the format of /proc/self/statm. Call it often where
        memory is allocated, from any thread."""
        statm = self._statm()
        was_scarce, self._is_scarce = self._is_scarce, address_space_bytes(statm) > self._scarce_from_bytes
        if self._is_scarce or was_scarce:
            self._notes[END_MEMORY] = (statm if self._is_scarce else b"").ljust(_STATM_BYTES, b"\0")
        return statm

    def is_memory_used_up(self) -> bool:
        """Whether a MemoryError is caused by the memory that the process uses. Otherwise the failed step requested more
        than `SUSPECT_SHARE` of the limit at once, and there is room for the other steps."""
        if self.memory_limit_bytes == resource.RLIM_INFINITY:
            return False
        try:
            return self.memory_limit_bytes - address_space_bytes() < self._guilty_growth_bytes
        except MEMORY_ERRORS:
            return True

    def ends_without_memory(self, work: Callable[[], None]) -> Callable[[], None]:
        """`work` for a thread: the process ends when the memory is used up in it. Otherwise the thread would die, and
        others would wait for it for ever."""

        def run() -> None:
            try:
                work()
            except MEMORY_ERRORS as error:
                self.end_if_used_up(error)
                raise

        return run

    def end_if_used_up(self, error: BaseException) -> None:
        """Ends the process if `error`, which nothing has caught, is caused by lack of memory."""
        if isinstance(error, MemoryError) or (isinstance(error, SystemError) and self.is_memory_used_up()):
            self.end()

    def end(self) -> NoReturn:
        """Ends the process because its memory is used up.

        Allocates hardly any memory, and does not release the interpreter lock: threads inside libav could then keep it
        for many seconds.
        """
        try:
            self._reserve.clear()
            self._statm_at_end(STATM, self._end_memory, _STATM_BYTES, 0)
        finally:
            self._exit_process(EXIT_MEMORY_LIMIT)
