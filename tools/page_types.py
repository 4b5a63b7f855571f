"""Makes the types of the node's answers for the dashboard's page from the models: `wire.d.ts` beside its modules.

`python -m tools.page_types` writes the file anew after a model was changed; a test compares it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from tonearm.protocol import events, replies
from tonearm.protocol.events import AnyEvent, PublicState

WIRE_TYPES: Final = Path(__file__).resolve().parents[1] / "src" / "tonearm" / "dashboard" / "page" / "wire.d.ts"
# What the page asks for. What these consist of comes with them.
_MODELS: Final[Sequence[type[BaseModel]]] = (
    replies.ClusterNodes,
    replies.Error,
    replies.FoundTracks,
    replies.LibraryFiles,
    replies.OverlayCreated,
    replies.PlayedTrack,
    replies.Player,
    replies.PlayerCreated,
    replies.QueuedTrackDetails,
    replies.SentFile,
    replies.Stats,
    replies.TrackQueued,
    PublicState,
)
_HEAD: Final = """\
// What a node answers and tells. `python -m tools.page_types` made it of its models, which /docs
// of a node describes.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
"""
_WORDS: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def page_types() -> str:
    """The text of `wire.d.ts`."""
    told = TypeAdapter(AnyEvent).json_schema()
    models = [getattr(events, name) for name in told["discriminator"]["mapping"]]
    loaded = [replies.LoadedTrack, replies.NothingLoaded]
    _, described = models_json_schema([(model, "validation") for model in (*_MODELS, *models, *loaded)])
    schemas = described["$defs"]
    names = sorted((name for name in schemas if "enum" not in schemas[name]), key=_short)
    return "\n".join(
        [
            _HEAD,
            *(_interface(_short(name), schemas[name], schemas) for name in names),
            _union("LoadResult", [model.__name__ for model in loaded]),
            _union("PlayerEvent", sorted(model.__name__ for model in models)),
        ]
    )


def _short(name: str) -> str:
    """Two that are called the same bear their modules' names before theirs; one of the two is always an enumeration."""
    return name.rpartition("__")[2]


def _interface(name: str, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    fields = [
        f"  {field}{'' if field in required else '?'}: {_type(about, schemas)};"
        for field, about in schema.get("properties", {}).items()
    ]
    return "\n".join([f"export interface {name} {{", *fields, "}", ""])


def _union(name: str, members: Sequence[str]) -> str:
    return "\n".join([f"export type {name} =", *(f"  | {member}" for member in members)]) + ";\n"


def _type(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return _type(schemas[name], schemas) if "enum" in schemas[name] else _short(name)
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return " | ".join(_type(one, schemas) for one in schema["anyOf"])
    match schema.get("type"):
        case None:
            return "Json"
        case "array":
            return f"Array<{_type(schema['items'], schemas)}>"
        case "object":
            return f"Record<string, {_type(schema['additionalProperties'], schemas)}>"
        case word:
            return _WORDS[word]


if __name__ == "__main__":
    WIRE_TYPES.write_text(page_types(), encoding="utf-8")
