"""Makes untrusted text safe for a terminal, a log and JSON."""

import re
from typing import Final

# scheme, userinfo, host and path, query and fragment
_URI: Final = re.compile(r"\b([A-Za-z][A-Za-z0-9+.\-]*://)([^\s/?#@]*@)?([^\s?#]*)([?#]\S*)?")
# the query of a path, such as in the line of a request
_QUERY: Final = re.compile(r"(?<=[^\s?])\?[^\s?=]*=\S*")


def printable(text: str) -> str:
    """`text` with a space for each character that cannot be shown: line ends, control characters, lone surrogates."""
    if text.isprintable():  # nearly always, and much faster
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def readable(text: str) -> str:
    """`text` with letters for bytes that are no UTF-8, which stand in it as surrogate escapes, and for other lone
    surrogates, so that it can be encoded. The bytes are read as Windows-1252, which old programs wrote.
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
    """`printable(text)` without spaces around it, and with one space where there are several."""
    return " ".join(printable(text).split())


def text_for_logs(text: str) -> str:
    """`text` in one line, its URIs without userinfo, query and fragment, its paths without query.

    It is a net for what others wrote: where a link with blanks ends, a text does not say. Who knows a URI writes
    `core.source_uri.uri_for_logs` of it into a text.
    """
    line = one_line(text)
    if "://" in line:  # without it, as in a path alone, the pattern would search in vain, and slowly
        line = _URI.sub(r"\1\3", line)
    return _QUERY.sub("", line) if "?" in line else line
