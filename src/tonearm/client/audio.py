"""A player's sound, frame by frame, as a stream that outlives the node's restarts."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import quote

import aiohttp

from tonearm.client.connection import Connection
from tonearm.client.errors import ConnectError, LimitReached, NodeFailed, PlayerNotFound
from tonearm.client.events import FIRST_PAUSE_S, LONGEST_PAUSE_S
from tonearm.protocol import close_codes

AudioFormat: TypeAlias = Literal["pcm", "opus"]

# docs/interface.md, "Frame numbers and clocks": version, flags, bytes, number, position in µs; in network byte order.
_HEADER: Final = struct.Struct(">BBHIQ")
_PRIMES: Final = 4
_NUMBERS: Final = 1 << 32


class Frame(NamedTuple):
    """20 ms: 3840 bytes of PCM, or one Opus packet. `starts_track` and `is_cut` as the node's flags 1 and 2; `lost`
    frames before this one never came."""

    payload: bytes
    number: int
    position_ms: float
    starts_track: bool
    is_cut: bool
    passed_through: bool
    lost: int


class AudioStream:
    """Iterates over the frames of a player until it is deleted:

    async with player.audio("opus") as audio:
        async for frame in audio:
            ... frame.payload ...

    A connection that is lost is taken up again; `reconnects`, `received` and `lost` count. When the node came back
    without the player, it may be created again within `waits_s`. Raises `ApiError` and `ConnectError` where it begins,
    later `Unauthorized`.
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
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._number: int | None = None
        self.received = 0
        self.lost = 0
        self.reconnects = 0

    async def __aenter__(self) -> Self:
        await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def __aiter__(self) -> AsyncIterator[Frame]:
        pause_s = FIRST_PAUSE_S
        gone_at_s: float | None = None
        while True:
            try:
                if self._socket is None:
                    await self._connect()
                    self.reconnects += 1
                    gone_at_s = None
                assert self._socket is not None
                async for message in self._socket:
                    if message.type is aiohttp.WSMsgType.BINARY:
                        pause_s = FIRST_PAUSE_S
                        frame = self._frame(message.data)
                        if frame is not None:
                            yield frame
                if self._socket.close_code == close_codes.DELETED:
                    return
            except PlayerNotFound:
                now_s = time.monotonic()
                gone_at_s = gone_at_s or now_s
                if now_s - gone_at_s >= self._waits_s:
                    return
            except (ConnectError, NodeFailed, LimitReached):
                pass  # it is tried again for as long as it takes
            self._socket = None
            self._number = None  # a node that came back counts from 1
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _connect(self) -> None:
        self._socket = await self._connection.socket(self._path)

    def _frame(self, message: bytes) -> Frame | None:
        version, flags, size, number, position_us = _HEADER.unpack_from(message)
        payload = message[_HEADER.size :]
        if version != 1 or len(payload) != size:
            return None
        if flags & _PRIMES:
            return None  # for a decoder that begins here; one that hears silence meanwhile needs it not
        lost = 0 if self._number is None else (number - self._number - 1) % _NUMBERS
        self._number = number
        self.received += 1
        self.lost += lost
        return Frame(payload, number, position_us / 1000, bool(flags & 1), bool(flags & 2), bool(flags & 8), lost)
