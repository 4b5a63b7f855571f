"""A player's two WebSockets: audio frames on /ws, events on /events."""

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from tonearm.audio.sinks import Framing
from tonearm.core.errors import BadRequest
from tonearm.node import Node
from tonearm.server.routing import Call, Route, Target
from tonearm.server.streams import OpenStreams
from tonearm.server.websocket import WebSocketConnection, text_frame

_SEQUENCE_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class AudioSocketRoutes:
    def __init__(self, node: Node, streams: OpenStreams, *, ping_interval_s: float) -> None:
        self._node = node
        self._streams = streams
        self._ping_interval_s = ping_interval_s

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/v0/players/{player_id}/ws", self._listen),)

    async def _listen(self, call: Call) -> web.StreamResponse:
        connection = WebSocketConnection(call.request, ping_interval_s=self._ping_interval_s)
        # Attached before the handshake is answered, so that a refusal is still an ordinary answer.
        detach = self._node.player(call.player_id).attach(SocketFrameSink(connection))
        try:
            with self._streams.kept(connection):
                return await connection.run()
        finally:
            detach()


class SocketFrameSink:
    """A listener on a WebSocket. Messages come framed, so each is one write that nothing can split."""

    framing = Framing.WEBSOCKET
    wants_silence = False

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection
        self._output = connection.output
        self.offer = self._output.offer  # a hundred thousand times a minute: no call more than it takes

    def write(self, message: bytes) -> None:
        self._output.write(message)

    def pending_bytes(self) -> int:
        return self._output.pending_bytes()

    def close(self, code: int, reason: str) -> None:
        self._connection.close(code, reason)

    def abort(self) -> None:
        self._connection.abort()


class EventSocketRoutes:
    def __init__(self, node: Node, streams: OpenStreams, *, ping_interval_s: float) -> None:
        self._node = node
        self._streams = streams
        self._ping_interval_s = ping_interval_s

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/v0/players/{player_id}/events", self._follow),)

    async def _follow(self, call: Call) -> web.StreamResponse:
        connection = WebSocketConnection(call.request, ping_interval_s=self._ping_interval_s)
        since = _since(call.target)
        wants_snapshot = _wants_snapshot(call.target)
        # Subscribed before the handshake is answered, so that a refusal is still an ordinary answer.
        player = self._node.player(call.player_id)
        cancel = player.subscribe(SocketEventSink(connection), since=since, wants_snapshot=wants_snapshot)
        try:
            with self._streams.kept(connection):
                return await connection.run()
        finally:
            cancel()


def _since(target: Target) -> int | None:
    value = target.parameter("since")
    if value is None:
        return None
    if _SEQUENCE_NUMBER.fullmatch(value) is None:
        raise BadRequest("`since` must be the `seq` of an event: a whole number, 0 or more.")
    return int(value)


def _wants_snapshot(target: Target) -> bool:
    value = target.parameter("snapshot")
    if value not in (None, "true", "false"):
        raise BadRequest("`snapshot` must be true or false.")
    return value == "true"


class SocketEventSink:
    """An event client on a WebSocket."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection
        self._output = connection.output
        self._ends: deque[int] = deque()  # where each message ends among all bytes that were written

    def send(self, text: str) -> None:
        self._forget_sent()
        self._output.write(text_frame(text))
        self._ends.append(self._output.written_bytes)

    def pending_messages(self) -> int:
        """Messages of which the kernel did not take the last byte yet."""
        self._forget_sent()
        return len(self._ends)

    def close(self, code: int, reason: str) -> None:
        self._connection.close(code, reason)

    def abort(self) -> None:
        self._connection.abort()

    def _forget_sent(self) -> None:
        sent_bytes = self._output.written_bytes - self._output.pending_bytes()
        while self._ends and self._ends[0] <= sent_bytes:
            self._ends.popleft()
