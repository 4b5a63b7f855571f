"""Runs a filter program as the kernel does: `struct seccomp_data` in, an action out. Strict where the kernel is."""

import struct
from collections.abc import Sequence
from typing import Final

from tonearm.sandbox.seccomp import AND, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, LOAD_WORD, RETURN, Instruction

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
