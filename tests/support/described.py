"""Holds answers against the node's own OpenAPI description, and no field more."""

from typing import Any

import jsonschema_rs

from tests.support.http_client import Answer


def described_answer(openapi: Any, operation: Any, answer: Answer) -> None:
    """The status, the media type, the body and the headers that are named are those of `operation`."""
    described = operation["responses"].get(str(answer.status))
    assert described is not None, f"{answer.status} is not described for {operation['operationId']}: {answer.body!r}"
    headers = described.get("headers", {})
    for name, header in headers.items():
        assert not header.get("required") or answer.header(name) is not None, (operation["operationId"], name)
    own = {name for name, _ in answer.headers if name.startswith("Tonearm-") or name == "Retry-After"}
    assert own <= set(headers), operation["operationId"]
    content = described.get("content", {})
    if not content:
        assert answer.body == b"" or answer.status == 101
        return
    media_type = (answer.header("Content-Type") or "").partition(";")[0]
    assert media_type in content, (operation["operationId"], media_type)
    if media_type == "application/json":
        schema = strict({**content[media_type]["schema"], "components": openapi["components"]})
        jsonschema_rs.validate(schema, answer.json())


def strict(schema: Any) -> Any:
    """`schema` with no room for fields that it does not name; clients are to ignore those."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: strict(value) for name, value in schema.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        inner.setdefault("additionalProperties", False)
    return inner
