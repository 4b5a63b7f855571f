"""Routes, models and descriptions are held together: what one of them gets, the others must get, too."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, get_args

import jsonschema_rs
import pytest

from tests.support import readme
from tests.support.edge import all_operations
from tonearm import VERSION
from tonearm.core.errors import ErrorCode
from tonearm.description.asyncapi import asyncapi_document
from tonearm.description.openapi import openapi_document
from tonearm.description.page import docs_page
from tonearm.protocol import events
from tonearm.server.routes_node import status_of_code

OPERATIONS: Final = all_operations()
INTERFACE: Final = "\n".join(readme.INTERFACE.values())


@pytest.fixture(scope="module")
def openapi() -> Any:
    return openapi_document(VERSION, OPERATIONS, status_of_code())


@pytest.fixture(scope="module")
def asyncapi() -> Any:
    return asyncapi_document(VERSION)


def test_the_document_is_what_openapi_3_1_asks_for(openapi: Any) -> None:
    """By the format's own schema, defaults and parameters of paths among it."""
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert [str(error) for error in OpenAPIV31SpecValidator(openapi).iter_errors()] == []


def operations(openapi: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_what_every_answer_may_be_is_described(openapi: Any) -> None:
    """Also of a body of bytes, which may end early, and of a player whose node cannot be reached."""
    for path, method, operation in operations(openapi):
        place = (method, path)
        is_of_player = path.startswith("/v0/players/") or place == ("post", "/v0/players")
        for status, response in operation["responses"].items():
            headers = response.get("headers", {})
            may_be_unsaved = method != "get" and path.startswith("/v0/players") and status < "400"
            assert ("Tonearm-Unsaved" in headers) == may_be_unsaved, (place, status)
            assert ("Tonearm-Node" in headers) == (is_of_player and status < "400"), (place, status)
            assert ("Retry-After" in headers) == (status == "429"), (place, status)
        assert "429" in operation["responses"], place
        if "requestBody" in operation:
            for status, code in (("400", "bad_request"), ("413", "body_too_large")):
                assert f"`{code}`" in operation["responses"][status]["description"], place
        codes = operation["responses"]["503"]["description"]
        assert ("`engine_lost`, `internal`, `node_unreachable`" in codes) == is_of_player, place
        assert ("`engine_lost`" in codes) == is_of_player, place


def test_every_code_of_a_refusal_can_be_found(openapi: Any) -> None:
    statuses = status_of_code()
    everywhere = {"not_found", "method_not_allowed"}  # of no path: they stand in the document's own description
    named = {code for operation in OPERATIONS for code in operation.codes} | everywhere
    named |= {"unauthorized", "foreign_origin", "internal", "player_not_found", "bad_request", "body_too_large"}
    named |= {"engine_lost"}
    assert set(get_args(ErrorCode)) == set(statuses) == named
    assert all(f"`{code}`" in openapi["info"]["description"] for code in everywhere)


def test_the_document_in_words_says_the_same(openapi: Any, asyncapi: Any) -> None:
    """docs/interface.md and its pages name every path, parameter, field, code and event."""
    for operation in OPERATIONS:
        path = operation.path.replace("{player_id}", "{id}")
        path = path.replace("{track_id}", "{trackId}").replace("{overlay_id}", "{overlayId}")
        path = path.replace("{sound_id}", "{id}").removesuffix("/{node}")
        last = path.rpartition("/")[2] or path
        assert path in INTERFACE or f"`/{last}`" in INTERFACE or f".{last.rpartition('.')[2]}`" in INTERFACE, path
        for parameter in operation.parameters:
            assert re.search(rf"\b{re.escape(parameter.name)}\b", INTERFACE), (path, parameter.name)
    for schemas in (openapi["components"]["schemas"], asyncapi["components"]["schemas"]):
        for name, schema in schemas.items():
            for field in schema.get("properties", {}):
                assert re.search(rf"\b{field}\b", INTERFACE), f"docs/interface/ does not name {name}.{field}"
    for code in get_args(ErrorCode):
        assert f"`{code}`" in INTERFACE, code


def test_everything_is_said_in_words_with_examples_that_the_schemas_allow(openapi: Any) -> None:
    for path, method, operation in operations(openapi):
        assert operation["summary"], path
        for parameter in operation["parameters"]:
            assert parameter["description"], (path, parameter["name"])
            jsonschema_rs.validate(parameter["schema"], parameter["example"])
        body = operation.get("requestBody", {"content": {}})["content"].get("application/json")
        if body is not None:
            schema = {**body["schema"], "components": openapi["components"]}
            assert body["examples"], path
            for title, example in body["examples"].items():
                assert jsonschema_rs.is_valid(schema, example["value"]), (method, path, title)


def test_every_reference_leads_somewhere(asyncapi: Any) -> None:
    for reference in re.findall('"#/([^"]+)"', json.dumps(asyncapi)):
        target = asyncapi
        for part in reference.split("/"):
            assert part in target, reference
            target = target[part]


def test_every_event_is_a_message_of_its_socket(asyncapi: Any) -> None:
    kinds = {event.__name__ for event in get_args(get_args(events.AnyEvent)[0])}
    channels = asyncapi["channels"]
    assert set(channels["allEvents"]["messages"]) == kinds
    assert set(channels["events"]["messages"]) == kinds - {"PlayerCreate", "EventsLost"}
    assert {channel["address"] for channel in channels.values()} >= {
        operation.path for operation in OPERATIONS if operation.replies[0].status == 101
    }


def test_the_page_shows_all_of_it_and_asks_nobody(openapi: Any, asyncapi: Any) -> None:
    page = docs_page(openapi, asyncapi)
    for operation in OPERATIONS:
        assert f"<b>{operation.method}</b> <code>{operation.path}</code>" in page
    anchors = set(re.findall(r'id="([^"]+)"', page))
    links = set(re.findall(r'(?:href|src)="([^"]+)"', page))
    assert {link for link in links if not link.startswith("#")} == {"/openapi.json", "/asyncapi.json"}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert not re.search(r"url\(|@import| on[a-z]+=| style=", page)
