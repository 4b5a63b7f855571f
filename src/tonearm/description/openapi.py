"""The OpenAPI 3.1 document of all paths, made from the models in `protocol` and from the operations.

The format: https://spec.openapis.org/oas/v3.1.0. Schemas are JSON Schema 2020-12, as pydantic makes it.
"""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from tonearm.core.metadata import Json, JsonObject
from tonearm.description.operation import TAGS, Operation, Parameter, Reply, Subject
from tonearm.protocol.replies import Error

_REF: Final = "#/components/schemas/{model}"
_MODE: Final[JsonSchemaMode] = "validation"

# The error codes that any request may get.
_EVERYWHERE: Final = ("unauthorized", "foreign_origin", "limit_reached", "internal")
# And those of a request about a player, at any node of a cluster.
_IN_CLUSTER: Final = ("engine_lost", "node_unreachable")
_ONE_PLAYER: Final = (Subject.PLAYER, Subject.NEW_PLAYER)
_RETRY_AFTER: Final[JsonObject] = {
    "Retry-After": {
        "description": "Seconds until the address may send the next request.",
        "schema": {"type": "integer"},
    }
}

_PATH_PARAMETERS: Final[Mapping[str, Parameter]] = {
    "node": Parameter(
        "node",
        "The node's name, or `self` for the node that gets the request.",
        {"type": "string"},
        "self",
        "path",
        is_required=True,
    ),
    "player_id": Parameter(
        "player_id",
        "The player's id.",
        {"type": "string", "pattern": "^[A-Za-z0-9._~:@+-]{1,128}$", "not": {"enum": [".", ".."]}},
        "tour",
        "path",
        is_required=True,
    ),
    "track_id": Parameter(
        "track_id",
        "The id of the waiting track.",
        {"type": "string"},
        "3e92f5dc-b019-4c0f-984e-6fcf23e871b2",
        "path",
        is_required=True,
    ),
    "sound_id": Parameter(
        "sound_id",
        "The part after `sound:` in the sound's URI.",
        {"type": "string"},
        "3fa1c0de5eed4b1d9a0b7c6d5e4f3a21",
        "path",
        is_required=True,
    ),
    "overlay_id": Parameter(
        "overlay_id",
        "The id of the overlay.",
        {"type": "string"},
        "8d3679e8-442b-4c07-bf92-dd212c5a5d20",
        "path",
        is_required=True,
    ),
}


def openapi_document(version: str, operations: Iterable[Operation], status_of_code: Mapping[str, int]) -> JsonObject:
    """The whole document, for the `operations` that have a tag. `status_of_code`: the HTTP status of each error
    code."""
    shown = sorted((operation for operation in operations if operation.tag), key=lambda one: TAGS.index(one.tag))
    schemas = _schemas(shown)
    paths: dict[str, Json] = {}
    for operation in shown:
        at = paths.setdefault(operation.path, {})
        assert isinstance(at, dict)
        at[operation.method.lower()] = _operation(operation, schemas.by_model, status_of_code)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tonearm",
            "version": version,
            "summary": "An audio node: it plays URIs as 20 ms frames for its listeners.",
            "description": (
                "JSON bodies may have any content type. Unknown fields are ignored, and the header `Tonearm-Ignored` "
                "names them. Unknown filters are refused. Times are in ms unless a name says otherwise. "
                "Each GET path also supports HEAD. A wrong method gets 405 `method_not_allowed`. An unknown path "
                "gets 404 `not_found`."
            ),
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{"password": []}, {}],
        "tags": [{"name": tag} for tag in TAGS],
        "paths": paths,
        "components": {
            "schemas": schemas.definitions,
            "securitySchemes": {
                "password": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "The bare password, if there is one; with `server.schemes` also Bearer or Basic.",
                }
            },
        },
    }


class _Schemas(NamedTuple):
    """`definitions` by name, and the schema of each model by the model's `repr`."""

    definitions: JsonObject
    by_model: Mapping[str, JsonObject]


def _schemas(operations: Iterable[Operation]) -> _Schemas:
    models: dict[str, Any] = {repr(Error): Error}
    for operation in operations:
        if operation.body is not None:
            models[repr(operation.body.model)] = operation.body.model
        for reply in operation.replies:
            models.update({repr(model): model for model in reply.models.values() if model is not None})
    return schemas_of(models)


def schemas_of(models: Mapping[str, Any]) -> _Schemas:
    """The JSON Schema of each of `models`, by the key of the model."""
    made, definitions = TypeAdapter.json_schemas(
        [(name, _MODE, TypeAdapter(model)) for name, model in models.items()], ref_template=_REF
    )
    return _Schemas(
        {name: _plain(schema) for name, schema in definitions.get("$defs", {}).items()},
        {str(name): _plain(schema) for (name, _), schema in made.items()},
    )


