"""A player's audio as a stream of frames. The stream reconnects by itself when the node restarts."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Final, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import quote

import aiohttp

from tonearm.client.connection import Connection
from tonearm.client.errors import PlayerNotFound, TonearmError, Unauthorized
from tonearm.client.events import FIRST_PAUSE_S, LONGEST_PAUSE_S
from tonearm.core.frame import FRAME_S
from tonearm.protocol.framing import HEADER, CloseCode, FrameFlag

AudioFormat: TypeAlias = Literal["pcm", "opus"]

_NUMBERS: Final = 1 << 32
_LOOK_S: Final = 0.05
_PILE_S: Final = 1.0
_ENDS: Final = frozenset({aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED})


class Frame(NamedTuple):
    """20 ms of audio: 3840 bytes of PCM, or one Opus packet. `starts_track` and `is_cut` are the node's flags 1 and 2.
    `lost` is the number of frames that are missing before this one."""

    payload: bytes
    number: int
    position_ms: float
    starts_track: bool
    is_cut: bool
    passed_through: bool
    lost: int


class Freshness:
    """Decides which frames are older than `max_latency_ms`. Frames grow old when the program stops reading for a while
    and the operating system buffers them.

    The number of a frame says when the frame is due, and its delay is counted from then. A pause of the player is not a
    delay: when the program had to wait for a frame, the later frames are due that much later. Two frames in a row that
    the program had to wait for are up to date, because buffered frames are read many at a time. Buffered frames are
    read within a moment, so the frames after them are in time again, whatever their numbers say.
    """

    def __init__(self, max_latency_ms: int) -> None:
        self._most_s = max_latency_ms / 1000
        self._zero_s: float | None = None  # when frame number 0 would have arrived
        self._waited_s = 0.0  # `waited_s` of the previous frame
        self._stale_since_s: float | None = None

    def is_stale(self, number: int, waited_s: float, now_s: float) -> bool:
        """Whether the frame that arrived at `now_s` is too old. `waited_s` is how long the program was reading before
        it and nothing arrived."""
        zero_s = now_s - number * FRAME_S
        has_read_all = self._stale_since_s is not None and now_s - self._stale_since_s >= _PILE_S
        if self._zero_s is None or min(waited_s, self._waited_s) >= FRAME_S / 2 or has_read_all:
            self._zero_s = zero_s
        else:
            self._zero_s = min(zero_s, self._zero_s + waited_s)
        self._waited_s = waited_s
        is_stale = zero_s - self._zero_s > self._most_s
        self._stale_since_s = (self._stale_since_s or now_s) if is_stale else None
        return is_stale


class AudioStream:
    """Iterates over the frames of a player until the player is deleted:

        async with player.audio("opus") as audio:
            async for frame in audio:
                ... frame.payload ...

    The stream reconnects by itself. `reconnects`, `received` and `lost` are counters. If the node comes back without
    the player, the stream waits `waits_s` for the player to be created again. The start of the stream raises `ApiError`
    and `ConnectError`. Later it raises only `Unauthorized`. Frames that are older than `max_latency_ms`, because the
    program did not read them in time, are dropped and count as lost.
    """

    def __init__(
        self,
        connection: Connection,
        player_id: str,
        audio_format: AudioFormat = "pcm",
        *,
        bitrate: int | None = None,
        max_latency_ms: int = 200,
        waits_s: float = 0.0,
    ) -> None:
        self._connection = connection
        self._path = f"/v0/players/{quote(player_id, safe='')}/ws?format={audio_format}&header=1"
        self._path += f"&maxLatencyMs={max_latency_ms}" + (f"&bitrate={bitrate}" if bitrate else "")
        self.format = audio_format
        self._waits_s = waits_s
        self._max_latency_ms = max_latency_ms
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._is_closed = False
        self._closings = connection.closings
        self._number: int | None = None
        self.received = 0
        self.lost = 0
        self.reconnects = 0

    async def __aenter__(self) -> Self:
        self._is_closed = False
        self._closings = self._connection.closings
        self._number = None
        self._socket = await self._connection.socket(self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the stream, and with it the loop that reads it. The player continues to play."""
        self._is_closed = True
        await self._end_socket()

    async def _end_socket(self) -> None:
        if self._socket is not None:
            await self._connection.end(self._socket)

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self._unopened() if self._socket is None or self._is_over() else self._frames()

    def _is_over(self) -> bool:
        return self._is_closed or self._closings != self._connection.closings

    async def _unopened(self) -> AsyncIterator[Frame]:
        """Opens the stream when the program did not use `async with`."""
        await self.__aenter__()
        try:
            async for frame in self._frames():
                yield frame
        finally:
            await self._end_socket()  # Not `close`: the program may have begun another loop.

    async def _frames(self) -> AsyncIterator[Frame]:
        pause_s = FIRST_PAUSE_S
        gone_at_s: float | None = None
        while not self._is_over():
            try:
                if self._socket is None:
                    self._socket = await self._connection.socket(self._path)
                    if self._is_over():
                        await self._end_socket()
                        return
                    self.reconnects += 1
                    gone_at_s = None
                freshness = Freshness(self._max_latency_ms)
                async for message, waited_s in messages(self._socket):
                    pause_s = FIRST_PAUSE_S
                    frame = self._frame(message, freshness, waited_s, time.monotonic())
                    if frame is not None:
                        yield frame
                if self._socket.close_code == CloseCode.DELETED:
                    return
            except PlayerNotFound:
                now_s = time.monotonic()
                gone_at_s = gone_at_s or now_s
                if now_s - gone_at_s >= self._waits_s:
                    return
            except Unauthorized:
                raise
            except TonearmError:
                pass  # The stream tries again until it succeeds.
            if self._is_over():
                return
            self._socket = None
            self._number = None  # A node that has restarted counts from 1.
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _frame(self, message: bytes, freshness: Freshness, waited_s: float, now_s: float) -> Frame | None:
        if len(message) < HEADER.size:
            return None
        version, flags, size, number, position_us = HEADER.unpack_from(message)
        payload = message[HEADER.size :]
        if version != 1 or len(payload) != size:
            return None
        if flags & FrameFlag.SILENCE:
            return None  # Only a decoder that starts here needs silent frames.
        if freshness.is_stale(number, waited_s, now_s):
            return None
        lost = 0 if self._number is None else (number - self._number - 1) % _NUMBERS
        self._number = number
        self.received += 1
        self.lost += lost
        return Frame(
            payload,
            number,
            position_us / 1000,
            starts_track=bool(flags & FrameFlag.TRACK_STARTS),
            is_cut=bool(flags & FrameFlag.DISCONTINUITY),
            passed_through=bool(flags & FrameFlag.PASSED),
            lost=lost,
        )


async def messages(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[tuple[bytes, float]]:
    """The binary messages until the socket closes. Each comes with the time for which it had certainly not arrived yet.
    A message that is there when a receive call begins is returned at once. A receive call that takes longer than
    allowed means that the event loop was blocked, and the message may have arrived at any time during it."""
    loop = asyncio.get_running_loop()
    began_s = certain_s = time.monotonic()
    while True:
        asked_s = time.monotonic()
        message = None
        waited = asyncio.Event()
        call = loop.call_soon(waited.set)  # The loop does not run this when a message is already there.
        with contextlib.suppress(TimeoutError):
            message = await socket.receive(timeout=_LOOK_S)
        now_s = time.monotonic()
        if waited.is_set():
            certain_s = now_s if now_s - asked_s < 2 * _LOOK_S else asked_s
        else:
            call.cancel()
        if message is None:
            continue
        if message.type in _ENDS:
            return
        if message.type is aiohttp.WSMsgType.BINARY:
            yield message.data, certain_s - began_s
            began_s = certain_s = time.monotonic()
