"""Finds the local file that a name in a list means. The list may come from another machine, system or time."""

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from tonearm.core.library import AUDIO_ENDINGS, natural_order
from tonearm.sources.local_file import FileOpener

_DRIVE: Final = re.compile(r"[A-Za-z]:(?=[\\/]|[^\\/]*[^\\/:]$)", re.ASCII)
_LINK: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+://", re.ASCII | re.IGNORECASE)
_FILE_SCHEME: Final = re.compile(r"file:(?://[^/]*)?(?=/)", re.ASCII | re.IGNORECASE)
# An absolute name is looked for beside the list, too, with so many of its last folders.
_MOST_FOLDERS: Final = 8
# A file of such an ending may have been encoded anew.
_REPLACED_ENDINGS: Final = (*AUDIO_ENDINGS, ".ape", ".bin", ".mpc", ".shn", ".tak", ".tta")
# Of a list, so many folders are listed at most, to find names in other case or with other endings.
_MOST_LISTED: Final = 64
# How often a list has the disk asked whether something is there: lists of 500 entries need some thousands.
_MOST_QUESTIONS: Final = 30_000


def is_of_drive(reference: str) -> bool:
    """Whether it is a path on a drive of Windows, as `C:\\Music\\x.mp3`."""
    return _DRIVE.match(reference) is not None


def spellings(reference: str, *, is_uri: bool = False) -> Iterator[str]:
    """The paths that a name in a list may mean, the likely ones first. `is_uri`: a relative one is percent-encoded.

    As written; decoded; with Windows' slashes turned; without the drive; and without folders, one after the other.
    """
    scheme = _FILE_SCHEME.match(reference)
    written = reference if scheme is None else reference[scheme.end() :]
    decoded = unquote(written, errors="surrogateescape")
    first, second = (decoded, written) if is_uri or scheme is not None else (written, decoded)
    turned = decoded.replace("\\", "/")
    yield from dict.fromkeys((first, second, written.replace("\\", "/"), turned))
    bare = re.sub(r"^/?[A-Za-z]:", "", turned)
    parts = [part for part in bare.split("/") if part not in ("", ".", "..")]
    for kept in range(min(len(parts), _MOST_FOLDERS + 1), 0, -1):
        yield "/".join(parts[-kept:])


class LocalNames:
    """Finds the files that the names in the list at the path `playlist` mean.

    It blocks while it asks the disk, and sees only what `files` may read.
    """

    def __init__(self, files: FileOpener, playlist: str) -> None:
        self._files = files
        self._folder = posixpath.dirname(playlist)
        self._own_stem = posixpath.splitext(posixpath.basename(playlist))[0]
        self._questions_left = _MOST_QUESTIONS
        self._found: dict[tuple[str, bool, bool], str | None] = {}
        # The names in a folder by how they are compared, whole and without an ending of audio.
        self._names: dict[str, tuple[dict[str, str], dict[str, str]]] = {}

    def find(self, reference: str, *, is_uri: bool = False, or_own: bool = False) -> str | None:
        """The path of the file or folder that is meant; None when there is none.

        As it is written, decoded, with slashes turned, without drive and folders; then so in other case; then with
        another ending of audio. `or_own`: else it may be the file that is called as the list is.
        """
        key = (reference, is_uri, or_own)
        if _LINK.match(reference):
            return None
        if key not in self._found:
            self._found[key] = self._find(*key)
        return self._found[key]

    def _find(self, reference: str, is_uri: bool, or_own: bool) -> str | None:
        paths = [posixpath.join(self._folder, spelling) for spelling in spellings(reference, is_uri=is_uri) if spelling]
        for path in paths:
            if self._has(path):
                return path
        if or_own:
            paths.append(posixpath.join(self._folder, self._own_stem + ".wav"))
        for takes_other_ending in (False, True):
            for path in paths:
                found = self._alike(posixpath.normpath(path), takes_other_ending=takes_other_ending)
                if found is not None and self._has(found):
                    return found
        return None

    def _alike(self, path: str, *, takes_other_ending: bool) -> str | None:
        """The path with the names that lie there in place of those that differ in case, or in the ending."""
        here, name = posixpath.split(path)
        missing: list[str] = []
        while here not in self._names and not self._has(here):
            here, folder = posixpath.split(here)
            missing.append(folder)
        for folder in reversed(missing):
            known = self._names_in(here)[0].get(_folded(folder))
            if known is None:
                return None
            here = posixpath.join(here, known)
        whole, stems = self._names_in(here)
        stem, ending = posixpath.splitext(name)
        if not takes_other_ending:
            known = whole.get(_folded(name))
        else:
            known = stems.get(_folded(stem)) if ending.lower() in _REPLACED_ENDINGS else None
        return None if known is None else posixpath.join(here, known)

    def _has(self, path: str) -> bool:
        """Whether it is there, or is the root. Once the disk was asked too often, nothing is."""
        self._questions_left -= 1
        return path in ("", "/") or (self._questions_left > 0 and self._files.has(path))

    def _names_in(self, folder: str) -> tuple[dict[str, str], dict[str, str]]:
        if folder not in self._names:
            if len(self._names) >= _MOST_LISTED:
                return {}, {}
            whole: dict[str, str] = {}
            stems: dict[str, str] = {}
            for name in sorted(self._files.names_in(folder), key=natural_order):
                whole.setdefault(_folded(name), name)
                stem, ending = os.path.splitext(name)
                if ending.lower() in AUDIO_ENDINGS:
                    stems.setdefault(_folded(stem), name)
            self._names[folder] = whole, stems
        return self._names[folder]


def _folded(name: str) -> str:
    """Equal for names that differ in case, or in how their accents are written, which macOS takes apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
