"""Files that clients send into the library. A file is hidden until it is complete and checked, then it is renamed."""

import contextlib
import errno
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Final, TypeVar

from tonearm.core.errors import DiskFull, LimitReached, UploadsOff
from tonearm.core.library import numbered_name
from tonearm.sources.detached_threads import DetachedThreads
from tonearm.sources.local_file import spelled_on_disk

T = TypeVar("T")

_MOST_AT_ONCE: Final = 16
_HIDDEN: Final = ".tonearm-"  # prefix of the names of incomplete files
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE: Final = 0o644
_LEFT_BEHIND_S: Final = 600.0  # a hidden file not written to for this long is assumed to be of a killed node
_WRITTEN_AT_ONCE: Final = 256 * 1024
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})  # as FAT


class Uploads:
    """The files in `folder`. Complete files and files that are being sent may take `max_bytes` in all."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        self._folder = spelled_on_disk(os.path.abspath(folder))
        self._max_bytes = max_bytes
        self._taken_bytes = 0
        self._sending = 0
        self._threads = DetachedThreads(_MOST_AT_ONCE)

    def path_of(self, name: str) -> str:
        return os.path.join(self._folder, name)

    @contextlib.asynccontextmanager
    async def sending(self, name: str, announced_bytes: int) -> AsyncIterator["SentFile"]:
        """A file of this name that is being sent. The file is deleted at the end unless it was kept.

        Raises `LimitReached`, `DiskFull`, and `UploadsOff` when nothing can be written there.
        """
        if not self._sending:  # others may have put files there, or taken some away
            self._taken_bytes = await self.run(self._look_through)
        if self._taken_bytes + announced_bytes > self._max_bytes:
            raise self._too_many()
        self._sending += 1
        try:
            file = SentFile(self, name)
            await self.run(file.create)
            try:
                yield file
            finally:
                if not file.is_kept:
                    self._taken_bytes -= file.size_bytes
                await self.run(file.discard)
        finally:
            self._sending -= 1

    def take(self, count: int) -> None:
        """Counts bytes that have arrived. Raises `LimitReached`."""
        self._taken_bytes += count
        if self._taken_bytes > self._max_bytes:
            raise self._too_many()

    async def run(self, call: Callable[[], T]) -> T:
        """Runs `call`, which accesses the disk, in a thread. Raises `DiskFull` or `UploadsOff` for an `OSError`."""
        try:
            return await self._threads.run(call)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise DiskFull("The node's disk is full, or takes no file of this size. Delete some files.") from error
            raise UploadsOff(
                f"The node cannot write into the folder of library.uploads: {error.strerror}. Correct its "
                "permissions, or set another folder."
            ) from error

    def _look_through(self) -> int:
        """Deletes incomplete files of killed nodes, and returns how many bytes the other files take."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder)
        total = 0
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it is gone meanwhile
                    facts = entry.stat(follow_symlinks=False)
                    is_left = entry.name.startswith(_HIDDEN) and time.time() - facts.st_mtime > _LEFT_BEHIND_S
                    if is_left:
                        os.unlink(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        total += facts.st_size
        return total

    def _too_many(self) -> LimitReached:
        return LimitReached(
            f"Uploaded files may take {self._max_bytes} bytes in all (library.uploads_max_bytes). Delete some files."
        )


class SentFile:
    """A file that is being sent. `path` is its path until it is kept; `size_bytes` have arrived so far."""

    def __init__(self, uploads: Uploads, name: str) -> None:
        self._uploads = uploads
        self._name = name
        self._descriptor: int | None = None
        self._waiting = bytearray()
        self.path = uploads.path_of(f"{_HIDDEN}{secrets.token_hex(8)}.{name.rpartition('.')[2]}")
        self.size_bytes = 0
        self.is_kept = False

    def create(self) -> None:
        self._descriptor = os.open(self.path, _FLAGS, _MODE)

    async def write(self, data: bytes) -> None:
        """Raises `LimitReached`, `DiskFull` and `UploadsOff`."""
        self.size_bytes += len(data)
        self._uploads.take(len(data))
        self._waiting += data
        if len(self._waiting) >= _WRITTEN_AT_ONCE:
            await self._write_waiting()

    async def finish(self) -> None:
        """Makes sure that all written bytes are on the disk. Raises as `write`."""
        await self._write_waiting()
        await self._uploads.run(self._sync)

    async def keep(self) -> str:
        """Gives the file its name, with a number when the name is taken. Returns the path."""
        path = await self._uploads.run(self._give_name)
        self.is_kept = True
        return path

    def discard(self) -> None:
        """Closes the file, and deletes it unless it was kept."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    async def _write_waiting(self) -> None:
        data, self._waiting = bytes(self._waiting), bytearray()
        await self._uploads.run(partial(self._write_all, data))

    def _write_all(self, data: bytes) -> None:
        assert self._descriptor is not None, "it was created"
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def _sync(self) -> None:
        assert self._descriptor is not None, "it was created"
        os.fsync(self._descriptor)

    def _give_name(self) -> str:
        for path in self._names():
            try:
                os.link(self.path, path, follow_symlinks=False)
            except FileExistsError:
                continue
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if os.path.lexists(path):
                    continue
                os.rename(self.path, path)
            return path
        raise AssertionError

    def _names(self) -> Iterator[str]:
        number = 1
        while True:
            yield self._uploads.path_of(numbered_name(self._name, number))
            number += 1
