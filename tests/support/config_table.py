"""The configuration as the table that docs/configuration.md shows."""

from collections.abc import Iterator

from tonearm.config.schema import SECTIONS
from tonearm.config.template import toml_value
from tonearm.version import VERSION


def config_table() -> str:
    """Markdown: every key with its default and its description. The version of this release is left open."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "| Key | Default | Meaning |"
    yield "|---|---|---|"
    for section, model in SECTIONS.items():
        for key, field in model.model_fields.items():
            default = toml_value(field.default).replace(VERSION, "<version>")
            yield f"| `{section}.{key}` | `{default}` | {(field.description or '').replace('|', chr(92) + '|')} |"
