"""The parts of aiohttp that are used here and that it does not promise to keep: an upgrade fails here, in words."""

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import TCPConnector, web
from aiohttp.client_proto import ResponseHandler

from tonearm.server.http_server import ConnectionLimits, EdgeHttpServer

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


@pytest.mark.parametrize("name", ATTRIBUTES)
async def test_what_aiohttp_does_not_promise_is_there(name: str) -> None:
    owner, is_right, use = ATTRIBUTES[name]
    holder: Any = owner
    if owner is web.RequestHandler:  # whose instances have what the class has not
        holder = EdgeHttpServer(lambda _: web.Response(), ConnectionLimits())()  # type: ignore[arg-type,return-value]
    elif owner is TCPConnector:
        holder = TCPConnector()
        await holder.close()
    what = f"aiohttp's {owner.__name__}.{name}, needed for {use},"
    assert hasattr(holder, name), f"{what} is gone: find another way, or keep to the version before"
    assert is_right(getattr(holder, name)), f"{what} is another thing now: {getattr(holder, name)!r}"
