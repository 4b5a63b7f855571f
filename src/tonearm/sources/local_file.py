"""Local files: opened by descriptor, within the folders that the configuration permits."""

import contextlib
import errno
import functools
import os
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar

from tonearm.core.errors import SourceRefused
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.opened_source import OpenedSource, SourceReader
from tonearm.core.printable import readable
from tonearm.core.source_uri import SourceUri, hint_for_link
from tonearm.sources.detached_threads import DetachedThreads

SYSTEM_FOLDERS: Final = ("/proc", "/sys", "/dev")
# O_PATH touches nothing: a FIFO does not wait for its writer, a device does not act on being opened.
_PATH_FLAGS: Final = os.O_PATH | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_MAX_NAMES: Final = 100_000  # names read per folder; further names are ignored
_MAX_OPENING: Final = 32
_MAX_READING: Final = 32
_OF_THE_SYSTEM: Final = "Files of the system's own folders cannot be played."
_OUTSIDE: Final = "The file is outside the folders that this node may read (sources.files)."
_ALLOW_HINT: Final = "Add the file's folder to sources.files."
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
OUT_OF_DESCRIPTORS_HINT: Final = (
    "The node has reached the system's limit of open files and connections; raise the limit (ulimit -n)."
)


T = TypeVar("T")


class IsFolderError(PlayError):
    """The path leads to a folder. `names` are the names of up to 100 000 of its entries, in no order."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(
            PlayFailure(FailureCode.FILE_UNREADABLE, Stage.CONNECT, "The path is a folder.", "Give the path of a file.")
        )
        self.names = tuple(names)


class FileOpener:
    """Opens regular files.

    `permitted` is True for all files, False for none, or the folders in and below which files may be opened. Outside
    of these folders a missing file and a forbidden one get the same answer.
    """

    def __init__(self, permitted: bool | Sequence[str]) -> None:
        self._permitted = permitted if isinstance(permitted, bool) else True
        self._opening_threads = DetachedThreads(_MAX_OPENING)
        self._reading_threads = DetachedThreads(_MAX_READING)
        # As written and as resolved: a permitted folder may itself be reached by a symbolic link.
        self._roots: tuple[str, ...] | None = None
        self._real_roots: tuple[str, ...] = ()
        if not isinstance(permitted, bool):
            roots = [os.path.abspath(root) for root in permitted]
            found = [spelled_on_disk(root) for root in roots]
            self._roots = (*roots, *found)
            self._real_roots = tuple(map(os.path.realpath, found))

    def check(self, path: str) -> None:
        """Raises `SourceRefused` when the text of the path is refused. Touches no disk."""
        if not self._permitted:
            raise SourceRefused("Local files are not allowed on this node (sources.files).")
        text = os.path.abspath(path)
        if is_below(text, SYSTEM_FOLDERS):
            raise SourceRefused(_OF_THE_SYSTEM)
        if self._roots is not None and not is_below(text, (*self._roots, *self._real_roots)):
            raise SourceRefused(_OUTSIDE)

    async def open(self, uri: SourceUri) -> OpenedSource:
        """Opens the file in a thread, so that a slow disk delays only this source.

        Raises `PlayError`; for a folder that may be read, the subclass `IsFolderError`.
        """
        assert uri.is_admitted, "policy was not asked"
        try:
            self.check(uri.path)
            descriptor, size_bytes = await self._opening_threads.run(
                functools.partial(self._open_now, uri.path), discard=lambda opened: os.close(opened[0])
            )
        except SourceRefused as error:
            raise _refused(error.message) from error
        except OSError as error:
            raise _not_opened(error) from error
        except PlayError as error:
            if error.failure.code is not FailureCode.FILE_MISSING:
                raise
            folder = readable(os.path.dirname(uri.path))
            hint = f"Check the path; the node looks for it in {folder}.{hint_for_link(uri.given)}"
            raise PlayError(replace(error.failure, hint=hint)) from error
        reader = FileReader(descriptor, self._reading_threads)
        return OpenedSource(
            uri=uri,
            reader=reader,
            name=readable(os.path.basename(uri.path)),
            size_bytes=size_bytes,
            is_seekable=True,
        )

    async def run(self, call: Callable[[], T]) -> T:
        """Runs `call`, which accesses the disk, in a thread. Raises `PlayError` for an `OSError`, and any other
        exception of `call`."""
        try:
            return await self._opening_threads.run(call)
        except OSError as error:
            raise _not_opened(error) from error

    def has(self, path: str) -> bool:
        """Whether a file or folder exists at the path and lies where the node may read. Blocks."""
        try:
            self.check(path)
            found = os.open(path, _PATH_FLAGS)
        except (SourceRefused, OSError, ValueError):
            return False
        try:
            return self._is_inside(os.readlink(f"/proc/self/fd/{found}"))
        finally:
            os.close(found)

    def as_on_disk(self, path: str) -> str:
        """`spelled_on_disk` of the path; the path itself when the node may not read what is there. Blocks."""
        try:
            self.check(path)
        except SourceRefused:
            return path
        found = spelled_on_disk(path)
        return found if found == path or self.has(found) else path

    def names_in(self, folder: str) -> tuple[str, ...]:
        """The names of a folder's entries, in no order; empty for a folder that may not be read. Blocks."""
        try:
            self.check(folder)
            descriptor, _ = self._open_now(folder)
        except IsFolderError as found:
            return found.names
        except (SourceRefused, PlayError):
            return ()
        os.close(descriptor)  # of a file
        return ()

    def _open_now(self, path: str) -> tuple[int, int]:
        """The descriptor, and the size in bytes. Raises `PlayError`."""
        try:
            found = os.open(path, _PATH_FLAGS)
        except (OSError, ValueError) as error:
            if not self._is_inside(os.path.realpath(path)):
                raise self._outside() from error
            raise _not_opened(error) from error
        try:
            handle = f"/proc/self/fd/{found}"
            # The descriptor is checked: the path may mean another file by now.
            if not self._is_inside(os.readlink(handle)):
                raise self._outside()
            facts = os.fstat(found)
            if stat.S_ISDIR(facts.st_mode):
                try:
                    with os.scandir(handle) as entries:
                        raise IsFolderError(entry.name for entry in islice(entries, _MAX_NAMES))
                except OSError as error:
                    raise _not_opened(error) from error
            if not stat.S_ISREG(facts.st_mode):
                raise _unreadable("The path is not a regular file.", "Give the path of an audio file.")
            if facts.st_size == 0:
                raise PlayError.of(FailureCode.EMPTY, Stage.CONNECT, "The file is empty.", "Check the file.")
            try:
                return os.open(handle, _READ_FLAGS), facts.st_size
            except OSError as error:
                raise _not_opened(error) from error
        finally:
            os.close(found)

    def _is_inside(self, real_path: str) -> bool:
        if is_below(real_path, SYSTEM_FOLDERS):
            return False
        return self._roots is None or is_below(real_path, self._real_roots)

    def _outside(self) -> PlayError:
        return _refused(_OF_THE_SYSTEM if self._roots is None else _OUTSIDE)


