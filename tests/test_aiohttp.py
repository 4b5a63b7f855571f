"""The parts of aiohttp that are used here and that it does not promise to keep: an upgrade fails here, in words."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import TCPConnector, web
from aiohttp.client_proto import ResponseHandler

from tonearm.server.http_server import ConnectionLimits, EdgeHttpServer

SRC = Path(__file__).parents[1] / "src" / "tonearm"

# What our classes take from those of aiohttp that they extend: how it must be, and what needs it.
ATTRIBUTES: dict[str, tuple[type[Any], Callable[[Any], bool], str]] = {
    "_loop": (web.RequestHandler, lambda value: hasattr(value, "call_later"), "the time limit of a request"),
    "_payload_parser": (web.RequestHandler, lambda value: value is None, "telling a WebSocket from a request"),
    "_upgraded": (web.RequestHandler, lambda value: value is False, "telling a WebSocket from a request"),
    "_request_in_progress": (web.RequestHandler, lambda value: value is False, "who answers that a body came too late"),
    "_reading_paused": (web.RequestHandler, lambda value: value is False, "who waits for whom while a file is sent"),
    "_prepare_hook": (web.BaseRequest, callable, "headers that every answer to a page has"),
    "_factory": (TCPConnector, callable, "answers that begin with `ICY`, as SHOUTcast's do"),
    "set_response_params": (ResponseHandler, callable, "answers that begin with `ICY`, as SHOUTcast's do"),
}


async def made() -> dict[type[Any], Any]:
    """One of each class, where its instances have what the class has not."""

    async def handler(_: object) -> web.Response:
        return web.Response()

    connector = TCPConnector()
    await connector.close()
    return {web.RequestHandler: EdgeHttpServer(handler, ConnectionLimits())(), TCPConnector: connector}


@pytest.mark.parametrize("name", ATTRIBUTES)
async def test_what_aiohttp_does_not_promise_is_there(name: str) -> None:
    owner, is_right, use = ATTRIBUTES[name]
    holder = (await made()).get(owner, owner)
    what = f"aiohttp's {owner.__name__}.{name}, needed for {use},"
    assert hasattr(holder, name), f"{what} is gone: find another way, or keep to the version before"
    assert is_right(getattr(holder, name)), f"{what} is another thing now: {getattr(holder, name)!r}"


def test_no_other_private_part_of_aiohttp_is_used() -> None:
    extended = {owner.__name__ for owner, _, _ in ATTRIBUTES.values()} | {"Server"}
    used: set[str] = set()
    for path in SRC.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "aiohttp" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and extended & {ast.unparse(base).split(".")[-1] for base in node.bases}:
                used |= _inherited(node)
    assert used == {name for name in ATTRIBUTES if name.startswith("_")}


def _inherited(node: ast.ClassDef) -> set[str]:
    """The private names that a class takes from those that it extends."""
    own = {item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
    own |= {ast.unparse(item.target) for item in node.body if isinstance(item, ast.AnnAssign)}
    taken: set[str] = {name for name in own & ATTRIBUTES.keys() if name.startswith("_")}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            if isinstance(part.ctx, ast.Store) and part.attr not in ATTRIBUTES:
                own.add(part.attr)
            elif part.attr.startswith("_"):
                taken.add(part.attr)
    return {name for name in taken if name in ATTRIBUTES or name not in own}
