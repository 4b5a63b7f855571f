"""The public address: anybody may listen to some players there, and do nothing else.

No request costs more than a listener: its query is ignored, so no bitrate can be chosen, and all listeners of a player
share an encoder for each format. Players that are not listed, players that do not exist, and unknown paths get the same
404.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from tonearm.core.errors import LimitReached, NoArtwork, PlayerNotFound, SourceBlocked, SourceRefused
from tonearm.node.node import Node
from tonearm.server.audio_streams import AudioStreamRoutes
from tonearm.server.errors import MethodNotAllowed, NotFound
from tonearm.server.http_server import EdgeRequest, while_connected
from tonearm.server.public_events import PublicEvents
from tonearm.server.public_page import PublicPage
from tonearm.server.replies import picture_reply
from tonearm.server.routing import PLAYER_ARGUMENT, Call, Edge, Handler, Target

_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_HEADERS: Final[Mapping[str, str]] = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "icy-name, icy-genre, icy-url, icy-br, icy-metaint",
}
_PREFLIGHT_HEADERS: Final[Mapping[str, str]] = {
    "Allow": ", ".join(_METHODS),
    "Access-Control-Allow-Methods": ", ".join(_METHODS),
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Max-Age": "600",
}
_NOTHING: Final = "There is nothing at this path."
_FULL: Final = "All places are taken. Try again later."

_PICTURES_AT_ONCE: Final = 4  # so many pictures are read at once for strangers
_UNREADABLE_KEPT: Final = 256


class PublicEdge(Edge):
    """`is_listed` says whether anybody may hear the player with an id."""

    def __init__(
        self,
        node: Node,
        is_listed: Callable[[str], bool],
        streams: AudioStreamRoutes,
        events: PublicEvents,
        page: PublicPage,
    ) -> None:
        super().__init__()
        self._node = node
        self._is_listed = is_listed
        self._streams = streams.handlers()
        self._pages = page.handlers()
        self._of_player: dict[str, Handler] = {"events": events.follow, "artwork": PublicArtwork(node).show}

    async def answer(self, request: EdgeRequest, target: Target) -> web.StreamResponse:
        request.reply_headers = _HEADERS
        if request.method not in _METHODS:
            raise MethodNotAllowed(request.method, _METHODS)
        if request.method == "OPTIONS":
            return web.Response(status=HTTPStatus.NO_CONTENT, headers=_PREFLIGHT_HEADERS)
        handler, player_id = self._find(target.segments)
        is_stream = handler in self._streams.values()
        if is_stream and request.method == "GET":
            request.let_in()  # other connections stay strangers, and give way when all places are taken
        try:
            return await handler(Call(request, Target(target.path, target.segments, ""), {PLAYER_ARGUMENT: player_id}))
        except LimitReached:
            raise LimitReached(_FULL) from None
        except (PlayerNotFound, NoArtwork, SourceBlocked, SourceRefused):
            raise NotFound(_NOTHING) from None

    def _find(self, segments: tuple[str, ...]) -> tuple[Handler, str]:
        """The handler of a path, and the player's id in it, or "". Raises `NotFound`."""
        handler: Handler | None = None
        player_id = ""
        match segments:
            case (name,) if name in self._pages:
                return self._pages[name], ""
            case (name,):
                player_id, _, kind = name.rpartition(".")
                handler = self._streams.get(kind)
            case (player_id, name):
                handler = self._of_player.get(name)
        if handler is None or not (self._node.has_player(player_id) and self._is_listed(player_id)):
            raise NotFound(_NOTHING)
        return handler, player_id


class PublicArtwork:
    """The pictures of current tracks. For strangers, files are opened only when they have a picture, a few at a time,
    and not again after a failure."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._places = asyncio.Semaphore(_PICTURES_AT_ONCE)
        self._unreadable: OrderedDict[str, None] = OrderedDict()  # the ids of tracks

    async def show(self, call: Call) -> web.Response:
        """Raises `NoArtwork`, and what `Node.artwork` raises."""
        track = self._node.player(call.player_id).status().track
        if not (track.is_known and track.info.has_picture) or track.id in self._unreadable:
            raise NoArtwork(_NOTHING)
        async with self._places:
            try:
                picture = await while_connected(call.request, self._node.artwork(call.player_id))
            except NoArtwork:
                self._unreadable[track.id] = None
                if len(self._unreadable) > _UNREADABLE_KEPT:
                    self._unreadable.popitem(last=False)
                raise
        return picture_reply(call.request, picture)
