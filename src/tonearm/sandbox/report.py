"""The wanted sandbox of a process, and the sandbox that it got. Also the node's side: the environment of confined
processes, the sandbox that each kind of process needs, and the log of their reports.
"""

import logging
import site
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


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


log = logging.getLogger(__name__)


# The interpreter and the loader find their files by these variables.
_KEPT: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL")


def minimal_environment(
    environment: Mapping[str, str], *, has_user_packages: bool = bool(site.ENABLE_USER_SITE)
) -> dict[str, str]:
    """The variables of `environment` that a Python process needs to run.

    Passwords, keys, proxies and other settings are left out. `has_user_packages`: packages of the user are imported.
    """
    kept = {name: environment[name] for name in _KEPT if name in environment}
    if has_user_packages:
        kept["PYTHONUSERBASE"] = site.getuserbase()  # packages of the user are found by HOME, which is not kept
    return kept


class SandboxRequiredError(Exception):
    """A sandbox is required and does not work. The message names the configuration's key and the reason."""


class SandboxSupervision:
    """Logs the level of the processes of one `kind` ("decoders") once the node has started, and when it changes.

    `key` is the configuration's key for it.
    """

    def __init__(self, kind: str, key: str, mode: SandboxMode = SandboxMode.AUTO) -> None:
        self.mode = mode
        self._kind = kind
        self._key = key
        self._last: SandboxReport | None = None
        self._is_announced = False

    def require(self, report: SandboxReport) -> None:
        """Raises `SandboxRequiredError` when a process has no sandbox and the mode requires it."""
        if self.mode.needs_seccomp and not report.seccomp:
            raise SandboxRequiredError(
                f'{self._key} is "{self.mode}", but there is no sandbox for the {self._kind} '
                f'({report.problem or "it is off"}); docs/security.md says what it needs, "auto" does without'
            )

    @property
    def level(self) -> str:
        """The `SandboxReport.level` of the last report; empty before the first report."""
        return "" if self._last is None else self._last.level

    def take_note(self, report: SandboxReport) -> None:
        is_news = report != self._last
        self._last = report
        if self._is_announced and is_news:
            self._log(report)

    def announce(self) -> None:
        """Logs the level; to be called when the node has started."""
        self._is_announced = True
        if self._last is not None:
            self._log(self._last)

    def _log(self, report: SandboxReport) -> None:
        log.log(logging.WARNING if report.problem else logging.INFO, "%s: sandbox %s", self._kind, report)


def decoder_supervision(mode: SandboxMode = SandboxMode.AUTO) -> SandboxSupervision:
    return SandboxSupervision("decoders", "decoder.sandbox", mode)


def resolver_supervision(mode: SandboxMode = SandboxMode.AUTO) -> SandboxSupervision:
    return SandboxSupervision("resolvers", "resolver.sandbox", mode)
