"""A player's two WebSockets: audio frames on /ws, events on /events; and the events of all players on /v0/events."""

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from tonearm.core.errors import BadRequest
from tonearm.core.events import EventMessage
from tonearm.core.frame import Output
from tonearm.description.audio import FOLLOW_PLAYER, FOLLOW_PLAYERS, LISTEN
from tonearm.node.node import Node
from tonearm.protocol.event_rendering import event_text
from tonearm.protocol.framing import Framing
from tonearm.server.audio_settings import AudioSettings, max_latency_ms, read_switch, socket_format
from tonearm.server.audio_streams import FindListened
from tonearm.server.replies import SENT_AT_ONCE_BYTES, SLICE_BYTES, SLICE_ITEMS
from tonearm.server.routing import Call, Route, Target
from tonearm.server.streams import OpenStreams, kernel_buffer_bytes
from tonearm.server.websocket import WebSocketConnection, text_frame

_SINCE: Final = re.compile(r"(?:([A-Za-z0-9_-]{8,64})\.)?([0-9]{1,18})", re.ASCII)

# The states of all players are sent as fast as the client takes them: no more than these may be pending.
_SNAPSHOTS_PENDING: Final = 500
_POLL_S: Final = 0.02


class AudioSocketRoute:
    def __init__(self, find: FindListened, streams: OpenStreams, settings: AudioSettings) -> None:
        self._find = find
        self._streams = streams
        self._settings = settings

    def routes(self) -> Sequence[Route]:
        return (Route(LISTEN, self._listen),)

    async def _listen(self, call: Call) -> web.StreamResponse:
        target = call.target
        output = self._settings.output(target, socket_format(target))
        has_header = read_switch(target, "header")
        latency_ms = max_latency_ms(target)
        connection = WebSocketConnection(call.request, self._streams, kernel_buffer_bytes(output))
        # Attached before the handshake is answered, so that a refusal is still an ordinary answer.
        sink = SocketFrameSink(connection, output, has_header=has_header, max_latency_ms=latency_ms)
        player = await self._find(call.player_id, output, None)
        return await connection.run(player.attach(sink))


class EventSocketRoutes:
    def __init__(self, node: Node, streams: OpenStreams) -> None:
        self._node = node
        self._streams = streams

    def routes(self) -> Sequence[Route]:
        return (Route(FOLLOW_PLAYER, self._follow), Route(FOLLOW_PLAYERS, self._follow_all))

    async def _follow(self, call: Call) -> web.StreamResponse:
        connection = WebSocketConnection(call.request, self._streams)
        life, since = _since(call.target)
        wants_snapshot = call.target.flag("snapshot")
        # Subscribed before the handshake is answered, so that a refusal is still an ordinary answer.
        player = self._node.player(call.player_id)
        sink = SocketEventSink(connection)
        return await connection.run(player.subscribe(sink, since=since, wants_snapshot=wants_snapshot, life=life))

    async def _follow_all(self, call: Call) -> web.StreamResponse:
        connection = WebSocketConnection(call.request, self._streams)
        wants_snapshot = wants_states(call.target)
        sink = SocketEventSink(connection)
        cancel = self._node.follow_all(sink)
        states = asyncio.create_task(self._send_states(sink)) if wants_snapshot else None
        try:
            return await connection.run(cancel)
        finally:
            if states is not None:
                states.cancel()
                await asyncio.wait((states,))

    async def _send_states(self, sink: "SocketEventSink") -> None:
        """Sends each player's state. Events may be sent before it; their numbers say that they are older."""
        count = length = 0
        for player in self._node.players():
            message = player.state_message()
            sink.send(message)
            count, length = count + 1, length + len(message.text(event_text))
            if count == SLICE_ITEMS or length >= SLICE_BYTES:
                count = length = 0
                await asyncio.sleep(0)
                while _is_behind(sink):  # noqa: ASYNC110 - nothing reports what the kernel has taken
                    await asyncio.sleep(_POLL_S)


class SocketFrameSink:
    """A listener on a WebSocket. Messages come framed, so each is a single write."""

    wants_silence = False
    burst_ms = 0

    def __init__(
        self, connection: WebSocketConnection, output: Output, *, has_header: bool, max_latency_ms: int
    ) -> None:
        self.output = output
        self.framing = Framing.WEBSOCKET_WITH_HEADER if has_header else Framing.WEBSOCKET
        self.max_latency_ms = max_latency_ms
        # These are called for each frame and listener, so there is no method in between.
        self.write = connection.writer.write
        self.offer = connection.writer.offer
        self.pending_bytes = connection.writer.pending_bytes
        self.close = connection.close
        self.abort = connection.abort


def wants_states(target: Target) -> bool:
    """Whether a client that follows all players begins with their states. Raises `BadRequest` for `since`."""
    if target.parameter("since") is not None:
        raise BadRequest("`since` works only for the events of one player, since each player numbers its own events.")
    return target.flag("snapshot")


def _since(target: Target) -> tuple[str | None, int | None]:
    """The life (None: any) and the number of the event after which a client wants to go on; both None without
    `since`."""
    value = target.parameter("since")
    if value is None:
        return None, None
    found = _SINCE.fullmatch(value)
    if found is None:
        raise BadRequest(
            "`since` must be the `seq` of an event, a whole number from 0 on, or its `life`, a dot and its `seq`."
        )
    return found[1], int(found[2])


def _is_behind(sink: "SocketEventSink") -> bool:
    return sink.pending_messages() > _SNAPSHOTS_PENDING or sink.pending_bytes() > SENT_AT_ONCE_BYTES


class SocketEventSink:
    def __init__(self, connection: WebSocketConnection) -> None:
        self._writer = connection.writer
        self._ends: deque[int] = deque()  # the end of each pending message, counted in all written bytes
        self.pending_bytes = connection.writer.pending_bytes
        self.close = connection.close
        self.abort = connection.abort

    def send(self, message: EventMessage) -> None:
        self.send_text(message.text(event_text))

    def send_text(self, text: str) -> None:
        self._forget_sent()
        self._writer.write(text_frame(text))
        self._ends.append(self._writer.written_bytes)

    def pending_messages(self) -> int:
        """How many messages the kernel has not taken to their last byte."""
        self._forget_sent()
        return len(self._ends)

    def _forget_sent(self) -> None:
        sent_bytes = self._writer.written_bytes - self._writer.pending_bytes()
        while self._ends and self._ends[0] <= sent_bytes:
            self._ends.popleft()
