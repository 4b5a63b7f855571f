"""The public address: anybody may listen to some players there, and do nothing else.

No request costs more than a listener: its query is ignored, so no bitrate can be chosen, and all listeners of a player
share an encoder for each format. Players that are not listed, players that do not exist, and unknown paths get the same
404. The page works without scripts; its own script changes the titles as tracks change.
"""

import asyncio
import html
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from importlib import resources
from itertools import islice
from typing import Final

from aiohttp import web

from tonearm.core.errors import LimitReached, NoArtwork, PlayerNotFound, SourceBlocked, SourceRefused
from tonearm.core.events import (
    EventMessage,
    FiltersChange,
    PlayerPause,
    PlayerResume,
    PlayerUpdate,
    Seek,
    StreamTitle,
    TrackEnd,
    TrackStart,
)
from tonearm.core.player_status import PlayerStatus
from tonearm.node.node import Node
from tonearm.player.handle import PlayerHandle
from tonearm.protocol.events import public_state_text
from tonearm.protocol.framing import CloseCode
from tonearm.server.audio_settings import own_name
from tonearm.server.audio_streams import AudioStreamRoutes
from tonearm.server.http_server import EdgeRequest, while_connected
from tonearm.server.replies import MethodNotAllowed, NotFound, picture_reply
from tonearm.server.routing import PLAYER_ARGUMENT, Call, Edge, Handler, Target
from tonearm.server.sockets import SocketEventSink
from tonearm.server.streams import OpenStreams
from tonearm.server.websocket import WebSocketConnection

MAX_BEHIND: Final = 64  # messages, before a client is closed
SLICE_FOLLOWERS: Final = 50  # followers that get a message before the event loop goes on

# The events that change the title, the state or the position.
_TOLD: Final = (TrackStart, TrackEnd, StreamTitle, PlayerUpdate, PlayerPause, PlayerResume, Seek, FiltersChange)


class PublicEvents:
    """All followers of a player share an event client, and a message is made once for all of them. Each message has
    everything that strangers may know of the player at that moment."""

    def __init__(self, node: Node, streams: OpenStreams) -> None:
        self._node = node
        self._streams = streams
        self._windows: dict[str, PlayerWindow] = {}  # by the id of a player with followers

    async def follow(self, call: Call) -> web.StreamResponse:
        """The handler. Raises `UpgradeRequired` and `PlayerNotFound`."""
        connection = WebSocketConnection(call.request, self._streams)
        window = self._window(call.player_id)
        call.request.let_in(gives_way=True)  # to listeners, because following costs a client nothing
        return await connection.run(window.add(SocketEventSink(connection)))

    def _window(self, player_id: str) -> "PlayerWindow":
        window = self._windows.get(player_id)
        if window is None:
            window = PlayerWindow(self._node.player(player_id), lambda closed: self._forget(player_id, closed))
            self._windows[player_id] = window
        return window

    def _forget(self, player_id: str, window: "PlayerWindow") -> None:
        if self._windows.get(player_id) is window:  # not the window of a later player with the same id
            del self._windows[player_id]


class PlayerWindow:
    """An event client of one player, which sends its followers the public state. `closed` is called when the player is
    deleted, or when its last follower is removed."""

    def __init__(self, player: PlayerHandle, closed: "Callable[[PlayerWindow], None]") -> None:
        self._player = player
        self._closed = closed
        self._sinks: dict[SocketEventSink, None] = {}
        self._due: dict[SocketEventSink, None] = {}  # the followers that the newest state was not sent to yet
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = player.subscribe(self, since=None, wants_snapshot=False)

    def add(self, sink: SocketEventSink) -> Callable[[], None]:
        """Sends the state to `sink`, now and when it changes. Returns a call that stops it."""
        sink.send_text(public_state_text(self._player.status()))
        self._sinks[sink] = None
        return lambda: self._remove(sink)

    def send(self, message: EventMessage) -> None:
        if isinstance(message.event, _TOLD):
            if not self._due:
                self._loop.call_soon(self._tell)
            self._due = dict.fromkeys(self._sinks)

    def pending_bytes(self) -> int:
        """0: nothing waits here, and slow followers are closed."""
        return 0

    def pending_messages(self) -> int:
        return 0

    def close(self, code: int, reason: str) -> None:
        """The player was deleted, or the node stops."""
        self._closed(self)
        self._due = {}
        for sink in self._sinks:
            sink.close(code, reason)

    def abort(self) -> None:
        self._closed(self)
        self._due = {}
        for sink in self._sinks:
            sink.abort()

    def _tell(self) -> None:
        """Sends the state to some of the followers that are due, and to the others in the loop's next iterations."""
        some = tuple(islice(self._due, SLICE_FOLLOWERS))
        if not some:
            return
        text = public_state_text(self._player.status())
        for sink in some:
            self._due.pop(sink, None)
            if sink.pending_messages() < MAX_BEHIND:
                sink.send_text(text)
            else:
                self._remove(sink)
                sink.close(CloseCode.TOO_SLOW, "too slow")
        if self._due:
            self._loop.call_soon(self._tell)

    def _remove(self, sink: SocketEventSink) -> None:
        if sink in self._sinks:
            del self._sinks[sink]
            self._due.pop(sink, None)
            if not self._sinks:
                self._unsubscribe()
                self._closed(self)


