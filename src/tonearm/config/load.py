"""Reads a TOML file, the environment and the command line into one `Config`, and writes the commented file that
`tonearm init-config` gives.

The variables `TONEARM_<SECTION>__<KEY>` override the file, and options override both. `TONEARM_PASSWORD`, the name that
clients read, is `TONEARM_SERVER__PASSWORD` where that is not set. Keys of this node's predecessor are ignored with a
warning.
"""

import importlib.util
import json
import os
import re
import shlex
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr, ValidationError

from tonearm.config.problem import ConfigError, Given, closest, describe, is_secret
from tonearm.config.schema import SECTIONS, Config

_OLDER_KEYS: Final = (
    ("logging", "clean_log_on_start"),
    ("resolver", "ffmpeg_path"),
    ("resolver", "preferred_format"),
    ("resolver", "ytdlp_path"),
    ("spotify", "allow_spotify_title_search"),
)
_OF_VARIABLES: Final = ("client_id", "client_secret")  # of [spotify]; as in the predecessor


def is_older_key(section: str, key: str) -> bool:
    """Whether the key is one of this node's predecessor."""
    return (section, key) in _OLDER_KEYS


def drop_older_keys(raw: dict[str, Any]) -> list[str]:
    """Removes the predecessor's keys from `raw` and returns their names."""
    dropped = []
    for section, key in _OLDER_KEYS:
        values = raw.get(section)
        if isinstance(values, dict) and key in values:
            del values[key]
            dropped.append(f"{section}.{key}")
    return dropped


