"""Recognises and reads playlist files, and resolves their references. `sources.lists` makes tracks of lists (M3U, PLS,
XSPF, ASX, podcast feeds, CUE sheets). `sources.hls` follows the playlists of streams.
"""

import asyncio
import posixpath
import re
from typing import Final, Protocol
from urllib.parse import unquote

from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.opened_source import SourceReader, media_type
from tonearm.core.source_uri import CUE_ENDING, HLS_ENDING, SourceUri, has_playlist_ending, joined_uri, text_of_file
from tonearm.sources.http.settings import FetchSettings

MAX_PLAYLIST_BYTES: Final = 1024 * 1024
M3U_MARK: Final = b"#EXTM3U"
HEAD_BYTES: Final = 1024  # enough to recognise a playlist

_READ_BYTES: Final = 64 * 1024

# Of M3U and CUE: such a file may have no header by which it could be recognised.
_HEADLESS_ENDINGS: Final = (".m3u", HLS_ENDING, CUE_ENDING)
_HEADLESS_TYPES: Final = frozenset(
    {
        "application/vnd.apple.mpegurl", "application/mpegurl", "application/x-mpegurl",
        "audio/mpegurl", "audio/x-mpegurl", "audio/x-mpequrl",
        "application/x-cue", "application/cue", "audio/x-cue",
    }
)  # fmt: skip
_OTHER_TYPES: Final = frozenset(
    {
        "audio/x-scpls", "audio/scpls", "application/pls+xml", "application/xspf+xml",
        "video/x-ms-asf", "video/x-ms-asx", "audio/x-ms-wax", "video/x-ms-wvx", "video/x-ms-wax",
    }
)  # fmt: skip
_PLAYLIST_TYPES: Final = _HEADLESS_TYPES | _OTHER_TYPES
_MEDIA_TYPES: Final = ("audio/", "video/", "application/ogg", "image/")
_BYTE_ORDER_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_NOT_IN_TEXT: Final = frozenset(map(chr, range(32))) - frozenset("\t\r\n\x1a\x1b")
# Lists of television channels have session data, too; HLS never has that alone.
_HLS_TAG: Final = re.compile(r"[\r\n]#EXT-X-(?!SESSION-DATA)")

# UTF-8 with surrogate escapes for invalid bytes, as in the names of files.
BYTE_BY_BYTE: Final = "byte by byte"

# The first element of a document. Comments and instructions may stand before it; only the head of a file is searched.
_ROOT: Final = re.compile(r"<(?:[A-Za-z][\w.-]{0,40}:)?([A-Za-z][\w.-]{0,40})(?=[\s/>])", re.ASCII)
_BEFORE_ROOT: Final = re.compile(r"<\?[^>]*>|<!--.*?-->|<![^>]*>", re.DOTALL)
_LIST_ROOTS: Final = frozenset({"playlist", "rss", "rdf", "feed", "asx"})

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_NETWORK: Final = re.compile(r"https?:", re.ASCII | re.IGNORECASE)


def may_be_playlist(name: str, content_type: str | None) -> bool:
    """Whether the content must be read to find out. An audio, video or image type of a server is trusted."""
    is_media = media_type(content_type).startswith(_MEDIA_TYPES)
    return has_playlist_ending(name) or is_playlist_type(content_type) or not is_media


def is_playlist_type(content_type: str | None) -> bool:
    return media_type(content_type) in _PLAYLIST_TYPES


def looks_like_playlist(head: bytes, name: str, content_type: str | None) -> bool:
    """Whether the first bytes are a playlist's. For M3U and CUE, which need no header, the name or type decides."""
    text = decode(head).lower()
    is_wide = (marked_encoding(head) or ("", ""))[1].startswith("utf-16")
    if not _NOT_IN_TEXT.isdisjoint(text) or (is_wide and "\ufffd" in text[:-1]):
        return False
    if text.startswith(("#extm3u", "[playlist]", "[reference]")) or root_element(text) in _LIST_ROOTS:
        return True
    is_named = name.lower().endswith(_HEADLESS_ENDINGS) or media_type(content_type) in _HEADLESS_TYPES
    return is_named and bool(text) and not text.startswith("<")


def root_element(text: str) -> str:
    """The name of a document's first element, in lower case and without its namespace; empty for other text."""
    if not text.startswith("<"):
        return ""
    found = _ROOT.search(_BEFORE_ROOT.sub("", text[:HEAD_BYTES]))
    return "" if found is None else found[1].lower()


