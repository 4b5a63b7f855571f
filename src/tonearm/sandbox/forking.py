"""A fork whose new process is a sibling: a child of the caller's parent, by CLONE_PARENT.

So the processes that are forked from a template are children of the node, which sees the exit and status of each. With
`fork` they would be children of the template, and orphans when it dies.
"""

import ctypes
import threading
from typing import Final

from tonearm.sandbox.kernel import libc, require_one_thread
from tonearm.sandbox.report import SandboxUnavailable
from tonearm.sandbox.syscalls import this_architecture

_PR_GET_TID_ADDRESS: Final = 40
_CLONE_PARENT: Final = 0x00008000
_CLONE_CHILD_CLEARTID: Final = 0x00200000
_CLONE_CHILD_SETTID: Final = 0x01000000
SIBLING_FLAGS: Final = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID


def fork_sibling() -> int:
    """As `os.fork`, for a process with a single thread: 0 in the new process, its number in this one. Raises
    `SandboxUnavailable` where the kernel or the libc does not support it."""
    clone, address = this_architecture().calls["clone"], _tid_address()
    require_one_thread()
    # libc has no function for it. Python's part is done as in `os.fork`. libc's own part would be its locks, which need
    # nothing in a process with one thread, and the thread's number, which the kernel writes to `address`.
    ctypes.pythonapi.PyOS_BeforeFork()
    process_id = -1
    try:
        # The address is the fourth argument on x86-64 and the fifth on aarch64; the kernel ignores the other.
        process_id = libc.call("clone", clone, SIBLING_FLAGS, 0, 0, address, address)
    finally:
        (ctypes.pythonapi.PyOS_AfterFork_Parent if process_id else ctypes.pythonapi.PyOS_AfterFork_Child)()
    return process_id


def _tid_address() -> int:
    """Where libc keeps the number of this thread. Raises `SandboxUnavailable`."""
    address = ctypes.c_void_p()
    libc.prctl("PR_GET_TID_ADDRESS", _PR_GET_TID_ADDRESS, ctypes.byref(address))
    if not address.value or ctypes.c_int.from_address(address.value).value != threading.get_native_id():
        raise SandboxUnavailable("this libc keeps a thread's number where it cannot be found")
    return address.value
