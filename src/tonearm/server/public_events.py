"""The events of the public address: each message is all that strangers may know of a player at that moment.

All followers of a player share an event client, and a message is made once for all of them.
"""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final

from aiohttp import web

from tonearm.node.node import Node
from tonearm.player.player import Player
from tonearm.protocol import close_codes
from tonearm.protocol.public_state import public_state_text
from tonearm.server.routing import Call
from tonearm.server.sockets import SocketEventSink
from tonearm.server.streams import OpenStreams
from tonearm.server.websocket import WebSocketConnection

MAX_BEHIND: Final = 64  # messages, before a client is closed
SLICE_FOLLOWERS: Final = 50  # so many get a message before the event loop goes on

# How the texts of events begin (`protocol.rendering`) that change the title, the state or the position.
_TOLD: Final = tuple(
    f'{{"op":"{kind}"'
    for kind in (
        *("TrackStart", "TrackEnd", "StreamTitle"),
        *("PlayerUpdate", "PlayerPause", "PlayerResume", "Seek", "FiltersChange"),
    )
)


class PublicEvents:
    def __init__(self, node: Node, streams: OpenStreams) -> None:
        self._node = node
        self._streams = streams
        self._windows: dict[str, PlayerWindow] = {}  # by the id of a player with followers

    async def follow(self, call: Call) -> web.StreamResponse:
        """The handler. Raises `UpgradeRequired` and `PlayerNotFound`."""
        connection = WebSocketConnection(call.request, self._streams)
        window = self._window(call.player_id)
        call.request.let_in()
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
    """An event client of one player, which sends its followers what strangers may know. `closed` is called when the
    player is deleted, or the last follower has left."""

    def __init__(self, player: Player, closed: "Callable[[PlayerWindow], None]") -> None:
        self._player = player
        self._closed = closed
        self._sinks: dict[SocketEventSink, None] = {}
        self._due: dict[SocketEventSink, None] = {}  # the followers that the newest state was not sent to yet
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = player.subscribe(self, since=None, wants_snapshot=False)

    def add(self, sink: SocketEventSink) -> Callable[[], None]:
        """Sends the state to `sink`, now and when it changes. Returns a call that stops it."""
        sink.send(public_state_text(self._player.status()))
        self._sinks[sink] = None
        return lambda: self._remove(sink)

    def send(self, text: str) -> None:
        if text.startswith(_TOLD):
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
                sink.send(text)
            else:
                self._remove(sink)
                sink.close(close_codes.TOO_SLOW, "too slow")
        if self._due:
            self._loop.call_soon(self._tell)

    def _remove(self, sink: SocketEventSink) -> None:
        if sink in self._sinks:
            del self._sinks[sink]
            self._due.pop(sink, None)
            if not self._sinks:
                self._unsubscribe()
                self._closed(self)
