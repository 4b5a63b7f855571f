"""What a resolving process denies itself before it looks at anything from outside.

Pages decide what an extractor does. Whatever that is: it connects to the node's proxy only, starts no program and
fills no disk. An audit hook cannot be taken away again and sees each way of Python to do these things.
"""

import resource
from typing import Final

PROXY_HOST: Final = "127.0.0.1"
_OPEN_FILES_AT_MOST: Final = 64
_STARTS_PROGRAMS: Final = frozenset(
    {
        "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn",
    }
)  # fmt: skip
_REACHES_OUT: Final = frozenset(
    {
        "socket.bind", "socket.sendto", "socket.sendmsg", "socket.gethostbyname", "socket.gethostbyaddr",
        "socket.getnameinfo",
    }
)  # fmt: skip


class Confinement:
    """The audit hook: `sys.addaudithook(Confinement())`. `proxy_port` is the one port that may be connected to."""

    def __init__(self) -> None:
        self.proxy_port: int | None = None

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        """Raises `PermissionError` for what is denied: callers know it as what the system answers, too."""
        if event == "socket.connect":
            if self.proxy_port is None or arguments[1] != (PROXY_HOST, self.proxy_port):
                raise PermissionError(f"a resolving process must not connect to {arguments[1]!r}")
        elif event == "socket.getaddrinfo":
            if arguments[0] != PROXY_HOST:
                raise PermissionError(f"a resolving process must not look up {arguments[0]!r}")
        elif event in _REACHES_OUT:
            raise PermissionError(f"a resolving process must not use {event}")
        elif event in _STARTS_PROGRAMS:
            raise PermissionError("a resolving process must not start programs")


def limit_resources(memory_limit_mb: int) -> None:
    """Bounds address space and open files; files can be written, but with nothing in them."""
    memory_bytes = memory_limit_mb * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES_AT_MOST, _OPEN_FILES_AT_MOST))
