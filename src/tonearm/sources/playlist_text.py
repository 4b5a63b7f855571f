"""What a playlist is by its first bytes, and its text."""

from enum import Enum, auto
from typing import Final

from tonearm.sources.hls_playlist import is_hls

MAX_PLAYLIST_BYTES: Final = 1024 * 1024
# Enough to see what something is.
HEAD_BYTES: Final = 1024

# As names end, in lower case.
HLS_ENDING: Final = ".m3u8"
_M3U_ENDINGS: Final = (".m3u", HLS_ENDING)
_ENDINGS: Final = (*_M3U_ENDINGS, ".pls", ".xspf")

_M3U_TYPES: Final = frozenset(
    {
        "application/vnd.apple.mpegurl", "application/mpegurl", "application/x-mpegurl",
        "audio/mpegurl", "audio/x-mpegurl", "audio/x-mpequrl",
    }
)  # fmt: skip
_OTHER_TYPES: Final = frozenset({"audio/x-scpls", "audio/scpls", "application/pls+xml", "application/xspf+xml"})
_PLAYLIST_TYPES: Final = _M3U_TYPES | _OTHER_TYPES
_MEDIA_TYPES: Final = ("audio/", "video/", "application/ogg", "image/")
_UTF8_BOM: Final = b"\xef\xbb\xbf"
_NOT_IN_TEXT: Final = frozenset(range(32)) - frozenset(b"\t\r\n\x1a\x1b")


class PlaylistKind(Enum):
    HLS = auto()
    M3U = auto()
    PLS = auto()
    XSPF = auto()


def has_playlist_ending(name: str) -> bool:
    """Whether a file's name says that it may be a playlist."""
    return name.lower().endswith(_ENDINGS)


def may_be_playlist(name: str, content_type: str | None) -> bool:
    """Whether it is worth a look at the content: what a server calls sound or pictures is believed."""
    media_type = _media_type(content_type)
    if has_playlist_ending(name) or media_type in _PLAYLIST_TYPES:
        return True
    return not media_type.startswith(_MEDIA_TYPES)


def looks_like_playlist(head: bytes, name: str, content_type: str | None) -> bool:
    """By the first bytes; what has no sign of its own in them is M3U when its name or type says so."""
    if _NOT_IN_TEXT & frozenset(head.removeprefix(_UTF8_BOM)):
        return False
    text = decode(head).lower()
    if text.startswith(("#extm3u", "[playlist]")) or (text.startswith("<") and "<playlist" in text):
        return True
    is_m3u = name.lower().endswith(_M3U_ENDINGS) or _media_type(content_type) in _M3U_TYPES
    return is_m3u and bool(text) and not text.startswith("<")


def kind_of(text: str) -> PlaylistKind:
    """What a text is that looked like a playlist."""
    start = text[:HEAD_BYTES].lower()
    if start.startswith("[playlist]"):
        return PlaylistKind.PLS
    if start.startswith("<"):
        return PlaylistKind.XSPF
    return PlaylistKind.HLS if is_hls(text) else PlaylistKind.M3U


def decode(data: bytes) -> str:
    """UTF-8 with or without its mark, else Latin-1 (of which no byte is wrong); without blanks at its start."""
    data = data.removeprefix(_UTF8_BOM)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.lstrip()


def lines_of(text: str) -> list[str]:
    """Only at real line ends: titles hold characters at which `splitlines` would divide."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()
