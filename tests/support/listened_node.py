"""A server with a player's two sockets, whose messages the test chooses."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from aiohttp import web

from tests.support.serving import serving
from tests.support.tracks import make_status, make_track
from tonearm.core.filters import Filters
from tonearm.core.metadata import JsonObject
from tonearm.protocol.events import EVENT, AnyEvent
from tonearm.protocol.rendering import filters_out, player_out, track_out

Talk = Callable[[web.WebSocketResponse], Awaitable[None]]


async def say_nothing(socket: web.WebSocketResponse) -> None:
    """Keeps the socket open until the client leaves."""
    async for _ in socket:
        pass


async def tell_the_state(socket: web.WebSocketResponse) -> None:
    """Of a player that plays `Singer - Song`, and nothing else."""
    await socket.send_str(event("PlayerState", state="playing", track=track("Song", "Singer"), trackId="t"))
    await say_nothing(socket)


@dataclass
class ListenedNode:
    """`audio` and `events` talk on the sockets of every player."""

    audio: Talk = say_nothing
    events: Talk = tell_the_state
    url: str = ""
    asked: list[str] = field(default_factory=list)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.raw_path)
        if request.path == "/info":
            return web.json_response({"version": "0.0.1", "buildTime": 1})
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await (self.audio if request.path.endswith("/ws") else self.events)(socket)
        return socket

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ListenedNode"]:
        app = web.Application()
        app.router.add_get("/v0/players/{player}/{socket:ws|events}", self._answer)
        app.router.add_get("/v0/players/{player}", self._answer)
        app.router.add_get("/info", self._answer)
        async with serving(app) as port:
            self.url = f"http://127.0.0.1:{port}"
            yield self


def event(op: str, **fields: object) -> str:
    """With all that such an event has; of `fields` those that matter. Filters and the state are of a new player."""
    filters = fields.get("filters")
    if isinstance(filters, dict):
        fields["filters"] = {**filters_out(Filters()), **filters}
    whole = (
        player_out(make_status("p"))
        if op == "PlayerState"
        else {"trackId": "t", "overlayId": "o", "uri": "x", "position": 0}
    )
    return json.dumps({"op": op, "id": "p", "life": "1ife1ife", "time": 0, **whole, "seq": 1, **fields})


def seen(op: str, **fields: object) -> AnyEvent:
    """The same, as the client has it."""
    return EVENT.validate_json(event(op, **fields))


def track(title: str, author: str = "", length_ms: int = 0, is_stream: bool = False) -> JsonObject:
    whole = track_out(make_track("a").info, {})
    info = cast(JsonObject, whole["info"])
    return {**whole, "info": {**info, "title": title, "author": author, "length": length_ms, "isStream": is_stream}}
