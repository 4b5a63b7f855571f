import mmap

import pytest

from tonearm.decoding.worker.suspects import SuspectNotes, private_memory_bytes

MIB = 1024 * 1024


class Process:
    """A process with a limit of 400 MiB, whose memory the test sets; and what it has written down."""

    def __init__(self) -> None:
        self.used_mib: int | None = 50
        self.suspects: dict[int, int] = {}
        self.notes = SuspectNotes(self._write, 400 * MIB, self._used_bytes)

    def named(self) -> set[int]:
        return {suspect for suspect in self.suspects.values() if suspect}

    def _write(self, slot: int, suspect: int) -> None:
        self.suspects[slot] = suspect

    def _used_bytes(self) -> int:
        if self.used_mib is None:
            raise MemoryError
        return self.used_mib * MIB


def test_a_suspect_is_named_for_as_long_as_its_step_lasts() -> None:
    process = Process()
    process.notes.note(0, 7)
    process.notes.note(1, 8)
    assert process.suspects == {0: 7, 1: 8}
    process.notes.note(0, 0)
    assert process.named() == {8}


def test_sources_that_decode_while_many_players_use_the_memory_up_are_no_suspects() -> None:
    process = Process()
    process.used_mib = 350
    process.notes.note(0, 7)
    process.used_mib = 398
    process.notes.note(1, 8)
    process.notes.memory_used_up()
    assert process.named() == set()


def test_the_source_whose_step_used_the_memory_up_is_the_suspect() -> None:
    process = Process()
    process.notes.note(1, 8)
    process.used_mib = 330
    process.notes.note(0, 7)
    process.used_mib = 399
    process.notes.memory_used_up()
    assert process.named() == {8}


def test_of_two_that_may_have_used_it_up_none_is_a_suspect() -> None:
    process = Process()
    process.notes.note(1, 8)
    process.notes.note(2, 9)
    process.used_mib = 399
    process.notes.memory_used_up()
    assert process.named() == set()


def test_the_memory_of_earlier_steps_does_not_count() -> None:
    process = Process()
    process.notes.note(0, 7)
    process.used_mib = 300
    process.notes.note(0, 0)
    process.notes.note(0, 7)
    process.used_mib = 399
    process.notes.memory_used_up()
    assert process.named() == set()


def test_a_step_that_began_when_there_was_no_memory_left_is_no_suspect() -> None:
    process = Process()
    process.used_mib = None
    process.notes.note(0, 7)
    process.notes.memory_used_up()
    assert process.named() == set()


def test_when_there_is_too_little_memory_to_ask_it_counts_as_used_up() -> None:
    process = Process()
    process.notes.note(0, 7)
    process.used_mib = None
    process.notes.memory_used_up()
    assert process.named() == {7}


def test_what_begins_after_the_end_is_not_noted() -> None:
    process = Process()
    process.notes.memory_used_up()
    process.notes.note(0, 7)
    assert process.named() == set()


@pytest.mark.parametrize("size_mib", [8, 64])
def test_the_memory_of_this_process_is_what_it_took(size_mib: int) -> None:
    before = private_memory_bytes()
    with mmap.mmap(-1, size_mib * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        assert private_memory_bytes() - before == pytest.approx(size_mib * MIB, abs=2 * MIB)
