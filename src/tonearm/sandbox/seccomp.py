"""Filters for system calls: programs of the classic Berkeley packet filter, which the kernel runs for each call.

A program gets `struct seccomp_data` (linux/seccomp.h): the call's number, the architecture, and six arguments as they
are in the registers. So it can compare numbers and flags, and test whether a pointer is null. It cannot read a path or
an address in memory.
"""

import ctypes
import errno
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from tonearm.sandbox.kernel import PR_SET_SECCOMP, libc
from tonearm.sandbox.report import SandboxUnavailable
from tonearm.sandbox.syscalls import CLONE3, FACCESSAT2, FIRST_NEW_CALL, Architecture

# linux/bpf_common.h
LOAD_WORD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
JUMP_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
JUMP_IF_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K, unsigned
RETURN: Final = 0x06  # BPF_RET | BPF_K

# linux/seccomp.h
ALLOW: Final = 0x7FFF0000
TRAP: Final = 0x00030000
_ERRNO: Final = 0x00050000
NOT_PERMITTED: Final = _ERRNO | errno.EPERM
NOT_IMPLEMENTED: Final = _ERRNO | errno.ENOSYS

_SECCOMP_SET_MODE_FILTER: Final = 1
_SECCOMP_MODE_FILTER: Final = 2
# Without this flag, x86 kernels before 5.16 slow filtered processes down against Spectre v4, which is about secrets of
# the same process.
_SPEC_ALLOW: Final = 1 << 2

# Offsets in struct seccomp_data.
_NUMBER_AT: Final = 0
_ARCHITECTURE_AT: Final = 4
_ARGUMENTS_AT: Final = 16

_WORD: Final = 0xFFFFFFFF
_LONGEST_JUMP: Final = 255
_INSTRUCTION: Final = struct.Struct("<HBBI")  # struct sock_filter


class Instruction(NamedTuple):
    """`struct sock_filter`. Jumps count the instructions to skip."""

    code: int
    jump_true: int
    jump_false: int
    operand: int


class ArgumentTest(NamedTuple):
    """Holds when `argument & mask == value`; `argument` is its index. Masks are 64 bits wide.

    The kernel takes most arguments as 32 bits and ignores the others, as does a mask of 32 bits.
    """

    argument: int
    mask: int
    value: int


# A call is allowed when all tests of one of the alternatives hold, or when there are no alternatives.
Conditions: TypeAlias = tuple[tuple[ArgumentTest, ...], ...]

ALWAYS: Final[Conditions] = ()


@dataclass(frozen=True, slots=True)
class CallRules:
    """The system calls that a process may make, by their names in `syscalls`, the most frequent first.

    `refused` are calls that libraries are known to try, and that they can do without.
    """

    allowed: Mapping[str, Conditions]
    refused: frozenset[str] = frozenset()

    def also(self, allowed: Mapping[str, Conditions]) -> "CallRules":
        """These rules and more. Where both have a call, the new conditions count, and it is not refused any more."""
        merged = MappingProxyType({**self.allowed, **allowed})
        return CallRules(merged, self.refused - allowed.keys())


def filter_program(architecture: Architecture, rules: CallRules, *, traps: bool = False) -> tuple[Instruction, ...]:
    """The program for `rules`. A call that is not listed fails with EPERM, or with ENOSYS if it is newer than the list.

    Calls that an architecture does not have are left out. With `traps`, a call that is not listed raises SIGSYS, unless
    it is in `rules.refused` or is one that libc tries and can do without.
    """
    program = [
        Instruction(LOAD_WORD, 0, 0, _ARCHITECTURE_AT),
        Instruction(JUMP_IF_EQUAL, 1, 0, architecture.audit),
        # A process on x86-64 can make 32-bit calls, too, which have other numbers.
        Instruction(RETURN, 0, 0, NOT_PERMITTED),
        Instruction(LOAD_WORD, 0, 0, _NUMBER_AT),
    ]
    otherwise = TRAP if traps else NOT_PERMITTED
    for name, conditions in rules.allowed.items():
        number = architecture.calls.get(name)
        if number is not None:
            program += _when_number(number, _alternatives(conditions, otherwise))
    if traps:
        for name in sorted(rules.refused & architecture.calls.keys()):
            program += _when_number(architecture.calls[name], [_returning(NOT_PERMITTED)])
        for number in (CLONE3, FACCESSAT2):
            program += _when_number(number, [_returning(NOT_IMPLEMENTED)])
    else:
        # Calls of x32, x86-64's other set of numbers, have bit 30 set, so they are refused here, too.
        program += [Instruction(JUMP_IF_AT_LEAST, 0, 1, FIRST_NEW_CALL), _returning(NOT_IMPLEMENTED)]
    return (*program, _returning(otherwise))


def assembled(program: Sequence[Instruction]) -> bytes:
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)


def _when_number(number: int, block: list[Instruction]) -> list[Instruction]:
    """`block`, which must return, for the call of this number. Other calls go on after it, with the number still
    loaded."""
    assert len(block) <= _LONGEST_JUMP, "a jump over so many conditions does not fit into a byte"
    return [Instruction(JUMP_IF_EQUAL, 0, len(block), number), *block]


def _alternatives(conditions: Conditions, otherwise: int) -> list[Instruction]:
    if not conditions:
        return [_returning(ALLOW)]
    block: list[Instruction] = []
    for tests in conditions:
        block += _all_of(tests)
    return [*block, _returning(otherwise)]


def _all_of(tests: Sequence[ArgumentTest]) -> list[Instruction]:
    """Allows the call when all tests hold, and otherwise goes on after these instructions."""
    backwards = [_returning(ALLOW)]
    for test in reversed(tests):
        for is_high_word in (True, False):
            shift = 32 if is_high_word else 0
            mask, value = test.mask >> shift & _WORD, test.value >> shift & _WORD
            if not mask:
                continue
            backwards.append(Instruction(JUMP_IF_EQUAL, 0, len(backwards), value))
            if mask != _WORD:
                backwards.append(Instruction(AND, 0, 0, mask))
            # Both architectures are little-endian.
            backwards.append(
                Instruction(LOAD_WORD, 0, 0, _ARGUMENTS_AT + 8 * test.argument + (4 if is_high_word else 0))
            )
    return backwards[::-1]


def _returning(action: int) -> Instruction:
    return Instruction(RETURN, 0, 0, action)


class _SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def set_filter(architecture: Architecture, program: Sequence[Instruction], *, by_prctl: bool = False) -> None:
    """Sets a filter for this thread and threads that it starts later. The filter cannot be removed.

    Requires `give_up_privileges` before. With `by_prctl` the older way is taken at once. Raises `SandboxUnavailable`.
    """
    instructions = ctypes.create_string_buffer(assembled(program))
    given = _SockFprog(len(program), ctypes.cast(instructions, ctypes.c_void_p))
    number = architecture.calls["seccomp"]
    for flags in () if by_prctl else (_SPEC_ALLOW, 0):
        try:
            libc.call("seccomp", number, _SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(given))
        except SandboxUnavailable:
            continue  # an older kernel without the flag, or a container that allows `prctl` only
        return
    libc.prctl("seccomp", PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(given))
