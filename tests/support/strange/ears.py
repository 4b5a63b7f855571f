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

from tests.support.e2e_sockets import SocketReader
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


class SocketEar(SocketReader):
    """A listener of `/ws?header=1`. `frames` are kept until they are `checked`; those are counted.

    One who `hears_overlays` may hear them where there is no music: such a frame is at 0.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, name: str, *, is_opus: bool) -> None:
        self.name = name
        self.frames: list[HeardFrame] = []
        self.checked_frames = self.passed_frames = 0
        self.hears_overlays = False
        self._is_opus = is_opus
        self._heard = 0
        self._before: HeardFrame | None = None
        self._decoder = opus_decoder()
        super().__init__(socket)

    async def more_frames(self, count: int) -> None:
        """Waits for so many from now on."""
        wanted = self._heard + count
        await self.until_there(
            lambda: self._heard >= wanted, lambda: f"{self.name}: {wanted} frames; {self._heard} came"
        )

    def check(self) -> list[HeardFrame]:
        """Takes what has come since the last time, and returns it. Fails where it is not as promised."""
        fresh, self.frames = self.frames, []
        for at, frame in enumerate(fresh):
            try:
                self._check_header(frame)
                if self._is_opus:
                    check_opus_packet(self._decoder, frame.payload)
                else:
                    assert len(frame.payload) == FRAME_BYTES
            except AssertionError as error:
                around = "\n".join(
                    f"{one[1:3]}, flags {one.flags}, {len(one.payload)} bytes {one.payload[:8].hex()}"
                    for one in fresh[max(at - 4, 0) : at + 5]
                )
                raise AssertionError(f"{self.name}: frame {frame.number}: {error}\n{around}\n") from error
            self._before = frame
            self.checked_frames += 1
            self.passed_frames += bool(frame.flags & FrameFlag.PASSED)
        return fresh

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

    def _take(self, message: aiohttp.WSMessage) -> None:
        version, flags, size, number, position_us = HEADER.unpack_from(message.data)
        payload = message.data[HEADER_BYTES:]
        assert (version, size) == (1, len(payload))
        self.frames.append(HeardFrame(flags, number, position_us, payload))
        self._heard += 1


class StreamEar:
    """A listener of `stream.mp3` or `stream.ogg`."""

    def __init__(self, answer: aiohttp.ClientResponse, name: str) -> None:
        self.name = name
        self._answer = answer
        self._data = bytearray()
        self._reading = asyncio.create_task(self._read())

    def check(self) -> None:
        """Decodes all that has come. Fails for what a decoder refuses."""
        data = bytes(self._data)
        try:
            if self.name.endswith("mp3"):
                mp3 = mp3_decoder()
                for start in range(0, len(data) - _MP3_FRAME_BYTES + 1, _MP3_FRAME_BYTES):
                    assert data.startswith(b"\xff\xfb", start), f"no frame begins at {start}"
                    mp3.decode(av.Packet(data[start : start + _MP3_FRAME_BYTES]))
            elif data:
                decoder = opus_decoder()
                with av.open(io.BytesIO(data), "r", format="ogg") as container:
                    for packet in container.demux(audio=0):
                        if packet.size:
                            check_opus_packet(decoder, bytes(packet))
        except (AssertionError, av.FFmpegError) as error:
            raise AssertionError(f"{self.name}, {len(data)} bytes: {error}") from error

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
