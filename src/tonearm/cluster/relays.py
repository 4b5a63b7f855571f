"""Relays the frames of players on other nodes to listeners of this node. The frames come once for each player and form.
A relay outlives a move of its player: it continues with the new node, and its listeners stay connected.

The two ends of a relay exchange texts on its socket: the player's title and metadata, before the first frame that has
them, and the number of the relay's listeners.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, get_args
from urllib.parse import quote

import aiohttp
from aiohttp import WSMsgType, web

from tonearm.cluster.forwarding import Forwarding, Where
from tonearm.core.errors import BadRequest, LimitReached, NodeUnreachable, RequestError
from tonearm.core.figures import Totals
from tonearm.core.frame import FRAME_S, SAMPLE_RATE_HZ, Output, OutputFormat
from tonearm.core.metadata import Json
from tonearm.node.node import Node
from tonearm.player.clients.broadcast import FAILED, NOTHING_READ, Broadcast
from tonearm.player.clients.sinks import FrameSink
from tonearm.player.handle import Listened, PlayerHandle
from tonearm.protocol.framing import HEADER, HEADER_BYTES, CloseCode, FrameFlag, Framing, as_message
from tonearm.server.audio_settings import (
    DEFAULT_MAX_LATENCY_MS,
    HIGHEST_BURST_MS,
    AudioSettings,
    read_switch,
    read_whole_number,
)
from tonearm.server.routing import Call
from tonearm.server.sockets import SocketFrameSink
from tonearm.server.streams import OpenStreams, kernel_buffer_bytes
from tonearm.server.websocket import WebSocketConnection, text_frame

_LINGERS_S: Final = 2.0  # without listeners
_SETTLE_S: Final = 1.0  # for so long a new stream waits for sound, and gets no silence
_SILENT_AFTER_S: Final = 1.0  # streams have a burst, so a move needs no silence, which listeners would hear

log = logging.getLogger(__name__)


class RelaySink(SocketFrameSink):
    """The relay's end at the node that plays the player."""

    def __init__(
        self, connection: WebSocketConnection, player: PlayerHandle, output: Output, burst_ms: int, *, is_stream: bool
    ) -> None:
        super().__init__(connection, output, has_header=True, max_latency_ms=DEFAULT_MAX_LATENCY_MS)
        self.wants_silence, self.burst_ms = is_stream, burst_ms
        self._player = player
        self._told: tuple[tuple[str, str], Json] | None = None
        self._write = self.write
        self.write, self.offer = self._write_told, self._offer_told
        connection.heard = self._count
        self.tell()

    def tell(self) -> None:
        """Sends title and metadata when they have changed."""
        about = self._player.title(), self._player.metadata
        if self._told is None or about[0] != self._told[0] or about[1] is not self._told[1]:
            self._told = about
            self._write(text_frame(json.dumps({"title": about[0], "metadata": about[1]})))

    def _write_told(self, message: bytes) -> None:
        self.tell()
        self._write(message)

    def _offer_told(self, message: bytes) -> bool:
        if self.pending_bytes():
            return False
        self.tell()
        self._write(message)
        return True

    def _count(self, text: str) -> None:
        if text.isascii() and text.isdigit() and len(text) < 7:
            self._player.count(self, int(text))


async def give_frames(call: Call, node: Node, streams: OpenStreams, settings: AudioSettings) -> web.StreamResponse:
    """Answers the relay of another node, which asks for an audio socket. Raises `RequestError`."""
    target = call.target
    kind = target.required_parameter("format")
    formats: dict[str, OutputFormat] = {name: name for name in get_args(OutputFormat)}
    if kind not in formats:
        raise BadRequest(f"`format` must be one of {', '.join(formats)}.")
    output = settings.output(target, formats[kind])
    burst_ms = read_whole_number(target, "burst", lowest=0, highest=HIGHEST_BURST_MS) or 0
    connection = WebSocketConnection(call.request, streams, kernel_buffer_bytes(output))
    player = node.player(call.player_id)
    sink = RelaySink(connection, player, output, burst_ms, is_stream=read_switch(target, "stream"))
    return await connection.run(player.attach(sink, is_counted=False))


