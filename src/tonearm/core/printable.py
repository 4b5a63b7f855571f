"""Makes untrusted text safe for a terminal, a log and JSON."""

import re
from typing import Final

# What follows the scheme: userinfo, host and path, query and fragment. To look for the scheme, too, would take hours in
# some texts.
_URI: Final = re.compile(r"://([^\s/?#@]*@)?([^\s?#]*)([?#]\S*)?")
# the query of a path, for example in a request line
_QUERY: Final = re.compile(r"(?<=[^\s?])\?[^\s?=]*=\S*")


def printable(text: str) -> str:
    """`text` with a space for each character that cannot be shown: line ends, control characters, lone surrogates."""
    if text.isprintable():  # nearly always, and much faster
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def readable(text: str) -> str:
    """`text` in a form that can be encoded: with letters for bytes that are not UTF-8, which are surrogate escapes in
    it, and for other lone surrogates. The bytes are read as Windows-1252, which old programs wrote.
    """
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Halves of UTF-16 pairs.
        return text.encode("utf-8", "replace").decode()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def one_line(text: str) -> str:
    """`printable(text)` without surrounding spaces, and with runs of spaces reduced to one."""
    return " ".join(printable(text).split())


def text_for_logs(text: str) -> str:
    """`text` in one line, its URIs without userinfo, query and fragment, its paths without query.

    This is a safety net for text from other parties, in which a link with blanks has no recognisable end. Callers that
    have the URI itself write `core.source_uri.uri_for_logs` of it into their text.
    """
    line = _URI.sub(r"://\2", one_line(text))
    return _QUERY.sub("", line) if "?" in line else line
