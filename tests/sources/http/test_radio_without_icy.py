"""Stations that do not say so: what is a live stream, and what is a file that is sent slowly.

Neither ffmpeg nor curl tell them apart; ffmpeg ends both where they break off.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

import pytest

from tests.support.audio_files import encoded, music
from tests.support.fetching import opened_by, opener, read_bytes
from tests.support.hand_time import LoopTime
from tests.support.media_server import Answer, MediaServer, Reply, Request
from tonearm.core.opened_source import OpenedSource
from tonearm.sources.http.file import HttpFileReader
from tonearm.sources.http.radio import RadioReader

BYTES_PER_S: Final = 16_000  # of MP3; AAC is near it
STEP_S: Final = 0.125
TYPE: Final = "Content-Type: audio/mpeg\r\n"


@cache
def sound(kind: str = "mp3") -> bytes:
    """Ten seconds from the middle of a programme, or of a file from its beginning."""
    if kind == "aac":
        return encoded("adts", "aac", music(10.0, 48_000), 48_000, bit_rate=128_000)[3000:]
    xing, id3 = str(int(kind == "mp3 with its length")), "3" if kind == "mp3 with a tag" else "0"
    options = {"write_xing": xing, "id3v2_version": id3}
    whole = encoded("mp3", "libmp3lame", music(10.0, 48_000), 48_000, bit_rate=128_000, options=options)
    return whole[1000:] if kind == "mp3" else whole


@dataclass(frozen=True)
class Sent:
    """How something without `icy-` headers is sent: a burst in seconds, then `pace` seconds of sound a second."""

    headers: str = TYPE
    kind: str = "mp3"
    burst_s: float = 2.0
    pace: float = 1.0

    async def __call__(self, _: Request, reply: Reply) -> None:
        await reply.send(f"HTTP/1.1 200 OK\r\nConnection: close\r\n{self.headers}\r\n".encode())
        data = sound(self.kind) * 5
        sent, due_s = 0, self.burst_s
        while True:
            part = data[sent : round(due_s * BYTES_PER_S)]
            sent += len(part)
            await reply.send(part)
            await asyncio.sleep(STEP_S)
            due_s += STEP_S * self.pace


@asynccontextmanager
async def opened_in_its_time(server: MediaServer, answer: Answer) -> AsyncIterator[OpenedSource]:
    """The source, opened while time goes on by hand: what is sent and what is read have the same clock."""
    turning = asyncio.create_task(_turn(LoopTime(stands=True), server))
    async with opener() as source_opener:
        source = await opened_by(source_opener, server.serve("/listen", answer))
        try:
            yield source
        finally:
            turning.cancel()
            await source.close()


async def _turn(time: LoopTime, server: MediaServer) -> None:
    while True:
        for _ in range(50):
            await asyncio.sleep(0)
        if server.replies:
            time.forward(STEP_S)


LIVE: Final = {
    "a station": Sent(),
    "without a burst": Sent(burst_s=0.0),
    "AAC": Sent("Content-Type: audio/aacp\r\n", kind="aac"),
    "a programme with a tag, in large pieces": Sent(burst_s=1.0, pace=0.9, kind="mp3 with a tag"),
    "Icecast, all at once": Sent(f"{TYPE}Server: Icecast 2.4.4\r\n", burst_s=40.0, pace=0.0),
}

FILES: Final = {
    "sent three times as fast": Sent(pace=3.0),
    "sent far too slowly": Sent(pace=0.2),
    "sent all at once, and held": Sent(burst_s=45.0, pace=0.0),
    "with a tag, before its time": Sent(kind="mp3 with a tag"),
    "with the frame that tells its length": Sent(kind="mp3 with its length"),
    "speech while it is made": Sent(burst_s=0.25, pace=3.0, kind="mp3 from its beginning"),
}


@pytest.mark.parametrize("name", LIVE)
async def test_what_is_live(server: MediaServer, name: str) -> None:
    async with opened_in_its_time(server, LIVE[name]) as source:
        assert (source.is_live, source.is_seekable, source.size_bytes) == (True, False, None)
        assert isinstance(source.reader, RadioReader)
        assert await read_bytes(source, 20_000) == sound(LIVE[name].kind)[:20_000]
        assert server.ranges == ["bytes=0-"]


@pytest.mark.parametrize("name", FILES)
async def test_what_is_a_file(server: MediaServer, name: str) -> None:
    async with opened_in_its_time(server, FILES[name]) as source:
        assert not source.is_live
        assert isinstance(source.reader, HttpFileReader)
        assert await read_bytes(source, 20_000) == sound(FILES[name].kind)[:20_000]
        assert await source.reader.read_at(10, 10) == sound(FILES[name].kind)[10:20]


async def test_what_is_too_fast_is_not_waited_for(server: MediaServer) -> None:
    """Speech that is made while it is sent is to be heard at once."""
    speech = Sent(burst_s=2.0, pace=3.0, kind="mp3 from its beginning")
    begun_s = asyncio.get_running_loop().time()
    async with opened_in_its_time(server, speech):
        assert asyncio.get_running_loop().time() - begun_s < 4 * STEP_S
