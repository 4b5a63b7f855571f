"""What is asked of the sandbox of a process, and what came of it."""

from dataclasses import dataclass
from enum import StrEnum


class SandboxMode(StrEnum):
    """`AUTO` takes what the kernel gives. `REQUIRED` does not work without seccomp; Landlock stays a bonus.

    `TRAP` is for tests: as `REQUIRED`, and a system call that the list does not foresee ends the process with SIGSYS
    instead of failing, so that it is noticed.
    """

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"
    TRAP = "trap"

    @property
    def needs_seccomp(self) -> bool:
        return self in (SandboxMode.REQUIRED, SandboxMode.TRAP)


class SandboxUnavailable(Exception):
    """A part of the sandbox cannot be had here; the message says which and why, as in "seccomp: EINVAL".

    `number` is the kernel's error, 0 when it was not asked.
    """

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """`landlock_abi` is 0 without Landlock. `problem` says why something is missing; switched off is no problem."""

    seccomp: bool = False
    landlock_abi: int = 0
    problem: str = ""

    @property
    def level(self) -> str:
        """Such as "seccomp + landlock 7", "seccomp", "none", or "off" for what was switched off."""
        if not self.seccomp:
            return "none" if self.problem else "off"
        return f"seccomp + landlock {self.landlock_abi}" if self.landlock_abi else "seccomp"

    def __str__(self) -> str:
        return f"{self.level} ({self.problem})" if self.problem else self.level
