"""M3U and PLS, and the lists of Windows Media that are written as PLS is (`[Reference]`)."""

import re
from typing import Final

from tonearm.sources.lists.listed import MAX_ENTRIES, Listed, clean, lines_of, ms_of

_PLS_LINE: Final = re.compile(r"(file|ref|title|length)([0-9]{1,6})\s*=(.*)", re.IGNORECASE | re.ASCII)
# How long an entry is, in seconds; attributes may follow.
_EXTINF_LENGTH: Final = re.compile(r"#EXTINF:[ \t]*([0-9.]+)", re.IGNORECASE | re.ASCII)
_EXTINF_LOGO: Final = re.compile(r'\btvg-logo="([^"]*)"', re.IGNORECASE | re.ASCII)
_NAME: Final = re.compile(r"^#PLAYLIST:([^\r\n]*)", re.IGNORECASE | re.ASCII | re.MULTILINE)


def m3u(text: str) -> tuple[list[Listed], int, str]:
    """The first `MAX_ENTRIES` entries, how many there are, and the list's name."""
    found: list[Listed] = []
    count = 0
    title: str | None = None
    length_ms = 0
    artwork = ""
    for raw_line in lines_of(text):
        line = raw_line.strip()
        if line.upper().startswith("#EXTINF:"):
            title = _extinf_title(line)
            length = _EXTINF_LENGTH.match(line)
            length_ms = 0 if length is None else ms_of(length[1])
            logo = _EXTINF_LOGO.search(line)
            artwork = "" if logo is None else logo[1]
        elif line and not line.startswith("#"):
            count += 1
            if count <= MAX_ENTRIES:
                found.append(Listed(line, title, length_ms=length_ms, artwork=artwork))
            title, length_ms, artwork = None, 0, ""
    named = _NAME.search(text)
    return found, count, "" if named is None else named[1]


def _extinf_title(line: str) -> str | None:
    """The text after the first comma outside quotes: lists of television stations have quoted attributes before it."""
    is_quoted = False
    for place, character in enumerate(line):
        if character == '"':
            is_quoted = not is_quoted
        elif character == "," and not is_quoted:
            return clean(line[place + 1 :])
    return clean(line.partition(",")[2])


def pls(text: str) -> list[Listed]:
    files: dict[int, str] = {}
    titles: dict[int, str] = {}
    lengths: dict[int, str] = {}
    fields = {"file": files, "ref": files, "title": titles, "length": lengths}
    for line in lines_of(text):
        found = _PLS_LINE.fullmatch(line.strip())
        if found is not None and found[3].strip():
            fields[found[1].lower()].setdefault(int(found[2]), found[3].strip())
    return [
        Listed(files[number], clean(titles.get(number, "")), length_ms=ms_of(lengths.get(number, "")))
        for number in sorted(files)
    ]
