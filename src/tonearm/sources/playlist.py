"""Playlist files (M3U, PLS, XSPF, CUE sheets): recognised, read whole, parsed into entries, and where the entries lead.
And folders, whose audio files are a playlist in natural order.

HLS playlists are recognised, too; `sources.hls` reads them.
"""

import asyncio
import os
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote, unquote, urljoin
from xml.parsers import expat

from tonearm.core.errors import BadRequest
from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.opened_source import SourceReader, media_type
from tonearm.core.printable import printable
from tonearm.core.source_uri import CUE_ENDING, HLS_ENDING, SourceUri, has_playlist_ending, media_fragment
from tonearm.core.track_info import MAX_TITLE_CHARACTERS
from tonearm.sources.http.settings import FetchSettings

MAX_PLAYLIST_BYTES: Final = 1024 * 1024
HEAD_BYTES: Final = 1024  # enough to recognise a playlist

_READ_BYTES: Final = 64 * 1024

# Of M3U and CUE: they may be without anything at their beginning by which they could be recognised.
_HEADLESS_ENDINGS: Final = (".m3u", HLS_ENDING, CUE_ENDING)
_HEADLESS_TYPES: Final = frozenset(
    {
        "application/vnd.apple.mpegurl", "application/mpegurl", "application/x-mpegurl",
        "audio/mpegurl", "audio/x-mpegurl", "audio/x-mpequrl",
        "application/x-cue", "application/cue", "audio/x-cue",
    }
)  # fmt: skip
_OTHER_TYPES: Final = frozenset({"audio/x-scpls", "audio/scpls", "application/pls+xml", "application/xspf+xml"})
_PLAYLIST_TYPES: Final = _HEADLESS_TYPES | _OTHER_TYPES
_MEDIA_TYPES: Final = ("audio/", "video/", "application/ogg", "image/")
_UTF8_BOM: Final = b"\xef\xbb\xbf"
_NOT_IN_TEXT: Final = frozenset(range(32)) - frozenset(b"\t\r\n\x1a\x1b")

MAX_ENTRIES: Final = 500
_PLS_LINE: Final = re.compile(r"(file|title|length)([0-9]{1,6})\s*=(.*)", re.IGNORECASE | re.ASCII)

# How long an entry is, in seconds; attributes may follow.
_EXTINF_LENGTH: Final = re.compile(r"#EXTINF:[ \t]*([0-9.]+)", re.IGNORECASE | re.ASCII)
_MILLISECONDS: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{0,9})?", re.ASCII)

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_NETWORK: Final = re.compile(r"https?:", re.ASCII | re.IGNORECASE)


def may_be_playlist(name: str, content_type: str | None) -> bool:
    """Whether the content has to be read to know: a server that says audio, video or image is believed."""
    said = media_type(content_type)
    return has_playlist_ending(name) or said in _PLAYLIST_TYPES or not said.startswith(_MEDIA_TYPES)


def looks_like_playlist(head: bytes, name: str, content_type: str | None) -> bool:
    """Whether the first bytes are a playlist's. For M3U and CUE, which need no header, the name or type decides."""
    if _NOT_IN_TEXT & frozenset(head.removeprefix(_UTF8_BOM)):
        return False
    text = decode(head).lower()
    if text.startswith(("#extm3u", "[playlist]")) or (text.startswith("<") and "<playlist" in text):
        return True
    is_named = name.lower().endswith(_HEADLESS_ENDINGS) or media_type(content_type) in _HEADLESS_TYPES
    return is_named and bool(text) and not text.startswith("<")


def is_hls(text: str) -> bool:
    """Whether a playlist's text is HLS, and not the M3U that HLS is written in."""
    return text.startswith("#EXTM3U") and any(line.startswith("#EXT-X-") for line in text.splitlines())


def decode(data: bytes) -> str:
    """The text: UTF-8 with or without a byte order mark, otherwise Latin-1; without white space at its start."""
    data = data.removeprefix(_UTF8_BOM)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.lstrip()


def _lines_of(text: str) -> list[str]:
    """Splits at CR and LF only: titles may have other characters at which `splitlines` splits."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


class ByteStream(Protocol):
    """Bytes that come in order."""

    async def read(self) -> bytes:
        """The next bytes; `b""` at the end. Raises `PlayError`."""
        ...

    async def close(self) -> None:
        """Closes the body, read to its end or not. May be called more than once."""
        ...


class ReaderBody:
    """A `ByteStream` of a reader's bytes: from `start` on, `length` bytes or all, read in pieces of `read_bytes`."""

    def __init__(
        self, reader: SourceReader, start: int = 0, length: int | None = None, *, read_bytes: int = _READ_BYTES
    ) -> None:
        self._reader = reader
        self._read_bytes = read_bytes
        self._offset = start
        self._end = None if length is None else start + length

    async def read(self) -> bytes:
        max_bytes = self._read_bytes if self._end is None else min(self._read_bytes, self._end - self._offset)
        if max_bytes <= 0:
            return b""
        data = await self._reader.read_at(self._offset, max_bytes)
        self._offset += len(data)
        return data

    async def close(self) -> None:
        await self._reader.close()


