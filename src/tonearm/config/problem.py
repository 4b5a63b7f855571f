"""Errors of a configuration, each in one line that names the place."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from pydantic import ValidationError

from tonearm.config.patterns import PatternError
from tonearm.config.schema import SECTIONS
from tonearm.core.printable import printable

_TABLE: Final = re.compile(r"\s*\[\s*([\w-]+)\s*\]")
_SECRETS: Final = frozenset({"server.password"})


@dataclass(frozen=True, slots=True)
class Given:
    """A value from a variable of the environment or an option, which `origin` names."""

    origin: str
    value: object = field(repr=False)  # it may be a password


class ConfigError(Exception):
    """The configuration cannot be used. Each of `problems` is one line that names the file, variable or option and the
    key; the message is the first of them, and how many more there are."""

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(map(printable, problems))
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{self.problems[0]}{more}")


def describe(error: ValidationError, given: Mapping[str, Given], file_name: str, text: str) -> list[str]:
    """One line about each problem.

    `given` are the values, by key ("server.port"), that override those of `file_name`, whose content is `text`.
    """
    lines = []
    for problem in error.errors(include_url=False):
        location = [str(part) for part in problem["loc"]]
        key = ".".join(location[:2])
        place = given[key].origin if key in given else _place_in_file(file_name, text, location)
        lines.append(f"{place}: {_sentence(problem, location)}")
    return lines


def closest(word: str, words: Collection[str]) -> str | None:
    """The one of `words` that is nearest to `word`, or None when none is near."""
    return next(iter(get_close_matches(word.lower(), words, 1, 0.75)), None)


def _place_in_file(file_name: str, text: str, location: list[str]) -> str:
    section, key = location[0], location[1] if len(location) > 1 else None
    line = _line_of(text, section, key) or _line_of(text, section, None)
    return f"{file_name}, line {line}" if line else file_name


def _line_of(text: str, section: str, key: str | None) -> int | None:
    """The line of a key or section, searched in `text`, since TOML's parser keeps no positions. None when the search
    fails: then the message has no line."""
    assignment = re.compile(rf"\s*[\"']?{re.escape(key or section)}[\"']?\s*[.=]")
    current: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        table = _TABLE.match(line)
        if table:
            current = table.group(1)
            if key is None and current == section:
                return number
        elif assignment.match(line) and current == (section if key else None):
            return number
    return None


def _sentence(problem: Mapping[str, Any], location: list[str]) -> str:
    kind, value = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return _unknown(location)
    name = ".".join(location[:2])
    if kind in ("model_type", "model_attributes_type"):
        return f"{name} must be a section, [{name}], not {_shown(name, value)}"
    if kind == "value_error":
        return f"{name} {_own_words(name, problem['ctx']['error'], value)}"
    if len(location) > 2:
        return f"{name} must be a list of texts; entry {int(location[2]) + 1} is {_shown(name, value)}"
    return f"{name} must be {_wanted(kind, problem.get('ctx', {}))}, not {_shown(name, value)}"


def _own_words(name: str, error: Exception, value: object) -> str:
    if isinstance(error, PatternError):
        return f"holds a bad pattern: {error}"
    # An error about a list names the entry, and one about a section names the key.
    return (
        str(error)
        if name in _SECRETS or not isinstance(value, str | int | float)
        else f"{error}, not {_shown(name, value)}"
    )


def _wanted(kind: str, context: Mapping[str, Any]) -> str:
    match kind:
        case "int_type" | "int_from_float" | "int_parsing":
            return "a whole number"
        case "float_type" | "finite_number":
            return "a number"
        case "bool_type":
            return "true or false"
        case "string_type":
            return "a text in quotes"
        case "tuple_type":
            return 'a list of texts such as ["a", "b"]'
        case "greater_than_equal":
            return f"{_bound(context['ge'])} or more"
        case "greater_than":
            return f"more than {context['gt']:g}"
        case "less_than_equal":
            return f"{_bound(context['le'])} or less"
        case "literal_error":
            return f"one of {context['expected']}".replace("'", '"')
        case _:
            return f"something else ({kind})"


def _bound(limit: float) -> str:
    return str(int(limit)) if limit == int(limit) else str(limit)


def _shown(name: str, value: object) -> str:
    """The value as TOML writes it; of a secret only its type."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a section"
    if name in _SECRETS:
        return f"a value of type {type(value).__name__}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'the text "{_shortened(value)}"'
    return _shortened(str(value))


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def _unknown(location: list[str]) -> str:
    if len(location) == 1:
        return _unknown_section(location[0])
    section, key = location[:2]
    meant = closest(key, SECTIONS[section].model_fields)
    elsewhere = [name for name, model in SECTIONS.items() if key in model.model_fields]
    if elsewhere:
        return f"unknown key {section}.{key}; it belongs into the section [{elsewhere[0]}]"
    return f"unknown key {section}.{key}" + (f"; did you mean {meant}?" if meant else f"; {_known(section)}")


def _unknown_section(name: str) -> str:
    homes = [section for section, model in SECTIONS.items() if name in model.model_fields]
    if homes:
        return f"unknown key {name} outside of a section; it belongs into the section [{homes[0]}]"
    meant = closest(name, SECTIONS)
    if meant:
        return f"unknown section or key {name}; did you mean [{meant}]?"
    return f"unknown section or key {name}; there are {', '.join(f'[{section}]' for section in SECTIONS)}"


def _known(section: str) -> str:
    return f"[{section}] has {', '.join(SECTIONS[section].model_fields)}"
