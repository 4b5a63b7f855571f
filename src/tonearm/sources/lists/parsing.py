"""Parses the bytes of a list of tracks into entries, in the encodings that its text may have."""

import contextlib
import re
from collections.abc import Sequence
from typing import Final

from tonearm.sources.lists.cue import cue, is_cue
from tonearm.sources.lists.listed import MAX_ENTRIES, Listing, clean
from tonearm.sources.lists.m3u import m3u, pls
from tonearm.sources.lists.xml import asx_listing, xml_listing
from tonearm.sources.playlist import BYTE_BY_BYTE, HEAD_BYTES, decode, marked_encoding, root_element

# Of lists that are no UTF-8. A file's name may be none either, and is then the same bytes. The others are those that
# programs of Windows, of DOS and of older Linux wrote, single bytes first.
_ENCODINGS: Final = (
    BYTE_BY_BYTE,
    *("cp1252", "cp1251", "cp1250", "cp1253", "cp1254", "koi8_r", "cp866", "cp850", "cp437"),
    *("cp932", "gb18030", "cp949", "cp950", "euc_jp"),
)
_NAMED: Final = {name.replace("_", ""): name for name in _ENCODINGS} | {"iso88591": "cp1252", "shiftjis": "cp932"}
_SAID: Final = re.compile(rb"^#EXTENC:[ \t]*([A-Za-z0-9_-]{1,20})", re.IGNORECASE | re.MULTILINE)


def possible_encodings(data: bytes) -> Sequence[str]:
    """The encodings that the text of a list may have, the likely ones first: one only where the bytes say it."""
    marked = marked_encoding(data)
    if marked is not None:
        return (marked[1],)
    try:
        data.decode()
    except UnicodeDecodeError:
        said = _SAID.search(data[:HEAD_BYTES])
        named = "" if said is None else said[1].decode().lower().replace("-", "").replace("_", "")
        found = _NAMED.get(named.replace("windows", "cp"))
        return _ENCODINGS if found is None else (found,)
    return ("utf-8",)


def parse_listing(data: bytes, encoding: str | None = None, *, unread: str = "") -> Listing:
    """A playlist that is not HLS, or the beginning of one: then `unread` says why it is no more. The text is read in
    `encoding`, or in the likeliest one. Raises `PlayError` for XML that is damaged or declares entities."""
    text = decode(data, encoding)
    root = root_element(text)
    if root == "asx":
        return asx_listing(text, unread)
    if text.startswith("<"):
        return xml_listing(data, unread)
    if unread:  # no entry is taken whose end is missing
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    name = ""
    if text[:HEAD_BYTES].lower().startswith(("[playlist]", "[reference]")):
        found = pls(text)
        count = len(found)
    elif is_cue(text):
        found, name = cue(text)
        count = len(found)
    else:
        found, count, name = m3u(text)
    return Listing(tuple(found[:MAX_ENTRIES]), count, clean(name) or "", unread)


def whole_characters(data: bytes) -> bytes:
    """The beginning of a text without the half character at its end, which would make it none of its encoding."""
    for missing in range(4):
        with contextlib.suppress(UnicodeDecodeError):
            data[: len(data) - missing].decode()
            return data[: len(data) - missing]
    return data[: len(data) // 2 * 2]
