"""The numbers of the Linux system calls that the sandbox uses or allows.

Numbers from 403 on are the same on all architectures; each architecture has its own lower numbers.
"""

import platform
import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tonearm.sandbox.report import SandboxUnavailable

# The first call of Linux 5.1 and later. libc tries such a call first, and falls back when the kernel does not have it.
FIRST_NEW_CALL: Final = 424

# Not in the tables of every architecture's headers, but with the same numbers everywhere.
CLONE3: Final = 435
FACCESSAT2: Final = 439
LANDLOCK_CREATE_RULESET: Final = 444
LANDLOCK_ADD_RULE: Final = 445
LANDLOCK_RESTRICT_SELF: Final = 446


@dataclass(frozen=True, slots=True)
class Architecture:
    """`audit` is AUDIT_ARCH_… of linux/audit.h, which a filter gets; `calls` has the numbers by name."""

    name: str
    audit: int
    calls: MappingProxyType[str, int]


# name: (x86-64, aarch64). None: the architecture never had the call.
_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "access": (21, None),
    "brk": (12, 214),
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "clone": (56, 220),
    "close": (3, 57),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_pwait": (281, 22),
    "epoll_wait": (232, None),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "faccessat": (269, 48),
    "fcntl": (72, 25),
    "fstat": (5, 80),
    "futex": (202, 98),
    "getcpu": (309, 168),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getitimer": (36, 102),
    "getpeername": (52, 205),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getrandom": (318, 278),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "getsockname": (51, 204),
    "getsockopt": (55, 209),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "getuid": (102, 174),
    "ioctl": (16, 29),
    "lseek": (8, 62),
    "lstat": (6, None),
    "madvise": (28, 233),
    "mbind": (237, 235),
    "membarrier": (324, 283),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "nanosleep": (35, 101),
    "newfstatat": (262, 79),
    "open": (2, None),
    "openat": (257, 56),
    "poll": (7, None),
    "ppoll": (271, 73),
    "prctl": (157, 167),
    "pread64": (17, 67),
    "preadv": (295, 69),
    "preadv2": (327, 286),
    "prlimit64": (302, 261),
    "pselect6": (270, 72),
    "read": (0, 63),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "readv": (19, 65),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "restart_syscall": (219, 128),
    "rseq": (334, 293),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "seccomp": (317, 277),
    "select": (23, None),
    "sendto": (44, 206),
    "set_robust_list": (273, 99),
    "set_tid_address": (218, 96),
    "setitimer": (38, 103),
    "setsockopt": (54, 208),
    "shutdown": (48, 210),
    "sigaltstack": (131, 132),
    "socket": (41, 198),
    "stat": (4, None),
    "statfs": (137, 43),
    "statx": (332, 291),
    "sysinfo": (99, 179),
    "tgkill": (234, 131),
    "time": (201, None),
    "times": (100, 153),
    "uname": (63, 160),
    "write": (1, 64),
    "writev": (20, 66),
}


def _column(index: int) -> MappingProxyType[str, int]:
    return MappingProxyType({name: number for name, pair in _NUMBERS.items() if (number := pair[index]) is not None})


X86_64: Final = Architecture("x86_64", 0xC000003E, _column(0))
AARCH64: Final = Architecture("aarch64", 0xC00000B7, _column(1))


def this_architecture() -> Architecture:
    """The architecture that this process runs on. Raises `SandboxUnavailable` when there is no table for it."""
    machine = platform.machine()
    found = {"x86_64": X86_64, "amd64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}.get(machine.lower())
    if sys.platform != "linux" or found is None or sys.maxsize < 2**32:
        raise SandboxUnavailable(f"there is no list of system calls for {sys.platform} on {machine}")
    return found
