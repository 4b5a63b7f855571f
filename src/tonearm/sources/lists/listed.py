"""The content of a list of tracks: its entries as they are written."""

import re
from dataclasses import dataclass
from typing import Final

from tonearm.core.printable import printable, readable
from tonearm.core.track_info import MAX_TITLE_CHARACTERS

MAX_ENTRIES: Final = 500

_SECONDS: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{0,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry as it is written. `is_uri`: a relative reference is percent-encoded. `length_ms` is 0 where the playlist
    says none. `artwork` is the link to a picture as it is written, or empty.

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
    artwork: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of a playlist: the first `MAX_ENTRIES`, and how many were counted. `name` is empty without one.
    `unread` is a sentence that says why what stands behind them was not read; empty when all was."""

    entries: tuple[Listed, ...]
    count: int
    name: str = ""
    unread: str = ""


def lines_of(text: str) -> list[str]:
    """Splits at CR and LF only: titles may have other characters at which `splitlines` splits."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def clean(text: str) -> str | None:
    """A title fit for JSON and display; None for an empty one."""
    return printable(readable(text)).strip()[:MAX_TITLE_CHARACTERS].strip() or None


def ms_of(seconds: str) -> int:
    """The milliseconds of a positive number of seconds; 0 for other texts, as -1, which means no end."""
    return round(float(seconds) * 1000) if _SECONDS.fullmatch(seconds) else 0
