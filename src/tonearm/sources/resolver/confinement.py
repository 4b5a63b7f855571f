"""How a resolving process confines itself, before it reads anything from outside.

Pages decide what an extractor does. Whatever they make it do, it has no network, starts no program and fills no disk:
the node makes its requests, which it asks for over a pipe. The first line of defence is an audit hook, which cannot be
removed and sees each way of Python code to do these things. The second line is the kernel's, for any code (`sandbox`).
"""

import contextlib
import importlib
import mimetypes
import os
import resource
import sys
import sysconfig
import threading
import time
from collections.abc import Container
from pathlib import Path
from typing import Final

from tonearm.sandbox.confine import limit_memory, try_confinement
from tonearm.sandbox.report import SandboxMode, SandboxReport
from tonearm.sandbox.rules import resolver_rules

_TONEARM: Final = Path(__file__).parents[2]
# Extension modules that need libraries of the system, and what reads the system's settings when it is imported.
_IMPORTED_EARLY: Final = (
    "_bz2", "_ctypes", "_decimal", "_elementtree", "_hashlib", "_lzma", "_quickjs", "_sqlite3", "_ssl", "_uuid",
    "_zoneinfo", "encodings.idna", "pwd", "pyexpat", "sqlite3", "stringprep", "unicodedata", "zlib",
)  # fmt: skip
_PYTHON_FOLDERS: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_OPEN_FILES_AT_MOST: Final = 64
_STARTS_PROGRAMS: Final = frozenset(
    {
        "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn",
    }
)  # fmt: skip
_REACHES_OUT: Final = frozenset(
    {
        "socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.getnameinfo",
        "socket.gethostbyname", "socket.gethostbyaddr",
    }
)  # fmt: skip


def audit(event: str, _: object) -> None:
    """`sys.addaudithook(audit)`. Raises `PermissionError` for what is denied, as the system would."""
    if event in _REACHES_OUT:
        raise PermissionError(f"a resolving process must not use {event}")
    if event in _STARTS_PROGRAMS:
        raise PermissionError("a resolving process must not start programs")


def limit_resources(memory_limit_mb: int) -> None:
    """Limits the address space and the number of open files, and the size of written files to 0."""
    limit_memory(memory_limit_mb * 1024 * 1024)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES_AT_MOST, _OPEN_FILES_AT_MOST))


def close_descriptors(own: Container[int]) -> None:
    """Closes all descriptors but `own`: a process may inherit descriptors that the node had open at its start."""
    try:
        opened = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        opened = list(range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    for descriptor in opened:
        if descriptor not in own:
            with contextlib.suppress(OSError):  # the descriptor of the listing is closed already
                os.close(descriptor)


def confine_resolver(mode: SandboxMode) -> SandboxReport:
    """Puts this process into its sandbox, after loading the modules and libraries that it could not load there."""
    if mode is not SandboxMode.OFF:
        _warm_up()
    return try_confinement(mode, resolver_rules, _exercise, readable_paths()).enter()


def readable_paths() -> tuple[Path, ...]:
    """The folders and files of Python and of its installed packages."""
    installed = sysconfig.get_paths()
    python = (*sys.path, *(installed[name] for name in _PYTHON_FOLDERS), str(_TONEARM))
    wanted = dict.fromkeys(Path(path) for path in python if path)
    return tuple(path for path in wanted if path.is_absolute() and path.exists() and path != Path(path.anchor))


def _warm_up() -> None:
    for name in _IMPORTED_EARLY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    mimetypes.init()
    time.localtime()
    thread = threading.Thread(target=time.time)  # libc loads a library when a thread ends
    thread.start()
    thread.join()


def _exercise() -> None:
    """Reads a file of Python's library, as imports of extractors do. Raises `OSError` when the sandbox denies it."""
    with open(os.__file__, "rb") as file:
        file.read(1)
