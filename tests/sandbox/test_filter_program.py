"""The filters as programs: what they answer to which call, run by a simulator, for both architectures."""

import errno
import struct
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tonearm.sandbox.rules import decoder_rules, resolver_rules
from tonearm.sandbox.seccomp import (
    ALLOW,
    ALWAYS,
    AND,
    JUMP_IF_AT_LEAST,
    JUMP_IF_EQUAL,
    LOAD_WORD,
    NOT_IMPLEMENTED,
    NOT_PERMITTED,
    RETURN,
    CallRules,
    Instruction,
    assembled,
    filter_program,
)
from tonearm.sandbox.syscalls import AARCH64, X86_64, Architecture

_MOST_INSTRUCTIONS: Final = 4096


def action_for(program: Sequence[Instruction], audit_architecture: int, number: int, *arguments: int) -> int:
    """What the program answers to a call; arguments are 64 bits wide, those left out are 0."""
    check(program)
    registers = [value & 0xFFFFFFFFFFFFFFFF for value in (*arguments, *(0,) * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, audit_architecture, 0x7F0000001000, *registers)
    accumulator = at = 0
    while True:
        code, jump_true, jump_false, operand = program[at]
        at += 1
        if code == RETURN:
            return operand
        if code == LOAD_WORD:
            accumulator = struct.unpack_from("<I", data, operand)[0]
        elif code == AND:
            accumulator &= operand
        elif code == JUMP_IF_EQUAL:
            at += jump_true if accumulator == operand else jump_false
        else:
            at += jump_true if accumulator >= operand else jump_false


def check(program: Sequence[Instruction]) -> None:
    """What the kernel checks before it takes a program (kernel/seccomp.c, net/core/filter.c)."""
    assert 0 < len(program) <= _MOST_INSTRUCTIONS
    for at, (code, jump_true, jump_false, operand) in enumerate(program):
        assert code in (LOAD_WORD, AND, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, RETURN), code
        assert 0 <= jump_true <= 255
        assert 0 <= jump_false <= 255
        assert 0 <= operand <= 0xFFFFFFFF
        if code == LOAD_WORD:
            assert operand % 4 == 0
            assert operand < 64
        if code in (JUMP_IF_EQUAL, JUMP_IF_AT_LEAST):
            assert at + 1 + max(jump_true, jump_false) < len(program)
    assert program[-1].code == RETURN


PROCESS: Final = 4711
AUDIT_I386: Final = 0x40000003
AUDIT_ARM: Final = 0x40000028
HIGH: Final = 1 << 32

Answer = Callable[..., int]


@pytest.fixture(params=[X86_64, AARCH64], ids=lambda given: str(given.name))
def architecture(request: pytest.FixtureRequest) -> Architecture:
    found: Architecture = request.param
    return found


def answering(architecture: Architecture, rules: CallRules) -> Answer:
    program = filter_program(architecture, rules)

    def answer(call: str | int, *arguments: int) -> int:
        number = architecture.calls[call] if isinstance(call, str) else call
        return action_for(program, architecture.audit, number, *arguments)

    return answer


@pytest.fixture
def decoder(architecture: Architecture) -> Answer:
    return answering(architecture, decoder_rules(PROCESS))


@pytest.fixture
def resolver(architecture: Architecture) -> Answer:
    return answering(architecture, resolver_rules(PROCESS))


def test_refusals_are_errors_and_nothing_kills(architecture: Architecture) -> None:
    assert (NOT_PERMITTED, NOT_IMPLEMENTED) == (0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS)
    for rules in (decoder_rules(PROCESS), resolver_rules(PROCESS)):
        program = filter_program(architecture, rules)
        check(program)
        assert len(assembled(program)) == 8 * len(program)
        answers = {action_for(program, architecture.audit, number) for number in range(1024)}
        assert answers == {ALLOW, NOT_PERMITTED, NOT_IMPLEMENTED}


@pytest.mark.parametrize("rules", [decoder_rules, resolver_rules])
def test_what_is_always_allowed_and_what_is_listed_nowhere(
    architecture: Architecture, rules: Callable[[int], CallRules]
) -> None:
    answer = answering(architecture, rules(PROCESS))
    listed = {number for name, number in architecture.calls.items() if name in rules(PROCESS).allowed}
    for name, conditions in rules(PROCESS).allowed.items():
        if conditions == ALWAYS and name in architecture.calls:
            assert answer(name, 2**64 - 1, 2**64 - 1) == ALLOW, name
    for number in range(1024):
        if number not in listed:
            assert answer(number) == (NOT_IMPLEMENTED if number >= 424 else NOT_PERMITTED), number


def test_other_architectures_of_the_same_machine_are_refused(architecture: Architecture) -> None:
    program = filter_program(architecture, resolver_rules(PROCESS))
    for audit in (AUDIT_I386, AUDIT_ARM, 0, (AARCH64 if architecture is X86_64 else X86_64).audit):
        assert {action_for(program, audit, number) for number in range(0, 512, 16)} == {NOT_PERMITTED}
    x32 = range(0x40000000, 0x40000258, 7)
    assert {action_for(program, architecture.audit, number) for number in x32} == {NOT_IMPLEMENTED}


def test_calls_with_conditions(decoder: Answer, resolver: Answer) -> None:
    thread = 0x3D0F00  # as glibc starts one
    for call, arguments, expected in (
        ("clone", (thread,), ALLOW),
        ("clone", (17,), NOT_PERMITTED),  # SIGCHLD alone: fork
        *(("clone", (thread | flag,), NOT_PERMITTED) for flag in (0x4000, 0x20000, 0x2000000, 0x10000000, 0x40000000)),
        ("mmap", (0, 4096, 7, 0x22), NOT_PERMITTED),
        ("mprotect", (4096, 4096, 3), ALLOW),
        ("mprotect", (4096, 4096, 5), NOT_PERMITTED),
        ("mprotect", (4096, 4096, 5 | HIGH), NOT_PERMITTED),
        ("sendto", (3, 4096, 10, 0, 0, 0), ALLOW),
        ("sendto", (3, 4096, 10, 0, HIGH, 16), NOT_PERMITTED),  # an address of which the lower half is 0
        ("tgkill", (PROCESS, 99, 6), ALLOW),
        ("tgkill", (PROCESS + 1, 99, 6), NOT_PERMITTED),
        ("fcntl", (3, 3), ALLOW),
        ("fcntl", (3, 8), NOT_PERMITTED),  # F_SETOWN
        ("fcntl", (3, 3 | HIGH), ALLOW),  # the kernel sees the lower half only
        ("ioctl", (0, 0x5412), NOT_PERMITTED),  # TIOCSTI
        ("ioctl", (3, 0x40086602), NOT_PERMITTED),  # FS_IOC_SETFLAGS
        ("prctl", (4,), NOT_PERMITTED),  # PR_SET_DUMPABLE
        ("prlimit64", (0, 7, 0, 4096), ALLOW),
        ("prlimit64", (0, 7, 4096, 0), NOT_PERMITTED),
        ("prlimit64", (PROCESS - 1, 7, 0, 4096), NOT_PERMITTED),
    ):
        assert decoder(call, *arguments) == expected, (call, arguments)
        assert resolver(call, *arguments) == expected, (call, arguments)


def test_a_decoder_has_no_paths_and_no_new_sockets(architecture: Architecture, decoder: Answer) -> None:
    assert decoder("ioctl", 2, 0x5421) == NOT_PERMITTED
    for call in ("openat", "open", "newfstatat", "stat", "statx", "readlinkat", "getdents64", "getcwd", "socket",
                 "setsockopt", "dup2", "setitimer"):  # fmt: skip
        if call in architecture.calls:
            assert decoder(call) == NOT_PERMITTED, call


def test_a_resolver_reads_files_and_has_no_sockets(architecture: Architecture, resolver: Answer) -> None:
    close_on_exec = 0o2000000
    for call, arguments, expected in (
        ("ioctl", (3, 0x5421), NOT_PERMITTED),
        ("openat", (-100, 4096, close_on_exec), ALLOW),
        ("openat", (-100, 4096, 1), NOT_PERMITTED),
        ("openat", (-100, 4096, 2), NOT_PERMITTED),
        ("openat", (-100, 4096, 0o100), NOT_PERMITTED),  # O_CREAT
        ("openat", (-100, 4096, 0o1000), NOT_PERMITTED),  # O_TRUNC
        ("openat", (-100, 4096, 0o20200000), NOT_PERMITTED),  # O_TMPFILE
        ("mmap", (0, 4096, 5, 2, 3), ALLOW),  # the code of an extension module
        ("mmap", (0, 4096, 7, 2, 3), NOT_PERMITTED),
        ("socket", (2, 1, 0), NOT_PERMITTED),  # TCP
        ("socket", (1, 1, 0), NOT_PERMITTED),  # Unix
        ("epoll_ctl", (3, 1), NOT_PERMITTED),
    ):
        if call in architecture.calls:
            assert resolver(call, *arguments) == expected, (call, arguments)
