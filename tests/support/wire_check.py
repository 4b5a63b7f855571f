"""Holds what a client receives against the models of the wire: every field is known, and of its exact type.

Wherever the tests' clients take a reply or an event they call this module, so each test checks the wire beside its own
subject. Bodies of foreign paths are not looked at.
"""

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from tonearm.description import audio, cluster, node, players, voice
from tonearm.description.operation import Operation
from tonearm.protocol import replies
from tonearm.protocol.events import EVENT


class _Answer(NamedTuple):
    """An answer with a JSON body, where a node describes one."""

    route: str
    status: int
    is_always_json: bool
    model: TypeAdapter[Any]


def _described() -> Iterator[_Answer]:
    for module in (audio, cluster, node, players, voice):
        for operation in vars(module).values():
            for reply in operation.replies if isinstance(operation, Operation) else ():
                if (model := reply.models.get("application/json")) is not None:
                    route = f"{operation.method} {re.sub('{.*?}', '[^/]+', operation.path)}"
                    yield _Answer(route, reply.status, len(reply.models) == 1, TypeAdapter(model))


_DESCRIBED: Final = tuple(_described())
_WITHOUT_DETAILS: Final[TypeAdapter[Any]] = TypeAdapter(list[replies.QueuedTrack])
_PLAYER: Final[TypeAdapter[Any]] = TypeAdapter(replies.Player)
_ERROR: Final[TypeAdapter[Any]] = TypeAdapter(replies.Error)
_PICTURES: Final = ("image/jpeg", "image/png", "image/webp", "image/gif")


def check_reply(method: str, target: str, status: int, content_type: str | None, body: bytes) -> None:
    """An answer of a node to `method` and `target`, which may be absolute and have a query."""
    path, _, query = re.sub("^https?://[^/]*", "", target).partition("?")
    route = f"{method} {path}"
    if status >= 400 and path in ("/dashboard", "/dashboard/") and content_type == "text/html; charset=utf-8":
        return  # to a browser
    if status >= 400:
        assert content_type == "application/json", (route, status, content_type)
        check_model(_ERROR, body)
        return
    if re.fullmatch("GET /v0/players/[^/]+/artwork", route):
        assert status == 304 or (status == 200 and content_type in _PICTURES), (route, status, content_type)
        return
    described = [answer for answer in _DESCRIBED if re.fullmatch(answer.route, route)]
    if described:
        assert status in {answer.status for answer in described}, (route, status)
        _, _, is_always_json, model = described[0]
        if content_type == "application/json" or is_always_json:
            assert content_type == "application/json", (route, content_type)
            is_plain_queue = route.endswith("/queue") and "details=true" not in query and method == "GET"
            check_model(_WITHOUT_DETAILS if is_plain_queue else model, body)


def check_event(text: str) -> None:
    """A message of an event socket."""
    check_model(EVENT, text)


def check_player(state: object) -> None:
    """A player's whole state, as GET /v0/players/{id} answers it."""
    check_model(_PLAYER, json.dumps(state))


def check_model(model: TypeAdapter[Any], text: str | bytes) -> None:
    """A text of JSON is just what `model` describes."""
    value = json.loads(text)
    read = model.validate_python(value)
    # What the model does not know is missing then; what it changed is different.
    written = model.dump_python(read, by_alias=True, exclude_unset=True)
    assert _typed(written) == _typed(value), f"{text!r} is not what the models describe: {written}"


def _typed(value: Any) -> Any:
    """`value` with its types, because to Python true is 1 and 1 is 1.0."""
    if isinstance(value, dict):
        return {name: _typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if isinstance(value, StrEnum):
        value = value.value
    return type(value).__name__, value
