"""Title, author, ISRC and artwork link from the tags of a container and its audio stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAX_TAG_CHARACTERS: Final = 1000

_TITLE_KEYS: Final = ("title", "tit2", "icy-name")
_AUTHOR_KEYS: Final = ("artist", "album_artist", "albumartist", "author", "performer", "composer")
_ISRC_KEYS: Final = ("isrc", "tsrc", "com.apple.itunes:isrc")
_ARTWORK_KEYS: Final = ("artwork_url", "artworkurl", "cover_url", "coverart_url")


@dataclass(frozen=True, slots=True)
class Tags:
    """What tags told, cleaned. None is a tag that is missing or blank."""

    title: str | None = None
    author: str | None = None
    isrc: str | None = None
    artwork_url: str | None = None


def read_tags(*sources: Mapping[str, str]) -> Tags:
    """The tags of the first of `sources` (container first, then stream) that has each of them."""
    found: dict[str, str] = {}
    for source in sources:
        for key, value in source.items():
            text = clean_text(value)
            if text:
                found.setdefault(clean_text(key).lower(), text)
    return Tags(
        title=_first(found, _TITLE_KEYS),
        author=_first(found, _AUTHOR_KEYS),
        isrc=_isrc(_first(found, _ISRC_KEYS)),
        artwork_url=next((link for key in _ARTWORK_KEYS if (link := _link(found.get(key)))), None),
    )


def clean_text(text: str) -> str:
    """`text` fit for JSON: no lone surrogates, no control characters, outer blanks off, at a bearable length.

    Bytes that were no UTF-8 arrive as surrogate escapes; they are read as Windows-1252, which old taggers wrote.
    """
    text = _without_surrogates(text)
    visible = "".join(" " if character in "\t\r\n" else character for character in text)
    printable = "".join(character for character in visible if ord(character) >= 32 and not 127 <= ord(character) < 160)
    return printable.strip()[:MAX_TAG_CHARACTERS].strip()


def _without_surrogates(text: str) -> str:
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Halves of UTF-16 pairs.
        return text.encode("utf-8", "replace").decode()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _first(found: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((found[key] for key in keys if key in found), None)


def _isrc(text: str | None) -> str | None:
    """ISO 3901: twelve letters and digits, often written with hyphens."""
    if text is None:
        return None
    code = text.replace("-", "").replace(" ", "").upper()
    return code if len(code) == 12 and code.isascii() and code.isalnum() else None


def _link(text: str | None) -> str | None:
    if text is None or not text.lower().startswith(("http://", "https://")):
        return None
    # A link that was cut off leads nowhere.
    return text if " " not in text and len(text) < MAX_TAG_CHARACTERS else None
