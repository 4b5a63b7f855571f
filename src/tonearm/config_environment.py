"""The variables `TONEARM_<SECTION>__<KEY>`, which go before the file."""

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import SecretStr

from tonearm.config import SECTIONS
from tonearm.config_older_keys import is_older_key
from tonearm.config_problem import ConfigError, Given, closest

_PREFIX: Final = "TONEARM_"
_NAME: Final = re.compile(r"TONEARM_([A-Z]+)__([A-Z_]+)")

# Their default is a text, but they take booleans and lists as well.
_MIXED: Final = frozenset({"sources.files", "sources.private_networks"})


def read_environment(environment: Mapping[str, str]) -> tuple[dict[str, Given], list[str]]:
    """What the variables give, by key ("server.port"), and warnings about names that are not read.

    Raises `ConfigError` for a name with a section whose key does not exist.
    """
    given: dict[str, Given] = {}
    warnings: list[str] = []
    for name, text in sorted(environment.items()):
        if not name.startswith(_PREFIX):
            continue
        if "__" not in name:
            warnings.append(f"the environment variable {name} is not read{_hint(name)}")
            continue
        key = _key(name)
        if key is None:
            raise ConfigError(f"environment variable {name}: there is no such key{_hint(name)}")
        given[key] = Given(f"environment variable {name}", _value(key, text))
    return given, warnings


def _key(name: str) -> str | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    section, key = (part.lower() for part in match.groups())
    known = section in SECTIONS and key in SECTIONS[section].model_fields
    return f"{section}.{key}" if known or is_older_key(section, key) else None


def _value(key: str, text: str) -> object:
    """A text as it is; anything else as JSON, so that `true`, `8080` and `["a"]` mean what they mean in the file."""
    section, _, name = key.partition(".")
    field = SECTIONS[section].model_fields.get(name) if section in SECTIONS else None
    if field is None or (isinstance(field.default, str | SecretStr) and key not in _MIXED):
        return text
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _hint(name: str) -> str:
    names = {f"{_PREFIX}{section}__{key}".lower() for section, model in SECTIONS.items() for key in model.model_fields}
    meant = closest(name, sorted(names))
    return f"; did you mean {meant.upper()}?" if meant else "; the names are TONEARM_<SECTION>__<KEY>"