def is_hls(text: str) -> bool:
    """Whether a playlist's text is HLS, and not plain M3U, on which HLS is based."""
    return text.startswith("#EXTM3U") and _HLS_TAG.search(text) is not None


def marked_encoding(data: bytes) -> tuple[bytes, str] | None:
    """The byte order mark at the beginning of a text, and the encoding that it stands for."""
    return next((marked for marked in _BYTE_ORDER_MARKS if data.startswith(marked[0])), None)


def decode(data: bytes, encoding: str | None = None) -> str:
    """The text without white space at its start. A byte order mark decides the encoding, otherwise `encoding` does.

    Without either, the first of UTF-8, Windows-1252 and Latin-1 that decodes all bytes is used.
    """
    marked = marked_encoding(data)
    if marked is not None:
        text = data[len(marked[0]) :].decode(marked[1], "replace")
    elif encoding == BYTE_BY_BYTE:
        text = data.decode("utf-8", "surrogateescape")
    elif encoding is not None:
        text = data.decode(encoding, "replace")
    else:
        for likely in ("utf-8", "cp1252", "latin-1"):
            try:
                text = data.decode(likely)
                break
            except UnicodeDecodeError:
                continue
    return text.lstrip()


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


async def read_playlist(body: ByteStream, settings: FetchSettings, max_bytes: int = MAX_PLAYLIST_BYTES) -> bytes:
    """The rest of a playlist's bytes. Raises `PlayError`, also when there are too many or they come too slowly."""
    data, is_whole = await read_beginning(body, settings, max_bytes)
    if not is_whole:
        raise too_large(f"it has more than {max_bytes // 1024} KiB")
    return data


async def read_beginning(body: ByteStream, settings: FetchSettings, max_bytes: int) -> tuple[bytes, bool]:
    """The next bytes of a playlist up to its end, and whether the end was reached. Reading stops soon after
    `max_bytes`. Raises `PlayError`, also when the bytes come too slowly."""
    limit_s = settings.headers_timeout_s + settings.stall_timeout_s
    parts: list[bytes] = []
    size_bytes = 0
    try:
        async with asyncio.timeout(limit_s):
            while size_bytes <= max_bytes and (part := await body.read()):
                parts.append(part)
                size_bytes += len(part)
    except TimeoutError as error:
        message = f"The playlist did not arrive within {limit_s:g} seconds."
        hint = "Try again later, or check its server."
        raise playlist_error(FailureCode.TIMEOUT, message, hint) from error
    return b"".join(parts), size_bytes <= max_bytes


def leads_to_network(reference: str) -> bool:
    """Whether `reference` is an absolute http or https link."""
    return _NETWORK.match(reference) is not None


def linked_uri(playlist: SourceUri, reference: str, *, is_uri: bool) -> str:
    """The URI or path that `reference` means in the playlist at `playlist`, as text that is to be parsed and judged.

    `is_uri`: relative references are percent-encoded, as in HLS and XSPF; else they are plain paths in local playlists.
    Raises `PlayError` for a reference that leads from the network to this machine.
    """
    reference = reference.strip()
    if leads_to_network(reference):
        return reference
    if playlist.kind == "http":
        if _SCHEME.match(reference):
            raise _leads_to_file()
        return joined_uri(playlist, reference)
    if _SCHEME.match(reference):
        return reference
    path = unquote(reference, errors="surrogateescape") if is_uri else reference
    return text_of_file(posixpath.join(posixpath.dirname(playlist.path), path))


def playlist_error(code: FailureCode, message: str, hint: str) -> PlayError:
    return PlayError.of(code, Stage.READ, message, hint)


def too_large(reason: str) -> PlayError:
    hint = "Give a smaller playlist, or its entries."
    return playlist_error(FailureCode.LIMIT_EXCEEDED, f"The playlist was refused: {reason}.", hint)


def damaged(reason: str) -> PlayError:
    message = f"The playlist cannot be read: {reason}."
    return playlist_error(FailureCode.CORRUPT, message, "Correct the playlist.")


def nothing_to_play(reason: str) -> PlayError:
    hint = "Check the playlist; the node's log says what it refused."
    return playlist_error(FailureCode.EMPTY, f"The playlist {reason}.", hint)


def _leads_to_file() -> PlayError:
    message = "A playlist from the network may contain only http and https URIs."
    return playlist_error(FailureCode.SOURCE_REFUSED, message, "Replace the other entries with http or https URIs.")
