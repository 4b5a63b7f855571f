"""M3U, PLS and XSPF: the references in a playlist, in order, as they are written."""

import re
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from tonearm.sources import playlist_errors
from tonearm.sources.playlist_text import PlaylistKind, decode, kind_of, lines_of

MAX_ENTRIES: Final = 500
_MAX_TITLE_CHARACTERS: Final = 1000
_PLS_LINE: Final = re.compile(r"(file|title)([0-9]{1,6})\s*=(.*)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Listed:
    """`is_uri`: a relative reference is percent-encoded."""

    reference: str
    title: str | None = None
    is_uri: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """The first `MAX_ENTRIES` of a playlist, and how many there are."""

    entries: tuple[Listed, ...]
    count: int


def parse_listing(data: bytes) -> Listing:
    """A playlist that is not HLS. Raises `PlayError` for XML that is damaged or declares entities."""
    text = decode(data)
    match kind_of(text):
        case PlaylistKind.PLS:
            found = _pls(text)
        case PlaylistKind.XSPF:
            found = _Xspf().read(data)
        case _:
            found = _m3u(text)
    return Listing(tuple(found[:MAX_ENTRIES]), len(found))


def _m3u(text: str) -> list[Listed]:
    found: list[Listed] = []
    title: str | None = None
    for raw_line in lines_of(text):
        line = raw_line.strip()
        if line.upper().startswith("#EXTINF:"):
            title = _extinf_title(line)
        elif line and not line.startswith("#"):
            found.append(Listed(line, title))
            title = None
    return found


def _extinf_title(line: str) -> str | None:
    """What follows the first comma that is not between quotes: lists of television stations have attributes there."""
    is_quoted = False
    for place, character in enumerate(line):
        if character == '"':
            is_quoted = not is_quoted
        elif character == "," and not is_quoted:
            return _clean(line[place + 1 :])
    return _clean(line.partition(",")[2])


def _pls(text: str) -> list[Listed]:
    files: dict[int, str] = {}
    titles: dict[int, str] = {}
    for line in lines_of(text):
        found = _PLS_LINE.fullmatch(line.strip())
        if found is not None and found[3].strip():
            (files if found[1].lower() == "file" else titles).setdefault(int(found[2]), found[3].strip())
    return [Listed(files[number], _clean(titles.get(number, ""))) for number in sorted(files)]


class _Xspf:
    """XSPF 1 (xspf.org/xspf-v1): the first location of each track. Names are taken in any namespace.

    A document type is refused, because only with one can a small document become a large one.
    """

    def __init__(self) -> None:
        self._found: list[Listed] = []
        self._path: list[str] = []
        self._location = ""
        self._title = ""

    def read(self, data: bytes) -> list[Listed]:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        try:
            parser.Parse(data.lstrip(), True)
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise playlist_errors.damaged("its XML is wrong") from error
        return self._found

    def _start(self, name: str, _attributes: object) -> None:
        self._path.append(name.rpartition(" ")[2])
        if self._path == ["playlist", "trackList", "track"]:
            self._location = self._title = ""

    def _end(self, _name: str) -> None:
        if self._path == ["playlist", "trackList", "track"] and self._location.strip():
            self._found.append(Listed(self._location.splitlines()[0].strip(), _clean(self._title), is_uri=True))
        elif self._path == ["playlist", "trackList", "track", "location"]:
            self._location = self._location.strip() + "\n"
        self._path.pop()

    def _text(self, text: str) -> None:
        if self._path == ["playlist", "trackList", "track", "location"]:
            self._location += text
        elif self._path == ["playlist", "trackList", "track", "title"]:
            self._title += text


def _refuse_doctype(*_: object) -> None:
    raise playlist_errors.damaged("it declares a document type, which playlists do not need")


def _clean(text: str) -> str | None:
    """A title fit for JSON and display; None for nothing."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    return visible.strip()[:_MAX_TITLE_CHARACTERS].strip() or None
