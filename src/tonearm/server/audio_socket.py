"""Audio frames over a WebSocket."""

from collections.abc import Sequence

from aiohttp import web

from tonearm.audio.sinks import Framing
from tonearm.server.node_api import NodeApi
from tonearm.server.open_streams import OpenStreams
from tonearm.server.routing import Call, Route
from tonearm.server.websocket_connection import WebSocketConnection


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


class AudioSocketRoutes:
    def __init__(self, node: NodeApi, streams: OpenStreams, *, ping_interval_s: float) -> None:
        self._node = node
        self._streams = streams
        self._ping_interval_s = ping_interval_s

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/v0/players/{player_id}/ws", self._listen),)

    async def _listen(self, call: Call) -> web.StreamResponse:
        connection = WebSocketConnection(call.request, ping_interval_s=self._ping_interval_s)
        # Attached before the handshake is answered, so that a refusal is still an ordinary answer.
        detach = self._node.attach_listener(call.player_id, SocketFrameSink(connection))
        try:
            with self._streams.kept(connection):
                return await connection.run()
        finally:
            detach()