async def read_playlist(body: ByteStream, settings: FetchSettings) -> bytes:
    """The rest of a playlist's bytes. Raises `PlayError`, also when there are too many or they come too slowly."""
    limit_s = settings.headers_timeout_s + settings.stall_timeout_s
    parts: list[bytes] = []
    size_bytes = 0
    try:
        async with asyncio.timeout(limit_s):
            while part := await body.read():
                parts.append(part)
                size_bytes += len(part)
                if size_bytes > MAX_PLAYLIST_BYTES:
                    raise too_large(f"it has more than {MAX_PLAYLIST_BYTES // 1024} KiB")
    except TimeoutError as error:
        message = f"The playlist did not arrive within {limit_s:g} seconds."
        hint = "Try again later, or check the server it comes from."
        raise playlist_error(FailureCode.TIMEOUT, message, hint) from error
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry as it is written. `is_uri`: a relative reference is percent-encoded. `length_ms` is 0 where the playlist
    says none.

    `is_part`: the entry is one of several parts of a file, from `start_ms` to `end_ms` (None: to its end).
    """

    reference: str
    title: str | None = None
    is_uri: bool = False
    author: str = ""
    is_part: bool = False
    start_ms: int = 0
    end_ms: int | None = None
    length_ms: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of a playlist: the first `MAX_ENTRIES`, and how many there are. `name` is empty without one."""

    entries: tuple[Listed, ...]
    count: int
    name: str = ""


def parse_listing(data: bytes) -> Listing:
    """A playlist that is not HLS. Raises `PlayError` for XML that is damaged or declares entities."""
    text = decode(data)
    name = ""
    if text[:HEAD_BYTES].lower().startswith("[playlist]"):
        found = _pls(text)
    elif text.startswith("<"):
        xspf = _Xspf()
        found, name = xspf.read(data), xspf.name
    elif _is_cue(text):
        found = _cue(text)
        named = _CUE_NAME.search(text.partition("TRACK")[0])
        name = "" if named is None else _cue_text(named[1])
    else:
        found = _m3u(text)
        named = _M3U_NAME.search(text)
        name = "" if named is None else named[1]
    return Listing(tuple(found[:MAX_ENTRIES]), len(found), _clean(name) or "")


def _m3u(text: str) -> list[Listed]:
    found: list[Listed] = []
    title: str | None = None
    length_ms = 0
    for raw_line in _lines_of(text):
        line = raw_line.strip()
        if line.upper().startswith("#EXTINF:"):
            title = _extinf_title(line)
            length = _EXTINF_LENGTH.match(line)
            length_ms = 0 if length is None else _ms_of(length[1])
        elif line and not line.startswith("#"):
            found.append(Listed(line, title, length_ms=length_ms))
            title, length_ms = None, 0
    return found


def _ms_of(seconds: str) -> int:
    """The milliseconds of a positive number of seconds; 0 for other texts, as -1, which means no end."""
    return round(float(seconds) * 1000) if _SECONDS.fullmatch(seconds) else 0


def _extinf_title(line: str) -> str | None:
    """The text after the first comma outside quotes: lists of television stations have quoted attributes before it."""
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
    lengths: dict[int, str] = {}
    fields = {"file": files, "title": titles, "length": lengths}
    for line in _lines_of(text):
        found = _PLS_LINE.fullmatch(line.strip())
        if found is not None and found[3].strip():
            fields[found[1].lower()].setdefault(int(found[2]), found[3].strip())
    return [
        Listed(files[number], _clean(titles.get(number, "")), length_ms=_ms_of(lengths.get(number, "")))
        for number in sorted(files)
    ]


_CUE_TRACK: Final = re.compile(
    r"^[ \t]*TRACK[ \t]+[0-9]{1,3}[ \t]+AUDIO[ \t]*$", re.IGNORECASE | re.ASCII | re.MULTILINE
)
_CUE_LINE: Final = re.compile(r"([A-Z]+)\s+(.*)", re.IGNORECASE | re.ASCII)
_CUE_NAME: Final = re.compile(r"^[ \t]*TITLE[ \t]+([^\r\n]+)", re.IGNORECASE | re.ASCII | re.MULTILINE)
_M3U_NAME: Final = re.compile(r"^#PLAYLIST:([^\r\n]*)", re.IGNORECASE | re.ASCII | re.MULTILINE)
_CUE_QUOTED: Final = re.compile(r'"([^"]*)"(?:\s|$)')
_CUE_TIME: Final = re.compile(r"0*1\s+([0-9]{1,4}):([0-5]?[0-9]):([0-7]?[0-9])", re.ASCII)
_CUE_FRAMES_PER_SECOND: Final = 75


