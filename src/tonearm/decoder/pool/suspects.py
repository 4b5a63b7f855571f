"""Which sources may have ended a decoder process, from the notes that it has left (`SUSPECT_SLOTS`)."""

import os
from contextlib import suppress
from typing import Final

from tonearm.decoder.messages import END_MEMORY, EXIT_MEMORY_LIMIT, SESSION_SLOT, SUSPECT_NOTE, SUSPECT_SLOTS

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def suspects_of_exit(notes: bytes, code: int) -> tuple[tuple[int, int], ...]:
    """The (session, source) pairs that may have caused an exit with this code, often none."""
    noted = list(SUSPECT_NOTE.iter_unpack(notes[: SUSPECT_SLOTS * SUSPECT_NOTE.size]))
    session, _ = noted.pop(SESSION_SLOT)
    sources = [source for source, _ in noted if source]
    end_bytes = _memory_at_end(notes)
    if code == EXIT_MEMORY_LIMIT and end_bytes is not None:
        # Many players together can use the memory up, and the memory of concurrent steps cannot be told apart.
        growing = [source for source, guilty_from_bytes in noted if source and end_bytes >= guilty_from_bytes]
        suspects = growing if growing == sources and len(growing) == 1 else []
    # The process's own code raised an error in a session's step. Other exits are caused by a source, if any was noted.
    elif session and (code > 0 or not sources):
        suspects = [session]
    else:
        suspects = sources
    return tuple((suspect >> 32, suspect & 0xFFFFFFFF) for suspect in suspects)


def _memory_at_end(notes: bytes) -> int | None:
    """The writable memory, in bytes, of a process whose memory was used up; None for other exits."""
    with suppress(ValueError, IndexError):
        return int(notes[END_MEMORY].split()[5]) * _PAGE_BYTES  # proc(5): "data"
    return None
