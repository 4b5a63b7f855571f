"""What code that has taken a process over would try. Run inside of it; imports nothing of tonearm, and nothing late.

As far as it matters it goes around Python, which has an audit hook in resolver processes.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final

REFUSED: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS})

# (x86-64, aarch64); from 424 on they are the same.
NUMBERS: Final = {
    "bpf": (321, 280),
    "clone": (56, 220),
    "fork": (57, None),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "name_to_handle_at": (303, 264),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "setns": (308, 268),
    "tkill": (200, 130),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425),
    "open_tree": (428, 428),
    "pidfd_open": (434, 434),
    "openat2": (437, 437),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "landlock_create_ruleset": (444, 444),
    "memfd_secret": (447, 447),
}
_COLUMN: Final = 1 if platform.machine() in ("aarch64", "arm64") else 0
_NOTHING: Final = (ctypes.c_char_p * 1)(None)
_X32_GETPID: Final = 0x40000000 + 39
_PTRACE_PEEKDATA: Final = 2
_PR_SET_DUMPABLE: Final = 4
_ADDRESS: Final = struct.pack("=HHIQ", socket.AF_INET, socket.htons(9), socket.htonl(0x7F000001), 0)
_ADDRESS_BUFFER: Final = ctypes.create_string_buffer(_ADDRESS)

_libc: Final = ctypes.PyDLL(None, use_errno=True)  # forks must come back with the interpreter's lock
_libc.syscall.restype = ctypes.c_long
_libc.mmap.restype = ctypes.c_void_p

Try = Callable[[], object]

# What a resolver process has to be able to do, and what it can do where there is no Landlock.
RESOLVERS_MAY: Final = frozenset({"stat"})
RESOLVERS_MAY_WITHOUT_LANDLOCK: Final = RESOLVERS_MAY | {"open for reading", "listdir", "the node's environment"}


def attack() -> list[str]:
    """The tries that were not refused, done in a new thread. "a thread" must be among them."""
    through: list[str] = []

    def run() -> None:
        through.extend(name for name, attempt in _tries(os.getppid()).items() if not _is_refused(attempt))
        through.append("a thread")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return through


def tries() -> list[str]:
    return list(_tries(0))


def _tries(node: int) -> dict[str, Try]:
    return {**_files(node), **_sockets(), **_processes(node), **_kernel(), **_itself()}


def _is_refused(attempt: Try) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno in REFUSED
    return False


def _call(name: str, *arguments: object) -> int:
    return _raw(NUMBERS[name][_COLUMN] or 0, *arguments)


def _raw(number: int, *arguments: object) -> int:
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *given))


def _files(node: int) -> dict[str, Try]:
    def on_own_descriptors(change: Callable[[int], object]) -> Try:
        def attempt() -> None:
            for descriptor in range(16):
                try:
                    change(descriptor)
                except OSError as error:
                    if error.errno not in (*REFUSED, errno.EBADF):
                        raise
                else:
                    return
            raise OSError(errno.EPERM, "refused for all")

        return attempt

    return {
        "open for reading": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "open for writing": lambda: os.open("/nonexistent/file", os.O_WRONLY | os.O_CREAT),
        "an unnamed file": lambda: os.open("/tmp", os.O_RDWR | os.O_TMPFILE),  # noqa: S108
        "the node's environment": lambda: os.open(f"/proc/{node}/environ", os.O_RDONLY),
        "stat": lambda: os.stat("/etc/passwd"),
        "listdir": lambda: os.listdir("/"),
        "chdir": lambda: os.chdir("/tmp"),  # noqa: S108
        "mkdir": lambda: os.mkdir("/nonexistent/folder"),
        "unlink": lambda: os.unlink("/nonexistent/file"),
        "rename": lambda: os.rename("/tmp/tonearm-a", "/tmp/tonearm-b"),  # noqa: S108
        "chmod": lambda: os.chmod("/nonexistent/file", 0o777),  # noqa: S103
        "symlink": lambda: os.symlink("/etc/passwd", "/nonexistent/link"),
        "mkfifo": lambda: os.mkfifo("/nonexistent/fifo"),
        "fchmod": on_own_descriptors(lambda descriptor: os.fchmod(descriptor, 0o666)),
        "fchown": on_own_descriptors(lambda descriptor: os.fchown(descriptor, -1, -1)),
        "ftruncate": on_own_descriptors(lambda descriptor: os.ftruncate(descriptor, 0)),
        "fsetxattr": on_own_descriptors(lambda descriptor: os.setxattr(descriptor, "user.attack", b"x")),
        "futimens": on_own_descriptors(lambda descriptor: os.utime(descriptor)),
        "flock": on_own_descriptors(lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)),
        "who gets a descriptor's signals": on_own_descriptors(
            lambda descriptor: fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        ),
        "ioctl on a terminal": on_own_descriptors(lambda descriptor: fcntl.ioctl(descriptor, 0x5412, b"x")),
        "memfd": lambda: os.memfd_create("attack"),
        "openat2": lambda: _call("openat2", -100, ctypes.c_char_p(b"/etc/passwd"), ctypes.create_string_buffer(24), 24),
        "name_to_handle_at": lambda: _call("name_to_handle_at", -100, ctypes.c_char_p(b"/"), 0, 0, 0),
        "mount": lambda: _call("mount", 0, 0, 0, 0, 0),
    }


def _sockets() -> dict[str, Try]:
    def on_a_socket(use: Callable[[int], object]) -> Try:
        def attempt() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
                use(made.fileno())

        return attempt

    def on_an_address(call: Callable[..., int], *arguments: object) -> Try:
        """Around Python, whose own connect may have been replaced, and whose audit hook does not see this one."""
        return on_a_socket(lambda made: _checked(call(made, *arguments)))

    fast_open = 0x20000000  # MSG_FASTOPEN: connects without connect
    message = struct.pack("=7Q", ctypes.addressof(_ADDRESS_BUFFER), len(_ADDRESS), 0, 0, 0, 0, 0)
    return {
        "an IPv4 TCP socket": on_a_socket(lambda made: None),
        "connect": on_an_address(_libc.connect, _ADDRESS, len(_ADDRESS)),
        "bind": on_an_address(_libc.bind, _ADDRESS, len(_ADDRESS)),
        "listen": on_an_address(_libc.listen, 1),
        "TCP Fast Open": on_an_address(_libc.sendto, b"x", 1, fast_open, _ADDRESS, len(_ADDRESS)),
        "an addressed message": on_an_address(_libc.sendmsg, message, fast_open),
        "an IPv6 socket": lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close(),
        "UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "MPTCP": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close(),
        "a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
        "a Unix socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        "vsock": lambda: socket.socket(40, socket.SOCK_STREAM).close(),
        "socketpair": lambda: socket.socketpair(),
        "pipe": lambda: os.pipe(),
    }


def _processes(node: int) -> dict[str, Try]:
    def new_process(start: Callable[[], int]) -> Try:
        def attempt() -> None:
            child = start()
            if child == 0:
                os._exit(0)
            # The child has no thread but this one: it may wait for another one to take the interpreter's lock.
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

        return attempt

    return {
        # Of a file that is none, so that the test's control does not end its process.
        "execve": lambda: _checked(_libc.execve(b"/nonexistent/program", _NOTHING, _NOTHING)),
        "fork": new_process(lambda: _checked(_libc.fork())),
        "fork, the old call": new_process(lambda: _call("fork") if _COLUMN == 0 else _checked(_libc.fork())),
        "clone": new_process(lambda: _call("clone", int(signal.SIGCHLD), 0, 0, 0, 0)),
        "kill": lambda: _checked(_libc.kill(node, 0)),
        "kill its group": lambda: _checked(_libc.kill(0, 0)),
        "tkill": lambda: _call("tkill", node, 0),
        "tgkill": lambda: _checked(_libc.tgkill(node, node, 0)),
        "sigqueue": lambda: _checked(_libc.sigqueue(node, 0, None)),
        "ptrace": lambda: _call("ptrace", _PTRACE_PEEKDATA, node, 0, 0),
        "process_vm_readv": lambda: _call("process_vm_readv", node, 0, 0, 0, 0, 0),
        "process_vm_writev": lambda: _call("process_vm_writev", node, 0, 0, 0, 0, 0),
        "process_madvise": lambda: _call("process_madvise", -1, 0, 0, 0, 0),
        "pidfd_open": lambda: _call("pidfd_open", node, 0),
        "pidfd_getfd": lambda: _call("pidfd_getfd", -1, 0, 0),
        "pidfd_send_signal": lambda: _call("pidfd_send_signal", -1, 0, 0, 0),
        "the node's limits": lambda: resource.prlimit(node or os.getpid(), resource.RLIMIT_NOFILE),
        "the node's processors": lambda: os.sched_setaffinity(node, os.sched_getaffinity(node)),
        "the node's priority": lambda: os.setpriority(os.PRIO_PROCESS, node, os.getpriority(os.PRIO_PROCESS, node)),
    }


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def _kernel() -> dict[str, Try]:
    found: dict[str, Try] = {
        "io_uring": lambda: _call("io_uring_setup", 1, ctypes.create_string_buffer(120)),
        "bpf": lambda: _call("bpf", 0, 0, 0),
        "perf_event_open": lambda: _call("perf_event_open", 0, 0, -1, -1, 0),
        "userfaultfd": lambda: _call("userfaultfd", 0),
        "keyctl": lambda: _call("keyctl", 0, 0, 0, 0, 0),
        "open_tree": lambda: _call("open_tree", -100, ctypes.c_char_p(b"/"), 0),
        "memfd_secret": lambda: _call("memfd_secret", 0),
        "another Landlock": lambda: _call("landlock_create_ruleset", 0, 0, 1),
        "unshare": lambda: _call("unshare", 0x10000000),
        "setns": lambda: _call("setns", -1, 0),
    }
    if _COLUMN == 0:
        found["x32"] = lambda: _raw(_X32_GETPID)
    return found


def _itself() -> dict[str, Try]:
    def executable(protection: int) -> Try:
        def attempt() -> None:
            page = _libc.mmap(None, ctypes.c_size_t(4096), protection, 0x22, -1, ctypes.c_long(0))
            _checked(-1 if page == ctypes.c_void_p(-1).value else 0)

        return attempt

    def made_executable() -> None:
        page = mmap.mmap(-1, 4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        _checked(_libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(4096), 5))

    def raised() -> None:
        try:
            resource.setrlimit(resource.RLIMIT_AS, resource.getrlimit(resource.RLIMIT_AS))
        except ValueError as error:  # Python's word for EPERM here
            raise OSError(errno.EPERM, "refused") from error

    return {
        "writable code": executable(7),
        "anonymous code": executable(5),
        "memory made executable": made_executable,
        "raise a limit": raised,
        "prctl": lambda: _checked(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)),
        "setuid": lambda: os.setuid(os.getuid()),
        "setsid": lambda: os.setsid(),
        "chroot": lambda: os.chroot("/"),
        "personality": lambda: _call("personality", 0xFFFFFFFF),
    }
