"""Patterns of the configuration. Regular expressions are compiled by RE2, whose time is linear for every pattern and
text."""

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import Any

import re2


class PatternError(ValueError):
    """A pattern that does not compile. The message shows it and where it goes wrong."""


def compile_pattern(pattern: str) -> Any:
    """The compiled `pattern`; its `search(text)` gives a match or None. Raises `PatternError`.

    RE2's syntax: what Python's `re` takes, without look-around and backreferences.
    """
    options = re2.Options()
    options.log_errors = False  # RE2 would write lines of its own to stderr
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = _reason(error)
    except UnicodeEncodeError as error:
        reason = f"half of a surrogate pair at character {error.start + 1}"
    raise PatternError(f'the pattern "{pattern}" does not compile: {_with_position(pattern, reason)}')


def id_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """A function that says whether one of `patterns` matches a whole id: `*` stands for any characters, `?` for one."""
    expression = re.compile("|".join(map(fnmatch.translate, patterns)))
    return lambda player_id: expression.fullmatch(player_id) is not None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else str(error)
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _with_position(pattern: str, reason: str) -> str:
    """`reason` with the position of the part that RE2 could not read, which RE2 only quotes."""
    _, _, part = reason.rpartition(": ")
    at = pattern.find(part) if part else -1
    return reason if at < 0 else f"{reason} (character {at + 1})"
