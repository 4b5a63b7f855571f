"""The library on the disk: which files and folders clients see.

It is read in threads, so a slow disk delays only the client that asks. Work is cut into short pieces so that the event
loop keeps running.
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from tonearm.core.errors import LibraryFileNotFound
from tonearm.core.library import (
    LibraryEntry,
    LibraryListing,
    LibrarySettings,
    Place,
    in_natural_order,
    is_shown_name,
    kind_of_file,
    nothing_there,
    place_of,
    search_text,
    search_words,
)
from tonearm.core.printable import readable
from tonearm.core.source_uri import text_of_file
from tonearm.sources.detached_threads import DetachedThreads
from tonearm.sources.local_file import SYSTEM_FOLDERS, is_below, spelled_on_disk

_MOST_AT_ONCE: Final = 16
_MOST_IN_FOLDER: Final = 200_000  # entries read per folder; further entries are ignored
_MOST_SEARCHED: Final = 20_000  # files, and folders
_FOLDER_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class _Found(NamedTuple):
    """A file or folder of the library, and where it is on the disk."""

    place: Place
    on_disk: str
    is_folder: bool


class _Names(NamedTuple):
    """The shown entries of a folder: shown names mapped to names on the disk. They differ for names that are not valid
    UTF-8."""

    folders: dict[str, str]
    files: dict[str, str]

    def let_go(self) -> None:
        """Frees the names one by one: freeing all at once would keep the interpreter's lock for some ms."""
        for names in self:
            while names:
                names.popitem()


class Library:
    """Lists and searches the `folders` of the settings."""

    def __init__(self, settings: LibrarySettings) -> None:
        self._folders = tuple(spelled_on_disk(os.path.abspath(folder)) for folder in settings.folders)
        self._threads = DetachedThreads(_MOST_AT_ONCE)

    async def listing(self, path: str, query: str, offset: int, limit: int) -> LibraryListing:
        """The content of the folder at `path`. With words in `query`, all files below it that have every word in their
        names or folders. Raises `LibraryFileNotFound`, and `BadRequest` for a query that is too long."""
        return await self._threads.run(partial(self._list_now, path, query, offset, limit))

    def _list_now(self, path: str, query: str, offset: int, limit: int) -> LibraryListing:
        place, words = place_of(path), search_words(query)
        starts = self._all_folders() if place is None else [_Found(place, self._folder_on_disk(place), is_folder=True)]
        if words:
            matching = (
                one for one in islice(self._files_below(starts), _MOST_SEARCHED) if _has_words(one.place, words)
            )
            some, total = _some_of(matching, offset, limit)
        elif place is None:
            some, total = starts[offset : offset + limit], len(starts)
        else:
            names = self._names_in(starts[0])
            total = len(names.folders) + len(names.files)
            some = [*islice(_in_order(starts[0], names), offset, offset + limit)]
            names.let_go()
        entries = tuple(filter(None, map(_entry, some)))
        parent = None if place is None else place.parent
        return LibraryListing("/" if place is None else place.path, parent, total, entries)

    def _all_folders(self) -> list[_Found]:
        return [
            _Found(Place(number), folder, is_folder=True)
            for number, folder in enumerate(self._folders)
            if os.path.isdir(folder)
        ]

    def _folder_on_disk(self, place: Place) -> str:
        """The path of the folder `place` on the disk. Raises `LibraryFileNotFound` when no shown folder is there."""
        if place.folder >= len(self._folders):
            raise nothing_there()
        path = self._folders[place.folder]
        for name in place.names:
            below = os.path.join(path, name)
            if not os.path.lexists(below):
                below = _with_other_bytes(path, name)
            if os.path.islink(below) and not self._is_inside(os.path.realpath(below)):
                raise nothing_there()
            path = below
        if not os.path.isdir(path):
            raise nothing_there()
        return path

    def _is_inside(self, real_path: str) -> bool:
        """Whether the path is a folder of the library or lies below one, and is not hidden there."""
        for folder in map(os.path.realpath, self._folders):
            if real_path == folder:
                return True
            if real_path.startswith(folder.rstrip("/") + "/"):
                is_of_system = is_below(real_path, SYSTEM_FOLDERS) and not is_below(folder, SYSTEM_FOLDERS)
                return "/." not in real_path[len(folder.rstrip("/")) :] and not is_of_system
        return False

    def _names_in(self, folder: _Found) -> "_Names":
        """The shown entries of a folder. Raises `LibraryFileNotFound`."""
        names = _Names({}, {})
        try:
            with self._opened(folder.on_disk) as handle, os.scandir(handle) as entries:
                is_top = os.readlink(handle) == "/"
                for entry in islice(entries, _MOST_IN_FOLDER):
                    name = readable(entry.name)
                    if is_shown_name(name) and not (is_top and f"/{name}" in SYSTEM_FOLDERS):
                        is_folder = self._is_folder(entry)
                        if is_folder:
                            names.folders[name] = entry.name
                        elif is_folder is False and kind_of_file(name):
                            names.files[name] = entry.name
        except OSError as error:
            raise nothing_there() from error
        return names

    def _is_folder(self, entry: "os.DirEntry[str]") -> bool | None:
        """Whether the entry is a folder. None when the entry is neither a folder nor a file, or links out of the
        library."""
        try:
            if entry.is_symlink() and not self._is_inside(os.path.realpath(entry.path)):
                return None
            return True if entry.is_dir() else False if entry.is_file() else None
        except OSError:  # a loop of links
            return None

    @contextlib.contextmanager
    def _opened(self, folder: str) -> Iterator[str]:
        """A path that leads to the opened folder even if `folder` is replaced. Raises `OSError` for a folder outside
        the library."""
        descriptor = os.open(folder, _FOLDER_FLAGS)
        try:
            handle = f"/proc/self/fd/{descriptor}"
            if not self._is_inside(os.readlink(handle)):
                raise OSError(errno.ENOENT, "it is not in the library")
            yield handle
        finally:
            os.close(descriptor)

    def _files_below(self, starts: Sequence[_Found]) -> Iterator[_Found]:
        """Every file once in `_MOST_SEARCHED` folders, in the order of a walk through them."""
        waiting, known = [*reversed(starts)], set[tuple[int, int]]()
        while waiting and len(known) < _MOST_SEARCHED:
            folder = waiting.pop()
            with contextlib.suppress(LibraryFileNotFound, OSError):
                facts = os.stat(folder.on_disk)
                if (facts.st_dev, facts.st_ino) in known:  # a link leads back to it
                    continue
                known.add((facts.st_dev, facts.st_ino))
                inner: list[_Found] = []
                names = self._names_in(folder)
                for one in _in_order(folder, names):
                    if one.is_folder:
                        inner.append(one)
                    else:
                        yield one
                names.let_go()
                links = [one for one in inner if os.path.islink(one.on_disk)]  # last: their folders may lie elsewhere
                waiting = [*reversed(links), *waiting, *(one for one in reversed(inner) if one not in links)]


