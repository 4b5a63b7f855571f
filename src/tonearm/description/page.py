"""Both descriptions as one page of HTML. It is readable without scripts, and loads nothing from other hosts."""

import html
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from tonearm.core.metadata import JsonObject

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .3rem 0; }
summary b { display: inline-block; min-width: 4.5rem; font-family: monospace; }
details > :not(summary) { margin-left: 1rem; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid #8888; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8884; }
nav a { margin-right: 1rem; }
"""
# The search hides the parts that do not contain the words. A part that a link leads to is opened.
_SCRIPT: Final = """
const find = document.getElementById("find");
find.hidden = false;
find.querySelector("input").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(" ");
  for (const part of document.querySelectorAll("details"))
    part.hidden = !words.every((word) => part.textContent.toLowerCase().includes(word));
});
const open = () => { const part = document.getElementById(location.hash.slice(1)); if (part) part.open = true; };
addEventListener("hashchange", open);
open();
"""


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


# The page allows only its own style and script, by their hashes.
CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_hash(_STYLE)}'; script-src 'sha256-{_hash(_SCRIPT)}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def docs_page(openapi: JsonObject, asyncapi: JsonObject) -> str:
    """The whole page, for the two documents OpenAPI and AsyncAPI."""
    info: Any = openapi["info"]
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>tonearm {_text(info["version"])}: the interface</title>
<style>{_STYLE}</style>
<h1>tonearm {_text(info["version"])}: the interface</h1>
<p>For programs: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1) and
<a href="/asyncapi.json">/asyncapi.json</a> (AsyncAPI 3.0, the sockets).
<p id="find" hidden><label>Find <input type="search"></label>
{docs_sections(openapi, asyncapi)}
<script>{_SCRIPT}</script>
</html>
"""


def docs_sections(openapi: JsonObject, asyncapi: JsonObject) -> str:
    """The content of the page: all paths by tag, the messages of the sockets, and the models."""
    paths: Any = openapi["paths"]
    sockets: Any = asyncapi
    components: Any = openapi["components"]
    schemas: dict[str, Any] = {**sockets["components"]["schemas"], **components["schemas"]}
    info: Any = openapi["info"]
    operations = [(method.upper(), path, operation) for path, at in paths.items() for method, operation in at.items()]
    tags = list(dict.fromkeys(operation["tags"][0] for _, _, operation in operations))
    sections = "\n".join(
        f'<h2 id="{tag}">{tag}</h2>\n'
        + "\n".join(_operation(*operation) for operation in operations if operation[2]["tags"][0] == tag)
        for tag in tags
    )
    messages = "\n".join(_message(name, message) for name, message in sockets["components"]["messages"].items())
    models = "\n".join(
        f'<details id="{_anchor(name)}"><summary><code>{_text(name)}</code></summary>{_model(schema)}</details>'
        for name, schema in sorted(schemas.items())
    )
    links = " ".join(f'<a href="#{name}">{name}</a>' for name in (*tags, "Messages", "Models"))
    return f"""<p>{_prose(info["description"])}
<nav aria-label="Sections">{links}</nav>
{sections}
<h2 id="Messages">Messages</h2>
<p>{_prose(sockets["info"]["description"])}
{messages}
<h2 id="Models">Models</h2>
{models}
"""


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"<p>{_prose(operation['description'])}"] if "description" in operation else []
    if operation["parameters"]:
        rows = (
            (
                f"<code>{_text(parameter['name'])}</code>{' (required)' if parameter['required'] else ''}",
                parameter["in"],
                _type(parameter["schema"]),
                _prose(parameter["description"]),
                f"<code>{_text(str(parameter['example']))}</code>",
            )
            for parameter in operation["parameters"]
        )
        parts.append(_table(("Parameter", "in", "Type", "", "Example"), rows))
    if "requestBody" in operation:
        media_type, content = next(iter(operation["requestBody"]["content"].items()))
        needed = "" if operation["requestBody"]["required"] else " (optional)"
        kind = _type(content["schema"]) if media_type == "application/json" else f"<code>{media_type}</code>"
        parts.append(f"<p>Body{needed}: {kind}")
        for title, example in content.get("examples", {}).items():
            parts.append(f"<pre>{_text(title)}:\n{_text(json.dumps(example['value'], ensure_ascii=False))}</pre>")
    answers = (
        (status, _prose(response["description"]), _reply_type(response), _headers(response))
        for status, response in operation["responses"].items()
    )
    parts.append(_table(("Status", "", "Body", "Headers"), answers))
    return (
        f'<details id="{operation["operationId"]}"><summary><b>{method}</b> <code>{_text(path)}</code> '
        f"{_text(operation['summary'])}</summary>\n{''.join(parts)}</details>"
    )


def _message(name: str, message: Mapping[str, Any]) -> str:
    payload = f"<p>{_type(message['payload'])}" if "payload" in message else ""
    text = f"<p>{_prose(message['description'])}" if "description" in message else ""
    return f"<details><summary><b>{_text(name)}</b> {_prose(message['summary'])}</summary>{payload}{text}</details>"


def _model(schema: Mapping[str, Any]) -> str:
    text = f"<p>{_prose(schema['description'])}" if "description" in schema else ""
    if "properties" not in schema:
        return f"{text}<p>{_type(schema)}"
    required = schema.get("required", ())
    rows = (
        (
            f"<code>{_text(name)}</code>{' (required)' if name in required else ''}",
            _type(field),
            _prose(field.get("description", "")),
        )
        for name, field in schema["properties"].items()
    )
    return text + _table(("Field", "Type", ""), rows)


def _reply_type(response: Mapping[str, Any]) -> str:
    return " or ".join(
        f"<code>{media_type}</code>{': ' + _type(content['schema']) if 'schema' in content else ''}"
        for media_type, content in response.get("content", {}).items()
    )


def _headers(response: Mapping[str, Any]) -> str:
    return " ".join(
        f"<code>{_text(name)}</code> {_prose(header['description'])}"
        for name, header in response.get("headers", {}).items()
    )


def _type(schema: Mapping[str, Any]) -> str:
    """A short text for a schema: its type, range and default."""
    for way in ("anyOf", "oneOf"):
        if way in schema and not {"properties", "type"} & schema.keys():
            return " or ".join(_type(one) for one in schema[way])
    if "allOf" in schema:
        return _type(schema["allOf"][0])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{_anchor(name)}">{_text(name)}</a>'
    if schema.get("type") == "array":
        words = f"array of {_type(schema.get('items', {}))}"
    elif "enum" in schema or "const" in schema:
        words = ", ".join(f"<code>{_text(json.dumps(one))}</code>" for one in schema.get("enum", [schema.get("const")]))
    else:
        words = _text(str(schema.get("type", "any JSON")))
    limits = [
        f"{text} {_text(str(schema[name]))}"
        for name, text in (
            *(("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"), ("exclusiveMaximum", "below")),
            *(("minLength", "characters from"), ("maxLength", "characters to"), ("pattern", "as")),
            *(("minItems", "entries from"), ("maxItems", "entries to")),
        )
        if name in schema
    ]
    if "default" in schema:
        limits.append(f"default <code>{_text(json.dumps(schema['default']))}</code>")
    return ", ".join((words, *limits))


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col">{text}' for text in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in rows)
    return f"<table>\n<tr>{head}\n{body}\n</table>"


def _prose(text: str) -> str:
    """HTML of a text that has `code` in backticks."""
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _text(text: str) -> str:
    return html.escape(text)


def _anchor(name: str) -> str:
    return f"model-{html.escape(name)}"
