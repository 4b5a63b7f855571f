"""Texts that strangers wrote, made fit for a terminal, a log and JSON."""

import re
from typing import Final

# scheme, userinfo, host and path, query and fragment
_URI: Final = re.compile(r"\b([A-Za-z][A-Za-z0-9+.\-]*://)([^\s/?#@]*@)?([^\s?#]*)([?#]\S*)?")


def printable(text: str) -> str:
    """`text` with a space for each character that is none to look at: a line's end, what steers a terminal, half a
    surrogate pair."""
    return "".join(character if character.isprintable() else " " for character in text)


def one_line(text: str) -> str:
    """The same, without blanks around it, and with one where there are more."""
    return " ".join(printable(text).split())


def text_for_logs(text: str) -> str:
    """`text` in one line, its URIs without userinfo, query and fragment, which may hold passwords and tokens: more
    people read a log than may know them."""
    return _URI.sub(r"\1\3", one_line(text))