def _with_other_bytes(folder: str, name: str) -> str:
    """The path of the entry that is shown as `name` because its name on the disk is not valid UTF-8. Raises
    `LibraryFileNotFound`."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.isascii() and readable(entry.name) == name:
                return os.path.join(folder, entry.name)
    raise nothing_there()


def _in_order(folder: _Found, names: _Names) -> Iterator[_Found]:
    """The entries of a folder in natural order: first the folders, then the files."""
    for is_folder, on_disk in ((True, names.folders), (False, names.files)):
        for name in in_natural_order(on_disk):
            yield _Found(folder.place.below(name), os.path.join(folder.on_disk, on_disk[name]), is_folder)


def _some_of(found: Iterable[_Found], offset: int, limit: int) -> tuple[list[_Found], int]:
    """Up to `limit` of the found entries from `offset` on, and the number of all entries."""
    some, total = [], 0
    for total, one in enumerate(found, 1):
        if offset < total <= offset + limit:
            some.append(one)
    return some, total


def _has_words(place: Place, words: Sequence[str]) -> bool:
    text = search_text("/".join(place.names))
    return all(word in text for word in words)


def _entry(found: _Found) -> LibraryEntry | None:
    """The entry as clients see it; None when the file or folder no longer exists."""
    try:
        facts = os.stat(found.on_disk)
    except OSError:
        return None
    name = found.place.names[-1] if found.place.names else os.path.basename(found.on_disk) or "/"
    kind = "folder" if found.is_folder else kind_of_file(name)
    assert kind is not None, "others are not found"
    size_bytes = 0 if found.is_folder else facts.st_size
    uri = text_of_file(found.on_disk)
    return LibraryEntry(readable(name), found.place.path, uri, kind, size_bytes, max(0, facts.st_mtime_ns // 1_000_000))
