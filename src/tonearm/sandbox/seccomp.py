"""The filter for system calls, put over this thread and those that it will start. It cannot be taken away again."""

import ctypes
from collections.abc import Sequence
from typing import Final

from tonearm.sandbox.bpf import Instruction, assembled
from tonearm.sandbox.kernel import PR_SET_SECCOMP, libc
from tonearm.sandbox.report import SandboxUnavailable
from tonearm.sandbox.syscalls import Architecture

_SECCOMP_SET_MODE_FILTER: Final = 1
_SECCOMP_MODE_FILTER: Final = 2
# x86 kernels before 5.16 slow filtered processes down against Spectre v4, which is about secrets of the same process.
_SPEC_ALLOW: Final = 1 << 2


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def set_filter(architecture: Architecture, program: Sequence[Instruction], *, by_prctl: bool = False) -> None:
    """Needs `give_up_privileges` before. `by_prctl` takes the older way at once. Raises `SandboxUnavailable`."""
    instructions = ctypes.create_string_buffer(assembled(program))
    given = _Program(len(program), ctypes.cast(instructions, ctypes.c_void_p))
    number = architecture.calls["seccomp"]
    for flags in () if by_prctl else (_SPEC_ALLOW, 0):
        try:
            libc.call("seccomp", number, _SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(given))
        except SandboxUnavailable:
            continue  # an older kernel without the flag, or a profile that allows the older way only
        return
    libc.prctl("seccomp", PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(given))