MAX_SHOWN: Final = 200
_MADE_AGAIN_AFTER_S: Final = 1.0  # the shortest time between two makings of the page, however often it is requested
_CHECKED_A_SLICE: Final = 250  # are checked, or
_SHOWN_A_SLICE: Final = 50  # are shown, before the event loop goes on

_SCRIPT: Final = "listen.js"
_STYLE: Final = "listen.css"
_TYPES: Final = {_SCRIPT: "text/javascript", _STYLE: "text/css"}
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class PublicPage:
    """`is_listed` says whether the player with an id is shown; `name` is the page's title."""

    def __init__(self, node: Node, is_listed: Callable[[str], bool], name: str) -> None:
        self._node = node
        self._is_listed = is_listed
        self._name = name or "Radio"
        self._files = {name: (resources.files("tonearm.server") / name).read_bytes() for name in _TYPES}
        self._making = asyncio.Lock()
        self._made_s = 0.0
        self._page = ""

    def handlers(self) -> dict[str, Handler]:
        """The handlers by path, without its slash."""
        return {"": self._show, **{name: partial(self._show_file, name=name) for name in self._files}}

    async def _show(self, call: Call) -> web.Response:
        async with self._making:
            if not self._page or time.monotonic() - self._made_s > _MADE_AGAIN_AFTER_S:
                self._page = await self._made()
                self._made_s = time.monotonic()
        return web.Response(
            text=self._page, content_type="text/html", headers={**_PAGE_HEADERS, "Cache-Control": "no-cache"}
        )

    async def _show_file(self, call: Call, name: str) -> web.Response:
        return web.Response(
            body=self._files[name],
            content_type=_TYPES[name],
            charset="utf-8",
            headers={**_PAGE_HEADERS, "Cache-Control": "max-age=300"},
        )

    async def _made(self) -> str:
        """The present page, made in slices."""
        shown: list[str] = []
        for number, player in enumerate(self._node.players(), start=1):
            if self._is_listed(player.player_id):
                shown.append(_player(player.status()))
                if len(shown) == MAX_SHOWN:
                    break
                if len(shown) % _SHOWN_A_SLICE == 0:
                    await asyncio.sleep(0)
            if number % _CHECKED_A_SLICE == 0:
                await asyncio.sleep(0)
        return _page(self._name, shown)


def _page(name: str, players: list[str]) -> str:
    title = html.escape(name)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="stylesheet" href="{_STYLE}">
<script src="{_SCRIPT}" defer></script>
<h1>{title}</h1>
<main>
{"".join(players) or "<p>Nothing is on air.</p>"}
</main>
"""


def _player(status: PlayerStatus) -> str:
    """A player's part of the page. An id needs no escapes in HTML and in a path; after `./` a colon in it is no
    scheme."""
    player_id, info = status.player_id, status.track.info
    name = html.escape(own_name(status.metadata) or player_id)
    title = html.escape(" - ".join(filter(None, (info.author, info.title))))
    has_picture = status.track.is_known and info.has_picture
    picture = f'src="./{player_id}/artwork"' if has_picture else "hidden"
    links = " ".join(f'<a href="./{player_id}.{kind}">{kind}</a>' for kind in ("mp3", "ogg", "wav"))
    state = "paused" if status.paused else status.state.value
    return f"""<article data-player="{player_id}">
<img alt="" loading="lazy" {picture}>
<h2 dir="auto">{name}</h2>
<p class="title" dir="auto">{title}</p>
<p class="state">{state}</p>
<audio controls preload="none" aria-label="{name}" src="./{player_id}.mp3"></audio>
<p class="links">{links}</p>
</article>
"""


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
_ALL_PLACES_TAKEN: Final = "There are too many connections. Try again later."

_PICTURES_AT_ONCE: Final = 4  # pictures that are read at once for strangers
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

    def headers(self, request: EdgeRequest) -> Mapping[str, str]:
        return _HEADERS

    async def answer(self, request: EdgeRequest, target: Target) -> web.StreamResponse:
        if request.method not in _METHODS:
            raise MethodNotAllowed(request.method, _METHODS)
        if request.method == "OPTIONS":
            return web.Response(status=HTTPStatus.NO_CONTENT, headers=_PREFLIGHT_HEADERS)
        handler, player_id = self._find(target.segments)
        is_stream = handler in self._streams.values()
        if is_stream and request.method == "GET":
            request.let_in()  # other connections give way when all places are taken
        try:
            return await handler(Call(request, Target(target.path, target.segments, ""), {PLAYER_ARGUMENT: player_id}))
        except LimitReached:
            raise LimitReached(_ALL_PLACES_TAKEN) from None
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
        if handler is None or self._node.find(player_id) is None or not self._is_listed(player_id):
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
