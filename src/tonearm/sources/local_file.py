"""Opening local files by descriptor, within the folders that the configuration permits."""

import functools
import os
import stat
from collections.abc import Sequence
from typing import Final

from tonearm.core.byte_source import LocalFile
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.sources.detached_threads import DetachedThreads

_SYSTEM_FOLDERS: Final = ("/proc", "/sys", "/dev")
# O_PATH touches nothing: a FIFO does not wait for its writer, a device does not act on being opened.
_LOOK_FLAGS: Final = os.O_PATH | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_OPENING_AT_MOST: Final = 32
_ALLOW_HINT: Final = "To allow it add its folder to sources.files."


class FileRefusedError(Exception):
    """A path that `sources.files` does not permit. `message` names the key."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class FileOpener:
    """Opens regular files.

    `permitted` is True for all files, False for none, or the folders in which, and below which, files may be
    opened. Outside of these folders a missing file and a forbidden one get the same answer.
    """

    def __init__(self, permitted: bool | Sequence[str]) -> None:
        self._permitted = permitted if isinstance(permitted, bool) else True
        self._threads = DetachedThreads(_OPENING_AT_MOST)
        # As written and as resolved: a root may itself be reached by a symbolic link.
        self._roots: tuple[str, ...] | None = None
        self._real_roots: tuple[str, ...] = ()
        if not isinstance(permitted, bool):
            self._roots = tuple(os.path.abspath(root) for root in permitted)
            self._real_roots = tuple(os.path.realpath(root) for root in permitted)

    def check(self, path: str) -> None:
        """Raises `FileRefusedError` for what the path's text alone forbids; touches no disk."""
        if not self._permitted:
            raise FileRefusedError("Local files are not allowed on this node (sources.files).")
        text = os.path.abspath(path)
        if _is_below(text, _SYSTEM_FOLDERS):
            raise FileRefusedError("Files of the system's own folders cannot be played.")
        if self._roots is not None and not _is_below(text, (*self._roots, *self._real_roots)):
            raise FileRefusedError("The file is outside of the folders that this node may read (sources.files).")

    async def open(self, path: str) -> LocalFile:
        """Opens `path` in a thread, so that a slow disk holds nobody else. Raises `PlayError`."""
        try:
            self.check(path)
        except FileRefusedError as error:
            raise _refused(error.message) from error
        return await self._threads.run(
            functools.partial(self._open_now, path), discard=lambda file: os.close(file.descriptor)
        )

    def _open_now(self, path: str) -> LocalFile:
        try:
            looked = os.open(path, _LOOK_FLAGS)
        except (OSError, ValueError) as error:
            if not self._is_inside(os.path.realpath(path)):
                raise self._outside() from error
            raise _not_opened(error) from error
        try:
            handle = f"/proc/self/fd/{looked}"
            # The descriptor is judged, not the path, which may mean something else by now.
            if not self._is_inside(os.readlink(handle)):
                raise self._outside()
            facts = os.fstat(looked)
            if not stat.S_ISREG(facts.st_mode):
                raise _unreadable("That is no regular file.", "Give the path of an audio file.")
            if facts.st_size == 0:
                failure = PlayFailure(FailureCode.EMPTY, Stage.CONNECT, "The file is empty.", "Check the file.")
                raise PlayError(failure)
            try:
                descriptor = os.open(handle, _READ_FLAGS)
            except OSError as error:
                raise _not_opened(error) from error
            return LocalFile(descriptor, facts.st_size, os.path.basename(path))
        finally:
            os.close(looked)

    def _is_inside(self, real_path: str) -> bool:
        if _is_below(real_path, _SYSTEM_FOLDERS):
            return False
        return self._roots is None or _is_below(real_path, self._real_roots)

    def _outside(self) -> PlayError:
        if self._roots is None:
            return _refused("Files of the system's own folders cannot be played.")
        return _refused("The file is outside of the folders that this node may read (sources.files).")


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _refused(message: str) -> PlayError:
    return PlayError(PlayFailure(FailureCode.SOURCE_REFUSED, Stage.CONNECT, message, _ALLOW_HINT))


def _unreadable(message: str, hint: str) -> PlayError:
    return PlayError(PlayFailure(FailureCode.FILE_UNREADABLE, Stage.CONNECT, message, hint))


def _not_opened(error: OSError | ValueError) -> PlayError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        failure = PlayFailure(
            FailureCode.FILE_MISSING, Stage.CONNECT, "There is no such file.", "Check the path, seen from the node."
        )
        return PlayError(failure)
    if isinstance(error, PermissionError):
        return _unreadable("The node may not read the file.", "Give the node's user the right to read it.")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _unreadable(f"The file cannot be opened: {reason}.", "Check the path, seen from the node.")