class _Keeper:
    """A sink that makes the broadcast keep sent frames for the next stream, also without listeners. It is never too
    slow."""

    framing = Framing.WEBSOCKET
    max_latency_ms = DEFAULT_MAX_LATENCY_MS

    def __init__(self, output: Output, burst_ms: int, *, is_stream: bool) -> None:
        self.output, self.burst_ms, self.wants_silence = output, burst_ms, is_stream

    def write(self, message: bytes) -> None: ...

    def offer(self, message: bytes) -> bool:
        return True

    def pending_bytes(self) -> int:
        return 0

    def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None: ...


class Relay:
    """A player that is played elsewhere, for listeners of one form here: sockets, or streams, whose burst is `burst_ms`
    at first. From `open` until `ended` is called: nobody listens any more, or the player is gone. `require_room` raises
    `LimitReached` when the player may have no further listener here.

    To its broadcast it is where the frames come from: `SentFrames`.
    """

    sent_to = (0, 0)

    def __init__(
        self,
        player_id: str,
        output: Output,
        burst_ms: int | None,
        connect: Callable[[str], Awaitable[aiohttp.ClientWebSocketResponse]],
        require_room: Callable[[], None],
        totals: Totals,
        ended: Callable[[], object],
    ) -> None:
        self._output, self._forms = output, (output,)
        self._is_stream = burst_ms is not None
        self._path = f"/v0/players/{quote(player_id, safe='')}/ws?format={output.format}&stream={int(self._is_stream)}"
        if output.format != "pcm" and not output.passes_through:
            self._path += f"&bitrate={output.bitrate_bps}"
        self._burst_ms = burst_ms or 0
        self._connect, self._require_room, self._totals, self._ended = connect, require_room, totals, ended
        self.next_frame = 1
        self.sent_position_samples = 0
        self.is_sent_passed = False
        self.has_ended = False
        self.metadata: Json = None
        self._title = ("", "")
        self._continues = True  # the next frame follows the one before
        self._numbers_from = 0  # a new life counts from 1, while the numbers of its listeners go on
        self._told = self._lost = 0
        self._heard_s = 0.0
        self._upstream: aiohttp.ClientWebSocketResponse | None = None
        self._work: list[asyncio.Task[None]] = []
        self._telling: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._broadcast = Broadcast(player_id, self, None)
        self._broadcast.attach(_Keeper(output, self._burst_ms, is_stream=self._is_stream), is_counted=False)
        self._leaving: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Returns when the player's node has answered. Raises `RequestError`."""
        self._upstream = await self._connect(f"{self._path}&burst={self._burst_ms}")
        first = await self._upstream.receive()
        if first.type is not WSMsgType.TEXT:
            await self._upstream.close()
            raise NodeUnreachable("The node that has the player ended the relay at once. Try again.")
        self._hear(first.data)
        self._heard_s = self._loop.time()
        self._work.append(asyncio.create_task(self._run()))
        if self._is_stream:
            self._work.append(asyncio.create_task(self._fill()))
        self._changed()

    # As `Listened`

    def attach(self, sink: FrameSink, *, is_counted: bool = True, is_stranger: bool = False) -> Callable[[], None]:
        if self.has_ended:
            raise NodeUnreachable("The player is on its way to another node. Try again.")
        self._require_room()
        detach = self._broadcast.attach(sink, is_counted=is_counted, sounds=True)
        settling = self._loop.call_later(_SETTLE_S, self._broadcast.settle, sink)
        self._changed()

        def leave() -> None:
            settling.cancel()
            detach()
            self._changed()

        return leave

    def count(self, sink: FrameSink) -> None:
        if self._broadcast.count(sink):
            self._changed()

    def title(self) -> tuple[str, str]:
        return self._title

    @property
    def listeners(self) -> int:
        return len(self._broadcast) - 1  # without the keeper

    def _changed(self) -> None:
        """Reports that listeners have come or left."""
        if self._leaving is not None:
            self._leaving.cancel()
        is_idle = not self.listeners and not self.has_ended
        self._leaving = self._loop.call_later(_LINGERS_S, self.end) if is_idle else None
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        upstream = self._upstream
        with contextlib.suppress(aiohttp.ClientError, OSError):
            while upstream is not None and self._told != (counted := self._broadcast.counted):
                self._told = counted
                await upstream.send_str(str(counted))

    def end(self, code: CloseCode = CloseCode.GOING_AWAY, reason: str = "the relay has ended") -> None:
        """Closes the remaining listeners."""
        if not self.has_ended:
            self.has_ended = True
            self._ended()
            for task in self._work:
                task.cancel()
            self._broadcast.close(code, reason)
            for why, count in self._broadcast.closed.items():
                self._totals.closed_too_slow += count * (why == NOTHING_READ)
                self._totals.closed_failed += count * (why == FAILED)

    # Messages from the player's node

    async def _run(self) -> None:
        assert self._upstream is not None
        try:
            while True:
                async for message in self._upstream:
                    if message.type is WSMsgType.BINARY:
                        self._take(message.data)
                    elif message.type is WSMsgType.TEXT:
                        self._hear(message.data)
                if self._upstream.close_code == CloseCode.DELETED:
                    self.end(CloseCode.DELETED, "the player was deleted")
                    return
                await self._upstream.close()
                self._upstream, self._told, self._continues = await self._connect(f"{self._path}&burst=0"), 0, False
                self._changed()
        except RequestError as error:
            self.end(CloseCode.GOING_AWAY, error.message)
        except Exception:
            log.exception("the relay %s failed", self._path)
            self.end()
        finally:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await self._upstream.close()

    def _hear(self, text: str) -> None:
        about = json.loads(text)
        author, title = about["title"]
        self._title, self.metadata = (author, title), about["metadata"]

    def _take(self, data: bytes) -> None:
        _, flags, _, number, position_us = HEADER.unpack_from(data)
        message = as_message(data[HEADER_BYTES:])
        self._heard_s = self._loop.time()
        if number and not self._continues and number + self._numbers_from < self.next_frame:
            self._numbers_from = self.next_frame - 1
        number += self._numbers_from if number else 0
        if flags & FrameFlag.SILENCE or not number:  # or frames of the burst, or MP3
            if self._is_stream:
                silence_before = number if flags & FrameFlag.SILENCE else None
                self._broadcast.send_to_streams(self._output, message, silence_before=silence_before)
        else:
            self.next_frame = number + 1
            self.sent_position_samples = -(-position_us * SAMPLE_RATE_HZ // 1_000_000)
            self.is_sent_passed = bool(flags & FrameFlag.PASSED)
            if not self._continues:
                self._continues, flags = True, flags | FrameFlag.DISCONTINUITY
            self._broadcast.send(self._forms, message, number, flags & ~FrameFlag.PASSED)
        if self._broadcast.frames_lost != self._lost:
            self._totals.frames_lost += self._broadcast.frames_lost - self._lost
            self._lost = self._broadcast.frames_lost

    async def _fill(self) -> None:
        """Gives streams silence from when nothing has come for a while until something comes."""
        due_s = 0.0
        while True:
            due_s = max(due_s, self._heard_s + _SILENT_AFTER_S)
            await asyncio.sleep(due_s - self._loop.time())
            if due_s >= self._heard_s + _SILENT_AFTER_S:
                self._broadcast.send_silence(self.next_frame)
                due_s += FRAME_S


class Relays:
    """All relays of this node."""

    def __init__(self, node: Node, forwarding: Forwarding, where: Callable[[str], Where]) -> None:
        self._node, self._forwarding, self._where = node, forwarding, where
        self._relays: dict[tuple[str, Output, bool], tuple[Relay, asyncio.Task[None]]] = {}

    async def find(self, player_id: str, output: Output, burst_ms: int | None) -> Listened:
        """As `FindListened`, of a player that is played at another node. Raises `RequestError`."""
        key = player_id, output, burst_ms is not None
        if key not in self._relays:
            connect = partial(self._forwarding.socket_anywhere, self._where(player_id))
            require_room, ended = partial(self._require_room, player_id), partial(self._relays.pop, key, None)
            relay = Relay(player_id, output, burst_ms, connect, require_room, self._node.totals, ended)
            self._relays[key] = relay, asyncio.create_task(relay.open())
        found = relay, opening = self._relays[key]
        try:
            await asyncio.shield(opening)
        finally:
            failed = opening.done() and (opening.cancelled() or opening.exception() is not None)
            if failed and self._relays.get(key) is found:
                del self._relays[key]
        return relay

    def _require_room(self, player_id: str) -> None:
        """Raises `LimitReached` when the player may have no further listener at this node, of whatever form."""
        most = self._node.settings.max_listeners
        if sum(relay.listeners for (of, *_), (relay, _) in self._relays.items() if of == player_id) >= most:
            raise LimitReached(f"The player has {most} listeners at this node, as many as player.max_listeners allows.")

    def close(self) -> None:
        for relay, opening in tuple(self._relays.values()):
            opening.cancel()
            relay.end()
