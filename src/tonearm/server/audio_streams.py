"""A player's audio as endless HTTP answers: /stream.wav, /stream.ogg and /stream.mp3."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from aiohttp import HttpVersion11, web

from tonearm.core.frame import FRAME_MS, Output, OutputFormat
from tonearm.description.audio import STREAMS
from tonearm.player.handle import Listened
from tonearm.protocol.framing import Framing
from tonearm.server.audio_settings import (
    HIGHEST_BURST_MS,
    AudioSettings,
    icy_headers,
    max_latency_ms,
    read_switch,
    read_whole_number,
)
from tonearm.server.http_server import EdgeRequest
from tonearm.server.routing import Call, Handler, Route
from tonearm.server.stream_bodies import (
    ICY_INTERVAL_BYTES,
    WAV_HEADER,
    IcyTitles,
    OggBody,
)
from tonearm.server.streams import MessageWriter, OpenStreams, kernel_buffer_bytes

# VLC's first request only checks for titles and ends at once, so it does not count as a listener.
COUNTS_AFTER_S: Final = 0.25

_PACKETS_A_PAGE: Final = 5  # fewer pages are less work; the burst makes up for the delay
_PAGE_BURST_MS: Final = 10 * _PACKETS_A_PAGE * FRAME_MS // 2

_FORMATS: Final[Mapping[str, tuple[OutputFormat, str]]] = {
    "wav": ("pcm", "audio/wav"),
    "ogg": ("opus", "audio/ogg"),
    "mp3": ("mp3", "audio/mpeg"),
}


FindListened: TypeAlias = Callable[[str, Output, int | None], Awaitable[Listened]]
"""The player of an id, for who attaches a sink of this output at once: a stream's with this burst in ms, or, None, a
socket's."""


class AudioStreamRoutes:
    """The endpoints of streams. `serves_strangers`: anybody who reaches the address may listen."""

    def __init__(
        self, find: FindListened, streams: OpenStreams, settings: AudioSettings, *, serves_strangers: bool = False
    ) -> None:
        self._find = find
        self._streams = streams
        self._settings = settings
        self._serves_strangers = serves_strangers

    def routes(self) -> Sequence[Route]:
        return tuple(Route(STREAMS[kind], handler) for kind, handler in self.handlers().items())

    def handlers(self) -> dict[str, Handler]:
        """The handlers by the path's ending: `wav`, `ogg`, `mp3`."""
        return {kind: partial(self._listen, kind=kind) for kind in _FORMATS}

    async def _listen(self, call: Call, kind: str) -> web.StreamResponse:
        output_format, content_type = _FORMATS[kind]
        target = call.target
        output = self._settings.output(target, output_format)
        burst_ms = read_whole_number(target, "burst", lowest=0, highest=HIGHEST_BURST_MS)
        if burst_ms is None:
            burst_ms = 0 if kind == "wav" else self._settings.burst_ms
        latency_ms = max_latency_ms(target)
        is_chained = kind == "ogg" and read_switch(target, "chained")
        has_titles = call.request.headers.get("Icy-MetaData") == "1"
        player = await self._find(call.player_id, output, burst_ms)
        headers = {
            "Content-Type": content_type,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **icy_headers(self._settings.station, call.player_id, player.metadata, output),
        }
        if has_titles:
            headers["icy-metaint"] = str(ICY_INTERVAL_BYTES)
        response = web.StreamResponse(headers=headers)
        response.force_close()
        if call.request.method == "HEAD":
            await response.prepare(call.request)
            return response
        ogg: OggBody | None = None
        head = WAV_HEADER if kind == "wav" else b""
        if kind == "ogg":
            packets_a_page = _PACKETS_A_PAGE if burst_ms >= _PAGE_BURST_MS else 1
            ogg = OggBody(player.title, is_chained=is_chained, packets_a_page=packets_a_page)
            head = ogg.head
        titles = IcyTitles(player.title, len(head)) if has_titles else None
        sink = HttpAudioSink(
            call.request,
            output,
            ogg,
            titles,
            burst_ms=burst_ms,
            max_latency_ms=latency_ms,
            close_grace_s=self._streams.close_grace_s,
        )
        return await self._serve(call.request, response, player, sink, head)

    async def _serve(
        self,
        request: EdgeRequest,
        response: web.StreamResponse,
        player: Listened,
        sink: "HttpAudioSink",
        head: bytes,
    ) -> web.StreamResponse:
        lost = request.lost
        # Attached before the head is sent, so that a refusal is still an ordinary answer.
        detach = player.attach(sink, is_counted=False, is_stranger=self._serves_strangers)
        counting = asyncio.get_running_loop().call_later(COUNTS_AFTER_S, player.count, sink)
        try:
            with self._streams.kept(sink):
                await response.prepare(request)
                await response.write(head)
                sink.open()
                await asyncio.wait((sink.closed, lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            counting.cancel()
            detach()
            sink.end()
        return response


class HttpAudioSink:
    """A listener on an HTTP answer: chunked for HTTP/1.1, for HTTP/1.0 the bare bytes until the connection closes.

    Pages and titles are made for each connection at the time of writing, so lost frames of a slow listener leave no gap
    in the pages.
    """

    wants_silence = True

    def __init__(
        self,
        request: EdgeRequest,
        output: Output,
        ogg: OggBody | None,
        titles: IcyTitles | None,
        *,
        burst_ms: int,
        max_latency_ms: int,
        close_grace_s: float,
    ) -> None:
        self.output = output
        self.burst_ms = burst_ms
        self.max_latency_ms = max_latency_ms
        is_chunked = request.version >= HttpVersion11
        self._wraps = ogg is not None or titles is not None
        self.framing = Framing.CHUNKED if is_chunked and not self._wraps else Framing.RAW
        self._is_chunked_here = is_chunked and self._wraps
        self._ogg = ogg
        self._titles = titles
        self._writer = MessageWriter(request, close_grace_s, kernel_buffer_bytes(output))
        self.open, self.end, self.abort = self._writer.open, self._writer.end, self._writer.abort
        self.pending_bytes = self._writer.pending_bytes
        self.closed = asyncio.get_running_loop().create_future()

    def write(self, message: bytes) -> None:
        if self._wraps:
            message = self._wrapped(message)
        if message:
            self._writer.write(message)

    def offer(self, message: bytes) -> bool:
        if not self._wraps:
            return self._writer.offer(message)
        if self._writer.pending_bytes():
            return False
        self.write(message)
        return True

    def close(self, code: int, reason: str) -> None:
        """Ends the body. HTTP has no place for the code and the reason."""
        self._writer.end()
        if not self.closed.done():
            self.closed.set_result(None)

    def _wrapped(self, data: bytes) -> bytes:
        if self._ogg is not None:
            data = self._ogg.add(data)
        if data and self._titles is not None:
            data = self._titles.add(data)
        if data and self._is_chunked_here:
            return b"%X\r\n%b\r\n" % (len(data), data)
        return data
