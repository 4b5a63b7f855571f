"""Each operation of the description, in each way in which it is refused before it begins."""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from tests.support.edge import StillNode, all_operations, running_edge
from tests.support.http_client import WEBSOCKET_HEADERS, Headers, request, send_json
from tonearm.description.operation import Operation
from tonearm.description.players import PUT_RECORD, SKIP
from tonearm.server.app import EdgeSettings

PASSWORD: Headers = (("Authorization", "secret"),)
GUARDED = EdgeSettings(password="secret")


def path_of(operation: Operation, name: str = "p") -> str:
    return re.sub(r"{\w+}", name, operation.path)


ROUTES = [(one.method, path_of(one)) for one in all_operations(GUARDED)]
UNKNOWN = [("GET", "/"), ("GET", "/v0/nothing"), ("PUT", "/v0/players"), ("PROPFIND", "/info"), ("OPTIONS", "*")]
WAYS: tuple[Headers, ...] = ((), WEBSOCKET_HEADERS, (("Upgrade", "websocket"),), (("Expect", "100-continue"),))


async def test_without_the_password_nothing_is_answered(node: StillNode) -> None:
    async with running_edge(node, GUARDED) as port:
        for (method, path), headers in product(ROUTES + UNKNOWN, WAYS):
            answer = await request(port, method, path, headers=headers)
            assert (answer.status, answer.json()["code"]) == (401, "unauthorized"), (method, path, headers)


async def test_pages_of_other_sites_reach_nothing(node: StillNode, port: int) -> None:
    """A page whose name leads here sends no Origin with what it gets; elements of other sites never do."""
    paths = {path for method, path in [*ROUTES, ("GET", "/none")] if method == "GET"}
    upgrades = {path: WEBSOCKET_HEADERS for path in paths if path.endswith(("/ws", "/events"))}
    sites = [
        ("Origin", "http://evil.example"),
        *(("Sec-Fetch-Site", f"{one}-site") for one in ("cross", "same", "Cross")),
    ]
    asked = [*product([(port, ())], [*sites, ("Host", "evil.example:2333")])]
    async with running_edge(node, GUARDED) as guarded:
        for path, ((at, more), site) in product(paths, (*asked, *product([(guarded, PASSWORD)], sites))):
            answer = await request(at, "GET", path, headers=(site, *upgrades.get(path, ()), *more))
            assert (answer.status, answer.json()["code"]) == (403, "foreign_origin"), (path, site)
            assert site[0] != "Host" or "server.hosts" in answer.json()["message"]


async def test_a_wrong_method_is_told_the_right_ones(port: int) -> None:
    methods: dict[str, set[str]] = {}
    for operation in all_operations(EdgeSettings()):
        at_path = methods.setdefault(path_of(operation), set())
        at_path |= {operation.method, "HEAD"} if operation.method == "GET" else {operation.method}
    for path, known in methods.items():
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - known:
            answer = await request(port, method, path, body=b"[]")
            assert (answer.status, answer.header("Allow")) == (405, ", ".join(sorted(known))), (method, path)
            assert answer.json()["code"] == "method_not_allowed"


async def test_a_player_that_is_not_there_is_told(port: int) -> None:
    for one in all_operations(of_cluster=False):
        if "{player_id}" in one.path and one is not PUT_RECORD:
            answer = await request(port, one.method, path_of(one, "nobody"), headers=WEBSOCKET_HEADERS, body=b"{")
            assert (answer.status, answer.json()["code"]) == (404, "player_not_found"), one.path


ANY = {"metadata", "value"}
MAY_BE_NULL = {"timescale", "tremolo", "endpoint", "info.uri", "info.artworkUrl", "info.isrc"}


def wrong_bodies(body: Mapping[str, Any], place: str = "") -> Iterator[tuple[Any, str]]:
    """Bodies of which one field, which is named, has a value of another kind."""
    for name, value in body.items():
        named = place + name
        number = isinstance(value, int | float) and not isinstance(value, bool)
        for other in (1, "1", True, [], {}, *(() if named in MAY_BE_NULL else (None,))):
            if name not in ANY and value is not None and type(other) is not (int if number else type(value)):
                yield {**body, name: other}, named
        inside = value if isinstance(value, dict) and name not in ANY else {}
        yield from (({**body, name: inner}, at) for inner, at in wrong_bodies(inside, f"{named}."))
        for first in value[:1] if isinstance(value, list) else ():
            yield from (({**body, name: [inner, *value]}, at) for inner, at in wrong_bodies(first, f"{named}.0."))


async def test_a_field_of_another_kind_or_a_missing_one_is_named(node: StillNode, port: int) -> None:
    for operation in all_operations(of_cluster=False):
        if operation.body is None or operation in (PUT_RECORD, SKIP) or operation.path.startswith("/dashboard"):
            continue
        for example in operation.body.examples.values():
            wrong: list[tuple[Any, str]] = [
                ("x", ""),
                (1, ""),
                (None, ""),
                ([] if isinstance(example, dict) else {}, ""),
            ]
            if isinstance(example, dict):
                fields = getattr(operation.body.model, "model_fields", {})
                names = [field.alias or name for name, field in fields.items() if field.is_required()]
                wrong += [({key: value for key, value in example.items() if key != name}, name) for name in names]
                wrong += wrong_bodies(example)
            for body, named in wrong:
                answer = await send_json(port, operation.method, path_of(operation), body)
                assert (answer.status, answer.json()["code"]) == (400, "bad_request"), (operation.path, body)
                assert (f"`{named}`" if named else "must be an") in answer.json()["message"]
    assert node.player("p").status().last_seq == 0