def _take_from_variables(raw: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Puts the value of a variable in the place of its name."""
    values = raw.get("spotify")
    if isinstance(values, dict):
        for key in _OF_VARIABLES:
            name = values.get(key)
            if isinstance(name, str) and name in environment:
                values[key] = environment[name]


_PREFIX: Final = "TONEARM_"
_OF_CLIENTS: Final = "TONEARM_URL"
_SHORT_NAMES: Final = {"TONEARM_PASSWORD": "TONEARM_SERVER__PASSWORD"}  # which go before them
_NAME: Final = re.compile(r"TONEARM_([A-Z]+)__([A-Z_]+)")


def read_environment(environment: Mapping[str, str]) -> tuple[dict[str, Given], list[str], list[str]]:
    """The values that variables give, by key ("server.port"); warnings about names that are not read; and a line about
    each name with a section whose key does not exist."""
    given: dict[str, Given] = {}
    warnings: list[str] = []
    problems: list[str] = []
    for name, text in sorted(environment.items()):
        full_name = _SHORT_NAMES.get(name, name)
        if not name.startswith(_PREFIX) or name == _OF_CLIENTS or (full_name != name and full_name in environment):
            continue
        if "__" not in full_name:
            warnings.append(f"the environment variable {name} is not read{_hint(name)}")
            continue
        key = _key(full_name)
        if key is None:
            problems.append(f"environment variable {name}: there is no such key{_hint(name)}")
            continue
        given[key] = Given(f"environment variable {name}", _value(key, text))
    return given, warnings, problems


def _key(name: str) -> str | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    section, key = (part.lower() for part in match.groups())
    known = section in SECTIONS and key in SECTIONS[section].model_fields
    return f"{section}.{key}" if known or is_older_key(section, key) else None


def _value(key: str, text: str) -> object:
    """The value of a variable: the text itself for a key that takes any text, else JSON, so that `true`, `8080` and
    `["a"]` mean what they mean in the file."""
    section, _, name = key.partition(".")
    field = SECTIONS[section].model_fields.get(name) if section in SECTIONS else None
    if field is None or field.annotation in (str, SecretStr):
        return text
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _hint(name: str) -> str:
    names = {f"{section}__{key}": key for section, model in SECTIONS.items() for key in model.model_fields}
    bare = name.removeprefix(_PREFIX).lower()
    of_key = sorted(full for full, key in names.items() if key == bare)  # only the section was left out
    meant = of_key[0] if len(of_key) == 1 else closest(bare, sorted(names))
    return f"; did you mean {_PREFIX}{meant.upper()}?" if meant else "; the names are TONEARM_<SECTION>__<KEY>"


DEFAULT_FILE: Final = "tonearm.toml"
_LARGEST_FILE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """`path` is the file that was read, if any; `warnings` are for the log."""

    config: Config
    path: Path | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """Checks of the node's machine: whether a module can be imported, and whether this user may access a path
    (`os.access`)."""

    has_module: Callable[[str], bool] = lambda name: importlib.util.find_spec(name) is not None
    may: Callable[[str, int], bool] = os.access


THIS_MACHINE: Final = Machine()


def load_config(
    path: Path | None,
    environment: Mapping[str, str],
    options: Mapping[str, Given] | None = None,
    machine: Machine = THIS_MACHINE,
) -> LoadedConfig:
    """Reads `path` (None: `tonearm.toml` of the working folder, if there is one). The environment overrides it, and the
    `options` of the command line, by their keys ("server.port"), override both. Raises `ConfigError`, also for what
    `machine` lacks.
    """
    if path is None and os.path.lexists(DEFAULT_FILE):  # a link to a disk that is not mounted is no default
        path = Path(DEFAULT_FILE)
    text = "" if path is None else _read(path)
    file_name = str(path or DEFAULT_FILE)
    raw = _parse(text, file_name)
    given, warnings, problems = read_environment(environment)
    given.update(options or {})
    _override(raw, given)
    _take_from_variables(raw, environment)
    dropped = drop_older_keys(raw)
    if dropped:
        warnings.append(f"keys of an older node, which have no effect: {', '.join(dropped)}")
    problems += _missing_packages(raw, given, file_name, machine)
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        # Without the cause, which would show the values: one may be a password.
        raise ConfigError(*problems, *describe(error, given, file_name, text)) from None
    problems = problems or [*_unreadable_files(config, given, file_name, machine)]
    if problems:
        raise ConfigError(*problems)
    warnings += _unusable_folders(config, machine)
    return LoadedConfig(config, path, tuple(warnings))


# Keys that need a package, with its module.
_NEEDED: Final = (
    ("resolver.enabled", "yt-dlp", "yt_dlp"),
    ("cluster.url", "nats-py", "nats"),
    ("cluster.credentials_file", "nkeys", "nkeys"),
)


def _missing_packages(
    raw: Mapping[str, Any], given: Mapping[str, Given], file_name: str, machine: Machine
) -> Iterator[str]:
    """A line for each key that is set and needs a package that is not installed. `raw` may be invalid otherwise."""
    for key, package, module in _NEEDED:
        section, _, name = key.partition(".")
        values = raw.get(section)
        if not isinstance(values, dict):
            continue
        value = values.get(name)
        is_in_cluster = section == "cluster" and value and values.get("url")
        if (value is True or is_in_cluster) and not machine.has_module(module):
            place = given[key].origin if key in given else file_name
            yield (
                f"{place}: {key} is {'true' if value is True else 'set'}, but {package} is not installed; install it "
                f"with {shlex.quote(sys.executable)} -m pip install {package}, or take {key} away"
            )


def _unreadable_files(config: Config, given: Mapping[str, Given], file_name: str, machine: Machine) -> Iterator[str]:
    """A line for each file that a node of a cluster needs and cannot read."""
    for name in ("password_file", "credentials_file", "ca_file", "cert_file", "key_file"):
        key, path = f"cluster.{name}", getattr(config.cluster, name)
        if config.cluster.url and path and not machine.may(path, os.R_OK):
            place = given[key].origin if key in given else file_name
            yield f"{place}: {key}: there is no file {path} that the user who runs this can read"


def _unusable_folders(config: Config, machine: Machine) -> Iterator[str]:
    """A warning for each folder of which nothing can be read, or into which nothing can be written. It may be mounted
    later."""
    files, library = config.sources.files, config.library
    for key, folder in (
        *(("sources.files", folder) for folder in (files if isinstance(files, tuple) else ())),
        *(("library.folders", folder) for folder in library.folders),
    ):
        if not os.path.exists(folder):
            yield f"{key}: there is no folder {folder}"
        elif not os.path.isdir(folder):
            yield f"{key}: {folder} is not a folder"
        elif not machine.may(folder, os.R_OK | os.X_OK):
            yield f"{key}: the folder {folder} cannot be read by the user who runs this"
    if library.uploads and os.path.exists(library.uploads) and not machine.may(library.uploads, os.W_OK | os.X_OK):
        yield f"library.uploads: the user who runs this cannot write into {library.uploads}"


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > _LARGEST_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than 1 MiB; is it really the configuration?")
    try:
        return content.decode("utf-8-sig")  # some editors put a byte order mark in front
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: is not UTF-8; save the file as UTF-8") from None


def _parse(text: str, file_name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{file_name}: is not valid TOML: nested too deep") from None
    except ValueError as error:
        raise ConfigError(f"{file_name}: is not valid TOML: {error}") from None


def _override(raw: dict[str, Any], given: Mapping[str, Given]) -> None:
    for key, override in given.items():
        section, _, name = key.partition(".")
        values = raw.setdefault(section, {})
        if isinstance(values, dict):  # else the file has no section there, which the validation refuses
            values[name] = override.value


_HEAD: Final = """\
# The configuration of tonearm: every key with its default.
# The environment overrides this file: TONEARM_<SECTION>__<KEY>, such as TONEARM_SERVER__PORT; the password is
# also TONEARM_PASSWORD.
"""


def config_template() -> str:
    """All keys at their defaults, each under its description; TOML."""
    parts = [_HEAD]
    for name, model in SECTIONS.items():
        parts.append(f"\n# {model.__doc__}\n[{name}]\n")
        for key, field in model.model_fields.items():
            parts.append(textwrap.fill(field.description or "", 110, initial_indent="# ", subsequent_indent="# "))
            parts.append(f"\n{key} = {toml_value(field.get_default(call_default_factory=True))}\n")
    return "".join(parts)


def effective_values(config: Config) -> str:
    """All values of `config` as TOML; passwords and the like are not shown."""
    lines = []
    for name, model in SECTIONS.items():
        lines.append(f"[{name}]")
        section = getattr(config, name)
        lines += [f"{key} = {_shown(f'{name}.{key}', getattr(section, key))}" for key in model.model_fields]
    return "\n".join(lines) + "\n"


def _shown(name: str, value: object) -> str:
    if value and (isinstance(value, SecretStr) or is_secret(name)):
        return '"**********"  # set, not shown'
    return toml_value(value)


def toml_value(value: object) -> str:
    """A value as TOML writes it. Texts, numbers, booleans and lists are written as in JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
