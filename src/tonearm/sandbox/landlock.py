"""Landlock: this process may read the given files, and write none; it has no TCP connections, and no signals to others.

Kernels have it from 5.13 on, unless it is switched off. Each version restricts certain rights only (none restricts
reading a path's attributes), so Landlock comes in addition to seccomp.
"""

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tonearm.sandbox.kernel import libc
from tonearm.sandbox.syscalls import LANDLOCK_ADD_RULE, LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF

_CREATE_RULESET_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_TCP: Final = 0b11  # binding and connecting
_SCOPES: Final = 0b11  # abstract Unix sockets, signals


class _Ruleset(ctypes.Structure):
    """`struct landlock_ruleset_attr`; older kernels know its beginning."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def restrict_to(readable: Iterable[Path] = ()) -> int:
    """Denies this thread, and those that it will start, all that Landlock can, but to read files and folders in
    `readable`; paths that do not exist are left out. Returns the version of Landlock, from 1 on.

    Needs `give_up_privileges` before. Raises `SandboxUnavailable`.
    """
    abi = libc.call("landlock", LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    # All rights for files that this version knows: 13, and refer, truncate and ioctl of devices.
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
