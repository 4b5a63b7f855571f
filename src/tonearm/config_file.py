"""From a TOML file, the environment and the command line to one `Config`."""

import importlib.util
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from tonearm.config import Config
from tonearm.config_environment import read_environment
from tonearm.config_older_keys import drop_older_keys
from tonearm.config_problem import ConfigError, Given, describe

DEFAULT_FILE: Final = "tonearm.toml"
_LARGEST_FILE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """`path` is the file that was read, if any; `warnings` are for the log."""

    config: Config
    path: Path | None = None
    warnings: tuple[str, ...] = ()


def load_config(
    path: Path | None, environment: Mapping[str, str], options: Mapping[str, Given] | None = None
) -> LoadedConfig:
    """Reads `path` (None: `tonearm.toml` of the working folder, if there is one); over it lie the environment and,
    last, the `options` of the command line by their keys ("server.port"). Raises `ConfigError`.
    """
    if path is None and Path(DEFAULT_FILE).exists():
        path = Path(DEFAULT_FILE)
    text = "" if path is None else _read(path)
    file_name = str(path or DEFAULT_FILE)
    raw = _parse(text, file_name)
    given, warnings = read_environment(environment)
    given.update(options or {})
    _lay_over(raw, given)
    dropped = drop_older_keys(raw)
    if dropped:
        warnings.append(f"ignored, because they have no meaning for this node: {', '.join(dropped)}")
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        # The chain is cut: the cause would show what was given.
        raise ConfigError(describe(error, given, file_name, text)) from None
    if config.resolver.enabled and importlib.util.find_spec("yt_dlp") is None:
        place = given["resolver.enabled"].origin if "resolver.enabled" in given else file_name
        raise ConfigError(
            f"{place}: resolver.enabled is true, but yt-dlp is not installed; install the extra with "
            "pip install 'tonearm[resolver]', or set resolver.enabled to false"
        )
    return LoadedConfig(config, path, tuple(warnings))


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


def _lay_over(raw: dict[str, Any], given: Mapping[str, Given]) -> None:
    for key, gift in given.items():
        section, _, name = key.partition(".")
        values = raw.setdefault(section, {})
        if isinstance(values, dict):  # else the file has no section there, which the validation refuses
            values[name] = gift.value
