"""The system calls that decoder and resolver processes may make. Every other call is refused.

The list has the calls that Python, NumPy, libav and yt-dlp were seen to make, and the calls that other versions of libc
make instead. No listed call leads out of the sandbox. None makes a new connection or process, opens a path for a
decoder, or changes a file, not even an open one.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from tonearm.sandbox.seccomp import ALWAYS, ArgumentTest, CallRules, Conditions

_WORD: Final = 0xFFFFFFFF
_POINTER: Final = 0xFFFFFFFFFFFFFFFF

# Memory: linux/mman.h
_PROT_WRITE, _PROT_EXEC = 2, 4
_MAP_ANONYMOUS = 0x20

# Threads: linux/sched.h
_CLONE_THREAD: Final = 0x00010000
_NO_OTHER_PROCESS: Final = (
    _CLONE_THREAD
    | 0x00002000  # CLONE_PTRACE
    | 0x00004000  # CLONE_VFORK
    | 0x00020000  # CLONE_NEWNS
    | 0x02000000  # CLONE_NEWCGROUP
    | 0x04000000  # CLONE_NEWUTS
    | 0x08000000  # CLONE_NEWIPC
    | 0x10000000  # CLONE_NEWUSER
    | 0x20000000  # CLONE_NEWPID
    | 0x40000000  # CLONE_NEWNET
)

# Commands: linux/fcntl.h, asm-generic/ioctls.h, linux/prctl.h
_F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC = 1, 2, 3, 1030
_TCGETS, _FIOCLEX = 0x5401, 0x5451
_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA = 15, 16, 0x53564D41

# Files: asm-generic/fcntl.h, the same on x86-64 and aarch64
_O_WRITES: Final = 0o3 | 0o100 | 0o1000 | 0o20000000  # O_ACCMODE, O_CREAT, O_TRUNC, __O_TMPFILE


def _is(argument: int, value: int) -> ArgumentTest:
    return ArgumentTest(argument, _WORD, value)


def _is_one_of(argument: int, values: Iterable[int]) -> Conditions:
    return tuple((_is(argument, value),) for value in values)


def _has_none_of(argument: int, bits: int) -> ArgumentTest:
    return ArgumentTest(argument, bits, 0)


def _is_null(argument: int) -> ArgumentTest:
    return ArgumentTest(argument, _POINTER, 0)


def _always(*names: str) -> Mapping[str, Conditions]:
    return dict.fromkeys(names, ALWAYS)


_READS_PATHS: Final = ("newfstatat", "stat", "lstat", "statx", "access", "faccessat", "readlink", "readlinkat",
                       "getdents64", "getcwd", "statfs")  # fmt: skip
_OPENS_PATHS: Final = ("openat", "open")


def decoder_rules(process_id: int) -> CallRules:
    """The rules for the decoder process `process_id`, which uses the descriptors that it has, computes, and has
    threads."""
    return CallRules(
        MappingProxyType(
            {
                # The most frequent calls come first.
                **_always("futex", "recvmsg"),
                "sendto": ((_is_null(4),),),  # without an address, which could open a connection by TCP Fast Open
                **_always("preadv2", "pread64", "read", "madvise", "munmap"),
                "mmap": ((_has_none_of(2, _PROT_EXEC),),),
                "mprotect": ((_has_none_of(2, _PROT_EXEC),),),
                **_always(
                    # Memory
                    "brk", "mremap", "mbind",
                    # Open descriptors
                    "write", "readv", "preadv", "writev", "recvfrom", "close", "fstat", "lseek", "dup", "poll", "ppoll",
                    "select", "pselect6", "getsockopt", "shutdown",
                    # Threads and signals
                    "set_robust_list", "set_tid_address", "rseq", "sched_yield", "sched_getaffinity", "membarrier",
                    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall",
                    "exit", "exit_group",
                    # Time and random numbers
                    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getcpu",
                    "getrandom",
                    # The process itself
                    "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getrlimit", "getrusage",
                    "times", "uname", "sysinfo",
                ),
                "clone": ((ArgumentTest(0, _NO_OTHER_PROCESS, _CLONE_THREAD),),),
                "tgkill": ((_is(0, process_id),),),  # abort, and what faulthandler does after its report
                "fcntl": _is_one_of(1, (_F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC)),
                # FIONBIO is refused: stderr is shared with the node, whose writes would fail.
                "ioctl": _is_one_of(1, (_TCGETS, _FIOCLEX)),
                "prctl": _is_one_of(0, (_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA)),
                "prlimit64": ((_is(0, 0), _is_null(2)),),  # reading its own limits
            }
        ),
        # Libraries try these for text encodings (libav), the system's settings (the allocator) and tracebacks' lines.
        refused=frozenset((*_READS_PATHS, *_OPENS_PATHS)),
    )  # fmt: skip


def resolver_rules(process_id: int) -> CallRules:
    """The rules for the resolver process `process_id`: those for a decoder, and it reads files. Landlock limits which.

    The node makes the resolver's requests, so the resolver opens no sockets.
    """
    readable_code = (
        _has_none_of(2, _PROT_WRITE),
        ArgumentTest(2, _PROT_EXEC, _PROT_EXEC),
        _has_none_of(3, _MAP_ANONYMOUS),
    )
    return decoder_rules(process_id).also(
        {
            **_always(*_READS_PATHS),
            "openat": ((_has_none_of(2, _O_WRITES),),),
            "open": ((_has_none_of(1, _O_WRITES),),),
            # For extension modules that are imported late. The process can write no file, so no code of its own.
            "mmap": ((_has_none_of(2, _PROT_EXEC),), readable_code),
            **_always("setitimer", "getitimer"),
        }
    )
