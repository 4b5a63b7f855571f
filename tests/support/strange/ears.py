"""Listeners that hold all they get against what they were promised, of the players of a running node.

A listener of the audio socket takes frames with their headers; one of a stream takes what comes.
"""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import aiohttp
import av

from tests.support.eventually import Changes
from tests.support.running_node import RunningNode
from tests.support.strange.checking import check_opus_packet, mp3_decoder, opus_decoder
from tonearm.core.frame import FRAME_BYTES
from tonearm.protocol.framing import HEADER, HEADER_BYTES, FrameFlag

# A test that is late itself is to lose nothing for that.
_PATIENT: Final = "maxLatencyMs=60000"
_KNOWN_FLAGS: Final = FrameFlag.TRACK_STARTS | FrameFlag.DISCONTINUITY | FrameFlag.SILENCE | FrameFlag.PASSED
_BREAKS: Final = FrameFlag.TRACK_STARTS | FrameFlag.DISCONTINUITY
_FRAME_US: Final = 20_000
_FASTEST: Final = 4  # a timescale's
_MP3_FRAME_BYTES: Final = 384  # 128 kbit/s at 48 kHz


class HeardFrame(NamedTuple):
    """A frame and what its header says."""

    flags: int
    number: int
    position_us: int
    payload: bytes

    @property
    def breaks(self) -> bool:
        return bool(self.flags & _BREAKS)


class SocketEar:
    """A listener of `/ws?header=1`. `frames` are kept until they are `checked`; those are counted.

    One who `hears_overlays` may hear them where there is no music: such a frame is at 0.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, name: str, *, is_opus: bool) -> None:
        self.name = name
        self.frames: list[HeardFrame] = []
        self.checked_frames = self.passed_frames = 0
        self.hears_overlays = False
        self._socket = socket
        self._is_opus = is_opus
        self._heard = 0
        self._before: HeardFrame | None = None
        self._decoder = opus_decoder()
        self._changes = Changes()
        self._reading = asyncio.create_task(self._read())

    async def more_frames(self, count: int) -> None:
        """Waits for so many from now on."""
        wanted = self._heard + count
        await self._changes.until(
            lambda: self._heard >= wanted, lambda: f"{self.name}: {wanted} frames; {self._heard} came"
        )

    def check(self) -> list[HeardFrame]:
        """Takes what has come since the last time, and returns it. Fails where it is not as promised."""
        fresh, self.frames = self.frames, []
        for at, frame in enumerate(fresh):
            try:
                self._check_header(frame)
                self._check_payload(frame.payload)
            except AssertionError as error:
                around = "\n".join(map(_shown, fresh[max(at - 4, 0) : at + 5]))
                raise AssertionError(f"{self.name}: frame {frame.number}: {error}\n{around}\n") from error
            self._before = frame
            self.checked_frames += 1
            self.passed_frames += bool(frame.flags & FrameFlag.PASSED)
        return fresh

    async def stop(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _check_header(self, frame: HeardFrame) -> None:
        before = self._before
        assert not frame.flags & ~_KNOWN_FLAGS, "it has flags that nobody knows"
        if before is None:
            return
        if before.flags & FrameFlag.SILENCE:  # it only prepared the decoder for this one
            assert frame[1:3] == before[1:3], "it is not the frame that was prepared"
            return
        assert frame.number == before.number + 1, "frames are missing"
        lacks_music = self.hears_overlays and 0 in (frame.position_us, before.position_us)
        if not (frame.breaks or before.breaks or lacks_music):
            assert 0 <= frame.position_us - before.position_us <= _FASTEST * _FRAME_US + 1, "the position jumps"

    def _check_payload(self, payload: bytes) -> None:
        if not self._is_opus:
            assert len(payload) == FRAME_BYTES
            return
        check_opus_packet(self._decoder, payload)

    async def _read(self) -> None:
        async for message in self._socket:
            version, flags, size, number, position_us = HEADER.unpack_from(message.data)
            payload = message.data[HEADER_BYTES:]
            assert (version, size) == (1, len(payload))
            self.frames.append(HeardFrame(flags, number, position_us, payload))
            self._heard += 1
            self._changes.tell()


class StreamEar:
    """A listener of `stream.mp3` or `stream.ogg`."""

    def __init__(self, answer: aiohttp.ClientResponse, name: str) -> None:
        self.name = name
        self._answer = answer
        self._data = bytearray()
        self._reading = asyncio.create_task(self._read())

    def check(self) -> None:
        """Decodes all that has come. Fails for what a decoder refuses."""
        try:
            if self.name.endswith("mp3"):
                _check_mp3(bytes(self._data))
            else:
                _check_ogg(bytes(self._data))
        except (AssertionError, av.FFmpegError) as error:
            raise AssertionError(f"{self.name}, {len(self._data)} bytes: {error}") from error

    async def stop(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        with contextlib.suppress(aiohttp.ClientError):  # it ends with the player
            async for chunk in self._answer.content.iter_any():
                self._data += chunk


@asynccontextmanager
async def socket_ear(
    session: aiohttp.ClientSession, node: RunningNode, player: str, query: str = ""
) -> AsyncIterator[SocketEar]:
    """A listener on `/ws` with this query, and with headers."""
    target = f"{node.url}/v0/players/{player}/ws?header=1&{_PATIENT}&{query}"
    async with session.ws_connect(target, max_msg_size=0) as socket:
        ear = SocketEar(socket, f"{player} ?{query}", is_opus="opus" in query)
        try:
            yield ear
        finally:
            await ear.stop()


@asynccontextmanager
async def stream_ear(
    session: aiohttp.ClientSession, node: RunningNode, player: str, kind: str
) -> AsyncIterator[StreamEar]:
    """A listener on `stream.mp3` or `stream.ogg`."""
    async with session.get(f"{node.url}/v0/players/{player}/stream.{kind}?{_PATIENT}") as answer:
        assert answer.status == 200
        ear = StreamEar(answer, f"{player} stream.{kind}")
        try:
            yield ear
        finally:
            await ear.stop()


def _shown(frame: HeardFrame) -> str:
    begin = frame.payload[:8].hex()
    return f"{frame.number} at {frame.position_us} µs, flags {frame.flags}, {len(frame.payload)} bytes {begin}"


def _check_mp3(data: bytes) -> None:
    decoder = mp3_decoder()
    for start in range(0, len(data) - _MP3_FRAME_BYTES + 1, _MP3_FRAME_BYTES):
        frame = data[start : start + _MP3_FRAME_BYTES]
        assert frame[:2] == b"\xff\xfb", f"no frame begins at {start}"
        decoder.decode(av.Packet(frame))


def _check_ogg(data: bytes) -> None:
    if not data:
        return
    decoder = opus_decoder()
    with av.open(io.BytesIO(data), "r", format="ogg") as container:
        for packet in container.demux(audio=0):
            if packet.size:
                check_opus_packet(decoder, bytes(packet))