class FileReader(SourceReader):
    """Owns the descriptor of an opened file, and reads it in threads when the node itself needs the bytes."""

    def __init__(self, descriptor: int, threads: DetachedThreads) -> None:
        self._descriptor: int | None = descriptor
        self._lock = threading.Lock()  # taken only for the duration of a `dup` or `close`
        self._threads = threads

    def take_descriptor(self) -> int | None:
        with self._lock:
            if self._descriptor is None:
                return None
            with contextlib.suppress(OSError):
                return os.dup(self._descriptor)
            # No descriptor is free: this one can be given away only once.
            descriptor, self._descriptor = self._descriptor, None
            return descriptor

    @property
    def is_given_away(self) -> bool:
        return self._descriptor is None

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        try:
            return await self._threads.run(functools.partial(self._read_now, offset, max_bytes))
        except OSError as error:
            message = f"Reading the file failed: {error.strerror}."
            hint = hint_for(error, "Check the disk and the file.")
            raise PlayError.of(FailureCode.FILE_UNREADABLE, Stage.READ, message, hint) from error

    async def close(self) -> None:
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _read_now(self, offset: int, max_bytes: int) -> bytes:
        with self._lock:
            if self._descriptor is None:
                raise OSError(errno.EBADF, "it was closed")
            # The thread reads from a descriptor of its own: during the read the other descriptor may be closed, and its
            # number may get another file.
            descriptor = os.dup(self._descriptor)
        try:
            return os.pread(descriptor, max_bytes, offset)
        finally:
            os.close(descriptor)


def hint_for(error: BaseException, otherwise: str) -> str:
    """The hint about an error of the system: about descriptors when there are none left."""
    is_out_of_descriptors = isinstance(error, OSError) and error.errno in _OUT_OF_DESCRIPTORS
    return OUT_OF_DESCRIPTORS_HINT if is_out_of_descriptors else otherwise


def spelled_on_disk(path: str) -> str:
    """The absolute path with the names that are there, where the disk has their accents in the other form: macOS takes
    a letter and its accent apart. From the first name on that is not there the path stays as it is. Blocks."""
    found, names = "/", path.strip("/").split("/")
    for at, name in enumerate(names):
        forms = (name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name))
        there = (below for form in forms if os.path.lexists(below := os.path.join(found, form)))
        if (known := next(there, None)) is None:
            return os.path.join(found, *names[at:])
        found = known
    return found


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Whether `path` is one of `folders`, or lies below one of them."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _refused(message: str) -> PlayError:
    return PlayError.of(FailureCode.SOURCE_REFUSED, Stage.CONNECT, message, _ALLOW_HINT)


def _unreadable(message: str, hint: str) -> PlayError:
    return PlayError.of(FailureCode.FILE_UNREADABLE, Stage.CONNECT, message, hint)


def _not_opened(error: OSError | ValueError) -> PlayError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        message, hint = "There is no such file.", "Check the path, seen from the node."
        return PlayError.of(FailureCode.FILE_MISSING, Stage.CONNECT, message, hint)
    if isinstance(error, PermissionError):
        return _unreadable("The node may not read the file.", "Give the node's user the right to read it.")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _unreadable(f"The file cannot be opened: {reason}.", hint_for(error, "Check the path, seen from the node."))
