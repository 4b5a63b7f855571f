"""The library: folders of the node's machine from which clients choose music, and one folder for their uploads.

A path of the library has the number of a folder, then names: `/0/Jazz/song.flac`. It contains no path of the machine.
"""

import heapq
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

from tonearm.core.errors import BadRequest, LibraryFileNotFound
from tonearm.core.printable import printable
from tonearm.core.source_uri import MAX_URI_CHARACTERS, is_playable_name

AUDIO_ENDINGS: Final = (
    *(".aac", ".ac3", ".aif", ".aifc", ".aiff", ".au", ".caf", ".eac3", ".flac", ".m4a", ".m4b", ".mka", ".mp2"),
    *(".mp3", ".mp4", ".mpga", ".oga", ".ogg", ".opus", ".snd", ".w64", ".wav", ".wave", ".weba", ".webm", ".wma"),
    ".wv",
)
# Only endings that nearly always mean a playlist: `.xml` is mostly something else.
_PLAYLIST_ENDINGS: Final = (".m3u", ".m3u8", ".pls", ".xspf", ".asx", ".cue")

Kind: TypeAlias = Literal["folder", "audio", "playlist"]

_DIGITS: Final = re.compile(r"([0-9]+)")
_FOLDER: Final = re.compile(r"/(0|[1-9][0-9]{0,3})((?:/[^/]+)*)/?", re.ASCII | re.DOTALL)
_FOLDERS_IN_NAMES: Final = re.compile(r"[/\\]")
MAX_NAME_BYTES: Final = 255  # of the usual file systems
_SORTED_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class LibrarySettings:
    """`folders` and `uploads` are paths of the machine; without `uploads` no file can be sent. A sent file has at most
    `upload_max_bytes`, and all sent files together have at most `uploads_max_bytes`."""

    folders: tuple[str, ...] = ()
    uploads: str = ""
    upload_max_bytes: int = 200 * 1024 * 1024
    uploads_max_bytes: int = 10 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """A file or folder of the library. `uri` is the URI for a player; `size_bytes` is 0 for a folder; `modified_ms`
    counts from 1970."""

    name: str
    path: str
    uri: str
    kind: Kind
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class LibraryListing:
    """A part of the `total` entries at `path`, or of the search results below it. `parent` is the path of the parent
    folder; None for the library as a whole."""

    path: str
    parent: str | None
    total: int
    entries: tuple[LibraryEntry, ...]


class Place(NamedTuple):
    """A parsed path of the library: the number of a folder, and names below it."""

    folder: int
    names: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return "/".join(("", str(self.folder), *self.names))

    @property
    def parent(self) -> str:
        return Place(self.folder, self.names[:-1]).path if self.names else "/"

    def below(self, name: str) -> "Place":
        return Place(self.folder, (*self.names, name))


def place_of(path: str) -> Place | None:
    """Parses a path; None for the library as a whole. Raises `LibraryFileNotFound`, also for hidden names and for
    `..`."""
    if path in ("", "/"):
        return None
    found = _FOLDER.fullmatch(path)
    names = () if found is None else tuple(found[2].split("/")[1:])
    if found is None or not all(map(is_shown_name, names)):
        raise nothing_there()
    return Place(int(found[1]), names)


def nothing_there() -> LibraryFileNotFound:
    return LibraryFileNotFound("There is no such file or folder in the library. GET /v0/files names the folders.")


def is_shown_name(name: str) -> bool:
    """Whether a file or folder of this name is shown: it is not hidden, and its name can stand in a URI."""
    return bool(name) and not name.startswith(".") and is_playable_name(name)


def kind_of_file(name: str) -> Kind | None:
    """The kind by the name's ending; None for a file that is not shown."""
    ending = name.lower()
    if ending.endswith(AUDIO_ENDINGS):
        return "audio"
    return "playlist" if ending.endswith(_PLAYLIST_ENDINGS) else None


def natural_order(name: str) -> tuple[list[str | int], str]:
    """A sort key: `2 b` comes before `10 a`, and upper and lower case are equal."""
    return [int(part) if index % 2 else part for index, part in enumerate(_DIGITS.split(name.casefold()))], name


def in_natural_order(names: Iterable[str]) -> Iterator[str]:
    """The names, sorted in slices: sorting a hundred thousand at once would block the interpreter lock for too long."""
    rest = iter(names)
    slices: list[list[str]] = []
    while some := sorted(islice(rest, _SORTED_AT_ONCE), key=natural_order):
        slices.append(some)
    return heapq.merge(*slices, key=natural_order)


def search_words(query: str) -> tuple[str, ...]:
    """The words of a search, as `search_text` writes them. Raises `BadRequest` for too many characters."""
    if len(query) > MAX_URI_CHARACTERS:
        raise BadRequest(f"The parameter `query` must have at most {MAX_URI_CHARACTERS} characters.")
    return tuple(search_text(query).split())


def search_text(text: str) -> str:
    """`text` without differences that a search ignores: case, width, and the composition of accents."""
    return unicodedata.normalize("NFKC", text).casefold()


def sent_name(given: str) -> str:
    """The name of an uploaded file, made from the name that its sender gives. Raises `BadRequest`."""
    name = printable(_FOLDERS_IN_NAMES.split(given)[-1]).strip().lstrip(".").lstrip()
    stem, _, _ = name.rpartition(".")
    if not stem.strip() or kind_of_file(name) != "audio":
        raise BadRequest(
            "The parameter `name` must be the name of an audio file, with its extension: "
            + ", ".join(AUDIO_ENDINGS)
            + "."
        )
    return numbered_name(name, 1)


def numbered_name(name: str, number: int) -> str:
    """`name` for the first file of this name, and `name (2)` with the same ending for the second; at most
    `MAX_NAME_BYTES` long."""
    stem, _, ending = name.rpartition(".")
    tail = f" ({number}).{ending}" if number > 1 else f".{ending}"
    kept = stem.encode()[: MAX_NAME_BYTES - len(tail)]
    return kept.decode(errors="ignore") + tail
