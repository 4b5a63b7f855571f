"""A program: runs a command on a kernel, or in a container, that lacks something. Needs no privileges.

python lesser_kernel.py landlock=ENOSYS seccomp=EINVAL prctl-seccomp=EINVAL -- COMMAND…

`seccomp` is the system call, `prctl-seccomp` the older way to the same; `sibling` is a fork for the parent.
With SIGSYS for an error, who asks is killed.
"""

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tonearm.sandbox.kernel import PR_SET_SECCOMP, SIBLING_FLAGS, give_up_privileges
from tonearm.sandbox.seccomp import ALLOW, JUMP_IF_EQUAL, LOAD_WORD, RETURN, Instruction, set_filter
from tonearm.sandbox.syscalls import LANDLOCK_CREATE_RULESET, this_architecture

_FIRST_ARGUMENT_AT: Final = 16
_ERRNO: Final = 0x00050000
_KILL_PROCESS: Final = 0x80000000


def without(*lacks: str) -> tuple[str, ...]:
    """The words to put before a command."""
    return (sys.executable, str(Path(__file__)), *lacks, "--")


def make_lesser(lacks: Sequence[str]) -> None:
    """Takes what `lacks` say from this process, and from all that come of it, for good."""
    architecture = this_architecture()
    program: list[Instruction] = []
    for lack in lacks:
        name, _, error = lack.partition("=")
        action = _KILL_PROCESS if error == "SIGSYS" else _ERRNO | int(getattr(errno, error))
        refusal = Instruction(RETURN, 0, 0, action)
        if name in ("prctl-seccomp", "sibling"):
            call, option = ("clone", SIBLING_FLAGS) if name == "sibling" else ("prctl", PR_SET_SECCOMP)
            number = architecture.calls[call]
            program += [Instruction(LOAD_WORD, 0, 0, 0), Instruction(JUMP_IF_EQUAL, 0, 3, number)]
            program += [Instruction(LOAD_WORD, 0, 0, _FIRST_ARGUMENT_AT), Instruction(JUMP_IF_EQUAL, 0, 1, option)]
        else:
            number = LANDLOCK_CREATE_RULESET if name == "landlock" else architecture.calls[name]
            program += [Instruction(LOAD_WORD, 0, 0, 0), Instruction(JUMP_IF_EQUAL, 0, 1, number)]
        program.append(refusal)
    give_up_privileges()
    set_filter(architecture, [*program, Instruction(RETURN, 0, 0, ALLOW)])


def main() -> None:
    at = sys.argv.index("--")
    make_lesser(sys.argv[1:at])
    os.execvp(sys.argv[at + 1], sys.argv[at + 1 :])  # noqa: S606 - that is what it is for


if __name__ == "__main__":
    main()
