"""The commented file that `tonearm init-config` writes."""

import json
import textwrap
from typing import Final

from pydantic import SecretStr

from tonearm.config.schema import SECTIONS, Config

_HEAD: Final = """\
# The configuration of tonearm: every key with its default.
# The environment goes before this file: TONEARM_<SECTION>__<KEY>, such as TONEARM_SERVER__PASSWORD.
"""


def config_template() -> str:
    """All keys at their defaults, each under its description; TOML."""
    parts = [_HEAD]
    for name, model in SECTIONS.items():
        parts.append(f"\n# {model.__doc__}\n[{name}]\n")
        for key, field in model.model_fields.items():
            parts.append(textwrap.fill(field.description or "", 110, initial_indent="# ", subsequent_indent="# "))
            parts.append(f"\n{key} = {toml_value(field.default)}\n")
    return "".join(parts)


def effective_values(config: Config) -> str:
    """All values of `config` as TOML; a password is not shown."""
    lines = []
    for name, model in SECTIONS.items():
        lines.append(f"[{name}]")
        section = getattr(config, name)
        lines += [f"{key} = {_shown(getattr(section, key))}" for key in model.model_fields]
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, SecretStr) and value.get_secret_value():
        return '"**********"  # set, not shown'
    return toml_value(value)


def toml_value(value: object) -> str:
    """A value as TOML writes it. Texts, numbers, booleans and lists are written as in JSON."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