def _is_cue(text: str) -> bool:
    return _CUE_TRACK.search("\n".join(_lines_of(text))) is not None


@dataclass(slots=True)
class _CueTrack:
    file: str
    is_audio: bool
    title: str = ""
    author: str = ""
    start_ms: int | None = None  # the time of index 1; the gap before it belongs to the track before


def _cue(text: str) -> list[Listed]:
    """A CUE sheet: each audio track from its index 1 to that of the next track in the same file, else to the end.

    Lines before the first track are about the whole sheet; its performer is that of tracks without one.
    """
    tracks: list[_CueTrack] = []
    file = author = ""
    for line in _lines_of(text):
        found = _CUE_LINE.fullmatch(line.strip())
        command, value = (found[1].upper(), found[2]) if found is not None else ("", "")
        track = tracks[-1] if tracks else None
        if command == "FILE":
            file = _cue_file(value)
        elif command == "TRACK":
            tracks.append(_CueTrack(file, is_audio=value.upper().endswith("AUDIO"), author=author))
        elif command == "PERFORMER" and track is None:
            author = _cue_text(value)
        elif command == "PERFORMER" and track is not None:
            track.author = _cue_text(value)
        elif command == "TITLE" and track is not None:
            track.title = _cue_text(value)
        elif command == "INDEX" and track is not None and (time := _CUE_TIME.fullmatch(value)) is not None:
            # A track's number may stand in one file, and its index 1 in the next.
            track.file = file
            frames = (int(time[1]) * 60 + int(time[2])) * _CUE_FRAMES_PER_SECOND + int(time[3])
            track.start_ms = round(frames * 1000 / _CUE_FRAMES_PER_SECOND)
    found_parts: list[Listed] = []
    following: _CueTrack | None = None
    for track in reversed(tracks):
        if track.start_ms is None or not track.file:
            continue
        if track.is_audio:
            found_parts.append(_cue_part(track, following))
        following = track
    return found_parts[::-1]


def _cue_part(track: _CueTrack, following: _CueTrack | None) -> Listed:
    start_ms = track.start_ms or 0
    end_ms = following.start_ms if following is not None and following.file == track.file else None
    if end_ms is not None and end_ms <= start_ms:
        end_ms = None
    return Listed(
        track.file,
        _clean(track.title),
        author=_clean(track.author) or "",
        is_part=True,
        start_ms=start_ms,
        end_ms=end_ms,
        length_ms=0 if end_ms is None else end_ms - start_ms,
    )


def _cue_file(value: str) -> str:
    """The name in `"name" WAVE` or `name WAVE`."""
    quoted = _CUE_QUOTED.match(value)
    return quoted[1].strip() if quoted is not None else value.rpartition(" ")[0].strip() or value


def _cue_text(value: str) -> str:
    quoted = _CUE_QUOTED.match(value)
    return quoted[1] if quoted is not None else value


class _Xspf:
    """XSPF 1 (xspf.org/xspf-v1): the first location of each track. Names are taken in any namespace.

    A document type is refused, because only with one can a small document become a large one.
    """

    def __init__(self) -> None:
        self._found: list[Listed] = []
        self._path: list[str] = []
        self._location = ""
        self._title = ""
        self._duration_ms = ""
        self.name = ""

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
            raise damaged("its XML is wrong") from error
        return self._found

    def _start(self, name: str, _attributes: object) -> None:
        self._path.append(name.rpartition(" ")[2])
        if self._path == ["playlist", "trackList", "track"]:
            self._location = self._title = self._duration_ms = ""

    def _end(self, _name: str) -> None:
        if self._path == ["playlist", "trackList", "track"] and self._location.strip():
            location = self._location.splitlines()[0].strip()
            duration_ms = self._duration_ms.strip()
            length_ms = int(duration_ms) if _MILLISECONDS.fullmatch(duration_ms) else 0
            self._found.append(Listed(location, _clean(self._title), is_uri=True, length_ms=length_ms))
        elif self._path == ["playlist", "trackList", "track", "location"]:
            self._location = self._location.strip() + "\n"
        self._path.pop()

    def _text(self, text: str) -> None:
        if self._path == ["playlist", "trackList", "track", "location"]:
            self._location += text
        elif self._path == ["playlist", "trackList", "track", "title"]:
            self._title += text
        elif self._path == ["playlist", "trackList", "track", "duration"]:
            self._duration_ms += text
        elif self._path == ["playlist", "title"]:
            self.name += text


