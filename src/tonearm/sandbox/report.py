"""The wanted sandbox of a process, and the sandbox that it got."""

from dataclasses import dataclass
from enum import StrEnum


class SandboxMode(StrEnum):
    """`AUTO` takes what the kernel offers. `REQUIRED` refuses to work without seccomp, but not without Landlock.

    `TRAP` is for tests: as `REQUIRED`, and a system call that is not listed ends the process with SIGSYS instead of
    failing.
    """

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"
    TRAP = "trap"

    @property
    def needs_seccomp(self) -> bool:
        return self in (SandboxMode.REQUIRED, SandboxMode.TRAP)


class SandboxUnavailable(Exception):
    """A part of the sandbox does not work here; the message says which part and why, as in "seccomp: EINVAL".

    `number` is the kernel's error (errno), 0 when there was none.
    """

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """The sandbox of a process. `landlock_abi` is 0 without Landlock. `problem` says why a part is missing; it is empty
    for a sandbox that is switched off."""

    seccomp: bool = False
    landlock_abi: int = 0
    problem: str = ""

    @property
    def level(self) -> str:
        """As "seccomp + landlock 7", "seccomp", "none", or "off" for a sandbox that is switched off."""
        if not self.seccomp:
            return "none" if self.problem else "off"
        return f"seccomp + landlock {self.landlock_abi}" if self.landlock_abi else "seccomp"

    def __str__(self) -> str:
        return f"{self.level} ({self.problem})" if self.problem else self.level
