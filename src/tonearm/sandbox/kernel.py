"""System calls that Python has no function for, made through libc."""

import ctypes
import errno
import os
import threading
import time
from contextlib import suppress
from typing import Final

from tonearm.sandbox.report import SandboxUnavailable
from tonearm.sandbox.syscalls import this_architecture

PR_SET_PDEATHSIG: Final = 1
PR_SET_NAME: Final = 15
PR_SET_SECCOMP: Final = 22
PR_SET_NO_NEW_PRIVS: Final = 38


class _Libc:
    """libc, opened when this module is imported: a confined process cannot open libraries."""

    def __init__(self) -> None:
        # PyDLL keeps the interpreter lock: these calls take no time, and a fork must return with the lock as it was.
        self._library = ctypes.PyDLL(None, use_errno=True)
        self._library.syscall.restype = ctypes.c_long
        self._library.prctl.restype = ctypes.c_int

    def call(self, what: str, number: int, *arguments: object) -> int:
        """Makes the call `number` with integers and pointers. Raises `SandboxUnavailable`: "`what`: EINVAL"."""
        ctypes.set_errno(0)
        result: int = self._library.syscall(ctypes.c_long(number), *map(_register, arguments))
        if result < 0:
            raise refusal(what, ctypes.get_errno())
        return result

    def prctl(self, what: str, option: int, *arguments: object) -> None:
        """As `call`, for prctl(2)."""
        ctypes.set_errno(0)
        given = [*map(_register, arguments), *[ctypes.c_ulong(0)] * (4 - len(arguments))]
        if self._library.prctl(ctypes.c_int(option), *given) != 0:
            raise refusal(what, ctypes.get_errno())

    def fork(self) -> int:
        """As `os.fork`, but without Python's steps before and after it: for a child that soon ends with `os._exit`.

        Raises `SandboxUnavailable`.
        """
        ctypes.set_errno(0)
        process_id: int = self._library.fork()
        if process_id < 0:
            raise refusal("fork", ctypes.get_errno())
        return process_id


def refusal(what: str, number: int) -> SandboxUnavailable:
    return SandboxUnavailable(f"{what}: {errno.errorcode.get(number) or os.strerror(number)}", number)


def _register(argument: object) -> object:
    return ctypes.c_ulong(argument) if isinstance(argument, int) else argument


libc: Final = _Libc()


def die_with_the_node() -> None:
    """Makes the kernel kill this process when its parent thread ends. Does nothing if the kernel cannot do that."""
    with suppress(SandboxUnavailable):
        libc.prctl("PR_SET_PDEATHSIG", PR_SET_PDEATHSIG, 9)


def give_up_privileges() -> None:
    """Makes sure that started programs never get more rights than this process. Seccomp and Landlock require that.

    Raises `SandboxUnavailable`.
    """
    libc.prctl("no_new_privs", PR_SET_NO_NEW_PRIVS, 1)


def name_process(name: str) -> None:
    """Sets the name of this process in `ps -o comm`, `top` and kernel messages; at most 15 bytes."""
    with suppress(SandboxUnavailable):
        libc.prctl("name", PR_SET_NAME, ctypes.create_string_buffer(name.encode()))


def require_one_thread(*, within_s: float = 0.0) -> None:
    """Raises `SandboxUnavailable` when this process has other threads, which a sandbox does not confine and a fork does
    not copy. `within_s`: how long to wait for a thread that was joined and is still ending."""
    give_up_s = time.monotonic() + within_s
    try:
        while (threads := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < give_up_s:
            time.sleep(0.0005)
    except OSError as error:
        raise SandboxUnavailable(f"/proc/self/task: {error.strerror}") from error
    if threads != 1:
        raise SandboxUnavailable(f"{threads} threads are running, where there must be one")


_PR_GET_TID_ADDRESS: Final = 40
_CLONE_PARENT: Final = 0x00008000
_CLONE_CHILD_CLEARTID: Final = 0x00200000
_CLONE_CHILD_SETTID: Final = 0x01000000
SIBLING_FLAGS: Final = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID


def fork_sibling() -> int:
    """As `os.fork`, for a process with a single thread: returns 0 in the new process, its id in this one. The new
    process is a child of the caller's parent, by CLONE_PARENT. Raises `SandboxUnavailable` if the kernel or the libc
    does not support it."""
    clone, address = this_architecture().calls["clone"], _tid_address()
    require_one_thread()
    # libc has no function for it. Python's part is done as in `os.fork`. libc's own part would be its locks, which need
    # nothing in a process with one thread, and the thread's id, which the kernel writes to `address`.
    ctypes.pythonapi.PyOS_BeforeFork()
    process_id = -1
    try:
        # The address is the fourth argument on x86-64 and the fifth on aarch64; the kernel ignores the other.
        process_id = libc.call("clone", clone, SIBLING_FLAGS, 0, 0, address, address)
    finally:
        (ctypes.pythonapi.PyOS_AfterFork_Parent if process_id else ctypes.pythonapi.PyOS_AfterFork_Child)()
    return process_id


def _tid_address() -> int:
    """Where libc keeps the id of this thread. Raises `SandboxUnavailable`."""
    address = ctypes.c_void_p()
    libc.prctl("PR_GET_TID_ADDRESS", _PR_GET_TID_ADDRESS, ctypes.byref(address))
    if not address.value or ctypes.c_int.from_address(address.value).value != threading.get_native_id():
        raise SandboxUnavailable("this libc keeps a thread's number where it cannot be found")
    return address.value
