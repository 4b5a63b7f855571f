"""A server with a player's two sockets, whose messages the test chooses."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Talk = Callable[[web.WebSocketResponse], Awaitable[None]]


async def say_nothing(socket: web.WebSocketResponse) -> None:
    """Keeps the socket open until the client leaves."""
    async for _ in socket:
        pass


@dataclass
class ListenedNode:
    """`audio` and `events` talk on the sockets of every player except `missing`."""

    audio: Talk = say_nothing
    events: Talk = say_nothing
    password: str = ""
    url: str = ""
    asked: list[str] = field(default_factory=list)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.raw_path)
        if request.headers.get("Authorization", "") != self.password:
            return web.json_response({"code": "unauthorized", "message": "No."}, status=401)
        if request.path == "/info":
            return web.json_response({"version": "0.0.1", "buildTime": 1})
        if request.match_info["player"] == "missing":
            body = {"code": "player_not_found", "message": "There is no player with this id."}
            return web.json_response(body, status=404)
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
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{site.port}"
            yield self
        finally:
            await runner.cleanup()


def event(op: str, **fields: object) -> str:
    return json.dumps({"op": op, "id": "p", "seq": 1, "time": 0, **fields})


def track(title: str, author: str = "", length_ms: int = 0, is_stream: bool = False) -> dict[str, object]:
    return {"info": {"title": title, "author": author, "length": length_ms, "isStream": is_stream}}
