import mmap
import os
from functools import partial
from typing import Any

import pytest

from tonearm.decoder.messages import EXIT_MEMORY_LIMIT, SUSPECT_BYTES
from tonearm.decoder.pool.process import suspects_of_exit
from tonearm.worker.suspects import SuspectNotes

MIB = 1024 * 1024
GROWTH_MIB = 100
KILLED = -11


class Process:
    """A process with a limit of 400 MiB, whose memory at each step the test sets; and who is suspected at its end."""

    def __init__(self) -> None:
        self.used_mib = 50
        self.status = KILLED
        self._memory = mmap.mmap(-1, SUSPECT_BYTES)
        ends: Any = partial(setattr, self, "status")
        self.notes = SuspectNotes(self._memory, 4 * GROWTH_MIB * MIB, self._statm, self._read_statm, ends)

    def suspects(self) -> set[int]:
        return {source for _, source in suspects_of_exit(self._memory[:], self.status)}

    def _statm(self) -> bytes:
        pages = self.used_mib * MIB // os.sysconf("SC_PAGE_SIZE")
        return f"{pages} 9 9 9 0 {pages} 0\n".encode()

    def _read_statm(self, _descriptor: int, into: Any, _size: int, _offset: int) -> None:
        into.value = self._statm()


# What happens one after the other: a pair is noted, a slot and the source that is worked on in it, or 0; a number is
# the memory that is used from then on, in MiB, at which the process looks. It reaches its limit where it gets to 399.
@pytest.mark.parametrize(
    ("story", "suspects"),
    [
        pytest.param([(0, 7), (1, 8)], {7, 8}, id="each step"),
        pytest.param([(0, 7), (1, 8), (0, 0)], {8}, id="for as long as it lasts"),
        pytest.param([350, (0, 7), 398, (1, 8), 399], set(), id="many players use the memory up"),
        pytest.param([(1, 8), 399], {8}, id="alone when the memory was used up"),
        pytest.param([(1, 8), 330, (0, 7), 399], set(), id="beside another where the memory ends"),
        pytest.param([(1, 8), (2, 9), 399], set(), id="one of two that may have used it up"),
        pytest.param([(0, 7), 350, (0, 0), (0, 7), 399], set(), id="the memory of earlier steps does not count"),
        # A library that finds no memory may crash, before the process gets to end itself.
        pytest.param([350, (0, 7), 395], set(), id="a crash where there was hardly any memory"),
        pytest.param([350, (0, 7), 395, 350], {7}, id="a crash after some of it was given back"),
        pytest.param([(0, 7), 395], {7}, id="a crash of who alone has used it up"),
    ],
)
def test_who_is_a_suspect(story: list[tuple[int, int] | int], suspects: set[int]) -> None:
    process = Process()
    for event in story:
        if isinstance(event, tuple):
            process.notes.note(*event)
        else:
            process.used_mib = event
            if event == 399:
                process.notes.note_session(5, 9)  # which is none, as long as others may be
                process.notes.end()
                assert process.status == EXIT_MEMORY_LIMIT
            else:
                process.notes.note_memory()
    assert process.suspects() == suspects


def test_silence_where_there_is_hardly_any_memory_has_its_suspects() -> None:
    process = Process()
    process.used_mib = 395
    process.notes.note(0, 7)
    process.status = -9
    assert process.suspects() == {7}


def test_a_session_is_the_suspect_of_an_error_and_of_no_crash_beside_a_source() -> None:
    process = Process()
    process.notes.note(1, 8)
    process.notes.note_session(5, 9)
    assert process.suspects() == {8}
    process.status = 1
    assert process.suspects() == {9}