def _plain(schema: Any) -> Any:
    """`schema` without the titles that pydantic makes of names."""
    if isinstance(schema, dict):
        return {name: _plain(item) for name, item in schema.items() if name != "title" or not isinstance(item, str)}
    return [_plain(item) for item in schema] if isinstance(schema, list) else schema


def _operation(
    operation: Operation, schemas: Mapping[str, JsonObject], status_of_code: Mapping[str, int]
) -> JsonObject:
    arguments = [_PATH_PARAMETERS[name] for name in re.findall(r"{(\w+)}", operation.path)]
    described: JsonObject = {
        "tags": [operation.tag],
        "operationId": _operation_id(operation),
        "summary": operation.summary,
        "parameters": [_parameter(parameter) for parameter in (*arguments, *operation.parameters)],
        "responses": _responses(operation, schemas, status_of_code),
    }
    if operation.text:
        described["description"] = operation.text
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.body.is_required,
            "content": {
                "application/json": {
                    "schema": schemas[repr(operation.body.model)],
                    "examples": {title: {"value": value} for title, value in operation.body.examples.items()},
                }
            },
        }
    if operation.takes_bytes:
        raw: JsonObject = {"schema": {"type": "string", "format": "binary"}}
        described["requestBody"] = {"required": True, "content": {"application/octet-stream": raw}}
    return described


def _operation_id(operation: Operation) -> str:
    """A name in camelCase, such as `getPlayersQueue`, for generators of clients."""
    words = re.findall(r"[A-Za-z]+", re.sub(r"/v0/|{\w+}", "/", operation.path)) or ["index"]
    argument = "One" if operation.path.endswith("}") else ""
    return operation.method.lower() + "".join(word[:1].upper() + word[1:] for word in words) + argument


def _parameter(parameter: Parameter) -> JsonObject:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_required,
        "description": parameter.text,
        "schema": parameter.schema,
        "example": parameter.example,
    }


def codes_of(operation: Operation) -> tuple[str, ...]:
    """All error codes that the operation may answer with, at a node alone or in a cluster."""
    codes = [*_EVERYWHERE, *operation.codes]
    if operation.subject is Subject.PLAYER:
        codes.append("player_not_found")
    if operation.subject in _ONE_PLAYER:
        codes += _IN_CLUSTER
    has_body = operation.body is not None or operation.takes_bytes
    if operation.parameters or has_body:
        codes.append("bad_request")
    if has_body:
        codes.append("body_too_large")
    return tuple(dict.fromkeys(codes))


def _responses(
    operation: Operation, schemas: Mapping[str, JsonObject], status_of_code: Mapping[str, int]
) -> JsonObject:
    responses: JsonObject = {str(reply.status): _reply(reply, schemas, operation) for reply in operation.replies}
    by_status: dict[int, list[str]] = {}
    for code in codes_of(operation):
        by_status.setdefault(status_of_code[code], []).append(code)
    by_status.setdefault(HTTPStatus.SERVICE_UNAVAILABLE, []).append("internal")  # the node is shutting down
    for status, codes in sorted(by_status.items()):
        shown: list[Json] = [*sorted(codes)]
        only: JsonObject = {"properties": {"code": {"enum": shown}, "status": {"const": int(status)}}}
        responses[str(int(status))] = {
            "description": f"{HTTPStatus(status).phrase}: {', '.join(f'`{code}`' for code in sorted(codes))}.",
            "content": {"application/json": {"schema": {"allOf": [schemas[repr(Error)], only]}}},
            **({"headers": _RETRY_AFTER} if status == HTTPStatus.TOO_MANY_REQUESTS else {}),
        }
    return responses


def _reply(reply: Reply, schemas: Mapping[str, JsonObject], operation: Operation) -> JsonObject:
    described: JsonObject = {"description": reply.text}
    headers: JsonObject = {
        name: {"description": text, "required": True, "schema": {"type": "string"}}
        for name, text in reply.headers.items()
    }
    if operation.body is not None:
        headers["Tonearm-Ignored"] = {
            "description": "The unknown fields of the body; absent when there are none.",
            "schema": {"type": "string"},
        }
    if operation.subject in _ONE_PLAYER:
        headers["Tonearm-Node"] = {
            "description": "In a cluster: the node that has the player; otherwise absent.",
            "schema": {"type": "string"},
        }
    if operation.method != "GET" and operation.subject in _ONE_PLAYER:
        headers["Tonearm-Unsaved"] = {
            "description": "`true` if the change is done, but not yet saved; otherwise absent.",
            "schema": {"const": "true"},
        }
    if headers:
        described["headers"] = headers
    if reply.models:
        described["content"] = {
            media_type: {"schema": schemas[repr(model)]} if model is not None else {}
            for media_type, model in reply.models.items()
        }
    return described
