"""Errors of a configuration, each in one line that names the place."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from pydantic import ValidationError

from tonearm.config.schema import SECTIONS
from tonearm.core.printable import printable

_TABLE: Final = re.compile(r"\s*\[\s*([\w-]+(?:\.[\w-]+)?)\s*\]")
_SECRETS: Final = frozenset({"server.password", "resolver.extractor_args", "resolver.proxies", "spotify.client_secret"})


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


def is_secret(name: str) -> bool:
    """Whether the value of this key, such as `server.password`, is never shown."""
    return name in _SECRETS


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
            if current == (section if key is None else f"{section}.{key}"):
                return number
        elif assignment.match(line) and current == (section if key else None):
            return number
    return None


def _sentence(problem: Mapping[str, Any], location: list[str]) -> str:
    """pydantic's words, and the value that they are about, unless it is a secret or long."""
    if problem["type"] == "extra_forbidden":
        return _unknown(location)
    name, value = ".".join(location[:2]), problem["input"]
    entry = f", entry {int(location[2]) + 1}" if location[2:] and location[2].isdecimal() else ""
    words = problem["msg"].removeprefix("Value error, ").replace("valid tuple", "valid list")
    if problem["type"] == "model_type":
        words = f"must be a section, [{name}]"
    may_be_shown = not is_secret(name) and "@" not in str(value)  # an address may have a password
    is_shown = may_be_shown and isinstance(value, str | int | float)
    return f"{name}{entry}: {words}" + (f", not {json.dumps(value, ensure_ascii=False)[:60]}" if is_shown else "")


def _unknown(location: list[str]) -> str:
    """Of an unknown section, or of a key: where it belongs, what may be meant, or what there is."""
    name = location[-1]
    home = next((section for section, model in SECTIONS.items() if name in model.model_fields), None)
    if home is not None:
        return f"unknown key {'.'.join(location)}; it belongs to the section [{home}]"
    known = SECTIONS[location[0]].model_fields if len(location) > 1 else SECTIONS
    meant = closest(name, known)
    kind = "key" if len(location) > 1 else "section or key"
    hint = f"did you mean {meant}?" if meant else f"there are {', '.join(known)}"
    return f"unknown {kind} {'.'.join(location)}; {hint}"