def _refuse_doctype(*_: object) -> None:
    raise damaged("it declares a document type, which playlists do not need")


def _clean(text: str) -> str | None:
    """A title fit for JSON and display; None for an empty one."""
    return printable(text).strip()[:MAX_TITLE_CHARACTERS].strip() or None


def entry_uri(playlist: SourceUri, listed: Listed) -> str:
    """The URI or path of an entry of the playlist at `playlist`, with the part of the file that it is.

    Raises what `linked_uri` raises.
    """
    if not listed.is_part:
        return linked_uri(playlist, listed.reference, is_uri=listed.is_uri)
    reference = listed.reference
    if playlist.kind == "http" and not _NETWORK.match(reference):
        reference = quote(reference)  # a file's name, in which ? and # mean nothing
    whole = linked_uri(playlist, reference, is_uri=False)
    return whole + media_fragment(listed.start_ms, listed.end_ms)


def linked_uri(playlist: SourceUri, reference: str, *, is_uri: bool) -> str:
    """The URI or path that `reference` means in the playlist at `playlist`, as text that is to be parsed and judged.

    `is_uri`: relative references are percent-encoded, as in HLS and XSPF; else they are plain paths in local playlists.
    Raises `PlayError` for one that leads from the network to this machine, `BadRequest` for one that is no URI.
    """
    reference = reference.strip()
    if _NETWORK.match(reference):
        return reference
    if playlist.kind == "http":
        if _SCHEME.match(reference):
            raise _leads_to_file()
        try:
            joined = urljoin(playlist.normalised, reference)
        except ValueError as error:
            raise BadRequest("The playlist's entry cannot be read as a URI.") from error
        if not _NETWORK.match(joined):
            raise _leads_to_file()
        return joined
    if _SCHEME.match(reference):
        return reference
    path = unquote(reference, errors="surrogateescape") if is_uri else reference
    return posixpath.join(posixpath.dirname(playlist.path), path)


def playlist_error(code: FailureCode, message: str, hint: str) -> PlayError:
    return PlayError.of(code, Stage.READ, message, hint)


def too_large(reason: str) -> PlayError:
    hint = "Give a smaller playlist, or its entries."
    return playlist_error(FailureCode.LIMIT_EXCEEDED, f"The playlist was refused: {reason}.", hint)


def damaged(reason: str) -> PlayError:
    message = f"The playlist cannot be read: {reason}."
    return playlist_error(FailureCode.CORRUPT, message, "The playlist has to be mended.")


def nothing_to_play(reason: str) -> PlayError:
    hint = "Check the playlist; the node's log says what it refused."
    return playlist_error(FailureCode.EMPTY, f"The playlist {reason}.", hint)


def _leads_to_file() -> PlayError:
    message = "A playlist from the network must not lead to anything but http and https."
    return playlist_error(FailureCode.SOURCE_REFUSED, message, "Put http or https URIs into the playlist.")


_AUDIO_ENDINGS: Final = (
    *(".aac", ".ac3", ".aif", ".aifc", ".aiff", ".au", ".caf", ".eac3", ".flac", ".m4a", ".m4b", ".mka", ".mp2"),
    *(".mp3", ".mp4", ".mpga", ".oga", ".ogg", ".opus", ".snd", ".w64", ".wav", ".wave", ".weba", ".webm", ".wma"),
    ".wv",
)
_NUMBER: Final = re.compile(r"([0-9]+)")


def folder_listing(folder: SourceUri, names: Iterable[str]) -> Listing:
    """The audio files among `names`, by their endings, without hidden files.

    Raises `PlayError` without any.
    """
    audio = [name for name in names if name.lower().endswith(_AUDIO_ENDINGS) and not name.startswith(".")]
    if not audio:
        message = "There are no audio files in the folder (in folders within it nothing is looked for)."
        hint = "Give a folder that holds some, or a file."
        raise PlayError.of(FailureCode.FILE_UNREADABLE, Stage.CONNECT, message, hint)
    entries = (Listed(os.path.join(folder.path, name)) for name in sorted(audio, key=natural_order)[:MAX_ENTRIES])
    return Listing(tuple(entries), len(audio), os.path.basename(folder.path))


def natural_order(name: str) -> tuple[list[str | int], str]:
    """A sort key: `2 b` comes before `10 a`, and upper and lower case are equal."""
    return [int(part) if index % 2 else part for index, part in enumerate(_NUMBER.split(name.casefold()))], name
