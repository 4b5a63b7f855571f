"""Texts that strangers wrote, made fit for a terminal, a log and JSON."""


def printable(text: str) -> str:
    """`text` with a space for each character that is none to look at: a line's end, what steers a terminal, half a
    surrogate pair."""
    return "".join(character if character.isprintable() else " " for character in text)


def one_line(text: str) -> str:
    """The same, without blanks around it, and with one where there are more."""
    return " ".join(printable(text).split())
