"""Confines the current process. A forked child first tries whether the work is still possible.

If a kernel, a libc or a container does not allow the work under the sandbox, the process works without it and reports
why. Processes that are forked later need no trial of their own.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tonearm.sandbox.kernel import give_up_privileges, libc, require_one_thread
from tonearm.sandbox.report import SandboxMode, SandboxReport, SandboxUnavailable
from tonearm.sandbox.seccomp import CallRules, filter_program, set_filter
from tonearm.sandbox.syscalls import (
    LANDLOCK_ADD_RULE,
    LANDLOCK_CREATE_RULESET,
    LANDLOCK_RESTRICT_SELF,
    Architecture,
    this_architecture,
)

_CREATE_RULESET_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_TCP: Final = 0b11  # binding and connecting
_SCOPES: Final = 0b11  # abstract Unix sockets, signals


class _Ruleset(ctypes.Structure):
    """`struct landlock_ruleset_attr`; older kernels have only its first fields."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def restrict_to(readable: Iterable[Path] = ()) -> int:
    """Denies this thread, and threads that it starts later, all that Landlock can deny, except reading files and
    folders in `readable`. Paths that do not exist are left out. Returns the version of Landlock, from 1 on.

    Kernels have Landlock from 5.13 on, unless it is switched off. Each version restricts certain rights only (none
    restricts reading a path's attributes), so Landlock comes in addition to seccomp.

    Requires `give_up_privileges` before. Raises `SandboxUnavailable`.
    """
    abi = libc.call("landlock", LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    # All rights for files that this version has: 13, and refer, truncate and ioctl of devices.
    file_rights = (1 << (13 + (abi >= 2) + (abi >= 3) + (abi >= 5))) - 1
    ruleset = _Ruleset(file_rights, _TCP, _SCOPES)
    known_bytes = 8 if abi < 4 else 16 if abi < 6 else 24
    descriptor = libc.call("landlock", LANDLOCK_CREATE_RULESET, ctypes.byref(ruleset), known_bytes, 0)
    try:
        for path in readable:
            _let_read(descriptor, path)
        libc.call("landlock", LANDLOCK_RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)
    return abi


def _let_read(ruleset: int, path: Path) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
        rule = _PathBeneath(_READ_FILE | (_READ_DIR if is_folder else 0), opened)
        libc.call("landlock", LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(opened)


def limit_memory(most_bytes: int) -> None:
    """Limits the address space of this process, and lets it dump no core. Where the system allows less, that counts."""
    # core(5): with 0 a crash would still start a handler behind a pipe.
    for what, most in ((resource.RLIMIT_AS, most_bytes), (resource.RLIMIT_CORE, 1)):
        _, allowed = resource.getrlimit(what)
        limit = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(what, (limit, limit))


_SANDBOX_TRIAL_LIMIT_S: Final = 5.0
_THREAD_ENDS_WITHIN_S: Final = 2.0  # a busy machine must not cost the sandbox
_ENDED_BY_SIGSYS: Final = "ended by SIGSYS"
_IT_WORKED: Final = b"it worked"
_LONGEST_REASON_BYTES: Final = 500


def try_confinement(
    mode: SandboxMode,
    rules: Callable[[int], CallRules],
    exercise: Callable[[], object],
    readable: Sequence[Path] = (),
) -> "Confinement":
    """Finds out how this process can be confined, and does not confine it. The process must have a single thread.

    `rules` makes the rules for a process id. `exercise` is a small piece of the process's work. It runs in a new thread
    under the sandbox, and has failed when it raises. `readable` are the only paths that Landlock lets the process read.
    Never raises.
    """
    if mode is SandboxMode.OFF:
        return Confinement()
    try:
        architecture = this_architecture()
        require_one_thread(within_s=_THREAD_ENDS_WITHIN_S)
    except SandboxUnavailable as unavailable:
        return Confinement(problem=str(unavailable))
    enter = partial(_enter, architecture, rules, readable, mode is SandboxMode.TRAP)
    problems: list[str] = []
    for way in _ATTEMPTS:
        if way.is_for_killers and not problems[-1].endswith(_ENDED_BY_SIGSYS):
            break
        try:
            _try_in_a_child(partial(enter, way), exercise)
        except _TrialTimeout as error:
            return Confinement(problem=str(error))  # the node waits for this process
        except (SandboxUnavailable, OSError) as error:
            problems.append(str(error))
        else:
            lacks = "" if way.landlock else f"landlock: {problems[0].removeprefix('landlock: ')}"
            return Confinement(partial(enter, way), lacks)
    return Confinement(problem=problems[-1])


class Confinement:
    """The result of a trial: `enter` of a sandbox that works, or None. `problem` says why a part or all of the sandbox
    does not work. It is empty when all works or no sandbox is wanted."""

    def __init__(self, enter: Callable[[], int] | None = None, problem: str = "") -> None:
        self._enter = enter
        self._problem = problem

    def enter(self) -> SandboxReport:
        """Confines this process for good: the process of the trial, or a fork of it. Never raises."""
        if self._enter is None:
            return SandboxReport(problem=self._problem)
        try:
            return SandboxReport(True, self._enter(), self._problem)
        except (SandboxUnavailable, OSError) as error:
            return SandboxReport(problem=str(error))


class _TrialTimeout(SandboxUnavailable):
    pass


class _Attempt(NamedTuple):
    """The parts of the sandbox to try. Some environments kill a process for a system call that they do not allow, for
    example systemd's SystemCallFilter= without SystemCallErrorNumber=. In these (`is_for_killers`) the filter is set by
    `prctl` instead of `seccomp`.
    """

    landlock: bool
    is_for_killers: bool = False


_ATTEMPTS: Final = (
    _Attempt(landlock=True),
    _Attempt(landlock=False),
    _Attempt(True, is_for_killers=True),
    _Attempt(False, True),
)


def _enter(
    architecture: Architecture, rules: Callable[[int], CallRules], readable: Sequence[Path], traps: bool, way: _Attempt
) -> int:
    """Confines this process for good. Returns Landlock's version, 0 without it. Raises `SandboxUnavailable`."""
    program = filter_program(architecture, rules(os.getpid()), traps=traps)
    give_up_privileges()
    abi = restrict_to(readable) if way.landlock else 0
    set_filter(architecture, program, by_prctl=way.is_for_killers)
    return abi


def _try_in_a_child(enter: Callable[[], int], exercise: Callable[[], object]) -> None:
    """Raises `SandboxUnavailable` when `exercise` fails in a forked process under the sandbox; `OSError` without a
    pipe."""
    answer_end, child_end = os.pipe()
    try:
        child = libc.fork()
        if child == 0:
            _answer_trial(enter, exercise, child_end)
        os.close(child_end)
        child_end = -1
        _check_answer(child, answer_end)
    finally:
        os.close(answer_end)
        if child_end >= 0:
            os.close(child_end)


def _answer_trial(enter: Callable[[], int], exercise: Callable[[], object], answer: int) -> None:
    """The whole life of the forked child. Never returns."""
    try:
        enter()
        try:
            in_a_thread(exercise)  # as the work is done later; the end of a thread is part of the trial
            words = _IT_WORKED
        except BaseException as error:  # noqa: BLE001 - as below
            words = b"under the filter: " + _words_for(error)
    except BaseException as error:  # noqa: BLE001 - the parent gets it, whatever it is
        words = _words_for(error)
    with contextlib.suppress(OSError):
        os.write(answer, words)
    os._exit(0)


def in_a_thread(work: Callable[[], object]) -> None:
    """Does `work` in a new thread that ends. Raises what it raises."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


def _words_for(error: BaseException) -> bytes:
    text = str(error) if isinstance(error, SandboxUnavailable) else f"{type(error).__name__}: {error}"
    return text.encode("utf-8", "replace")[:_LONGEST_REASON_BYTES]


def _check_answer(child: int, answer_end: int) -> None:
    """Raises `SandboxUnavailable` when the trial failed. The child has ended when this returns or raises."""
    is_answered = bool(select.select([answer_end], [], [], _SANDBOX_TRIAL_LIMIT_S)[0])
    words = os.read(answer_end, 2 * _LONGEST_REASON_BYTES) if is_answered else b""
    if not is_answered:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if words == _IT_WORKED:
        return
    if not is_answered:
        raise _TrialTimeout(f"the trial of the filter took longer than {_SANDBOX_TRIAL_LIMIT_S:g} s")
    if words:
        raise SandboxUnavailable(words.decode("utf-8", "replace"))
    how = f"ended by {signal.Signals(-status).name}" if status < 0 else f"over with status {status}"
    raise SandboxUnavailable(f"the trial of the filter was {how}")
