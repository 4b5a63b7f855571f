"""Endless audio over plain HTTP: a WAV file whose data never ends."""

import asyncio
import struct
from collections.abc import Sequence
from typing import Final

from aiohttp import HttpVersion11, web

from tonearm.audio.sinks import Framing
from tonearm.core.frame import CHANNELS, SAMPLE_BLOCK_BYTES, SAMPLE_BYTES, SAMPLE_RATE_HZ
from tonearm.server.node_api import NodeApi
from tonearm.server.open_streams import OpenStreams
from tonearm.server.protocol import connection_lost
from tonearm.server.raw_output import RawOutput
from tonearm.server.routing import Call, Route

_PCM: Final = 1
_UNKNOWN_SIZE: Final = 0xFFFFFFFF  # what streaming encoders write when a length cannot be known

# RIFF header, "fmt " chunk of 16 bytes, and the head of the "data" chunk.
WAV_HEADER: Final = struct.pack(
    "<4sI4s4sIHHIIHH4sI",
    b"RIFF",
    _UNKNOWN_SIZE,
    b"WAVE",
    b"fmt ",
    16,
    _PCM,
    CHANNELS,
    SAMPLE_RATE_HZ,
    SAMPLE_RATE_HZ * SAMPLE_BLOCK_BYTES,
    SAMPLE_BLOCK_BYTES,
    SAMPLE_BYTES * 8,
    b"data",
    _UNKNOWN_SIZE,
)


class HttpFrameSink:
    """A listener on an HTTP answer: chunked for HTTP/1.1, for HTTP/1.0 the bare bytes until the connection closes."""

    wants_silence = True

    def __init__(self, request: web.BaseRequest) -> None:
        self.framing = Framing.WAV_CHUNKED if request.version >= HttpVersion11 else Framing.RAW
        self.output = RawOutput(request)
        self.closed = asyncio.get_running_loop().create_future()

    def write(self, message: bytes) -> None:
        self.output.write(message)

    def offer(self, message: bytes) -> bool:
        return self.output.offer(message)

    def pending_bytes(self) -> int:
        return self.output.pending_bytes()

    def close(self, code: int, reason: str) -> None:
        """Ends the body in good order; HTTP has no word for the code and the reason."""
        self.output.end()
        if not self.closed.done():
            self.closed.set_result(None)

    def abort(self) -> None:
        self.output.abort()


class WavStreamRoutes:
    def __init__(self, node: NodeApi, streams: OpenStreams) -> None:
        self._node = node
        self._streams = streams

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/v0/players/{player_id}/stream.wav", self._listen),)

    async def _listen(self, call: Call) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "audio/wav", "Cache-Control": "no-store"})
        response.force_close()
        if call.request.method == "HEAD":
            await response.prepare(call.request)
            return response
        sink = HttpFrameSink(call.request)
        lost = connection_lost(call.request)
        # Attached before the head is sent, so that a refusal is still an ordinary answer.
        detach = self._node.attach_listener(call.player_id, sink)
        try:
            with self._streams.kept(sink):
                await response.prepare(call.request)
                await response.write(WAV_HEADER)
                sink.output.open()
                await asyncio.wait((sink.closed, lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            detach()
            sink.output.end()
        return response
