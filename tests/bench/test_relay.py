"""The relay that encodes: packets out of the pages of an Ogg stream, and an encoder at the pace of its listener."""

import asyncio
import contextlib
from pathlib import Path

import aiohttp
from bench import processes
from bench.relay import PAGE_HEAD_BYTES, opus_packets
from bench.subjects import relay

from tests.support.audio_files import tone, wav
from tests.support.missing_programs import needs
from tonearm.server.stream_bodies import OggOpusStream


async def packets_of(data: bytes) -> list[bytes]:
    pipe = asyncio.StreamReader()
    pipe.feed_data(data)
    pipe.feed_eof()
    found: list[bytes] = []
    with contextlib.suppress(asyncio.IncompleteReadError):  # the end
        async for packet in opus_packets(pipe):
            found.append(packet)  # noqa: PERF401 - what came before the end is what counts
    return found


async def test_packets_come_out_as_they_went_in() -> None:
    stream = OggOpusStream(1, 312)
    packets = [bytes([number]) * length for number, length in enumerate((3, 254, 255, 256, 510, 1275), start=1)]
    data = stream.head("test") + stream.page(packets[:2]) + stream.page(packets[2:])
    assert await packets_of(data) == packets


@needs("ffmpeg")
async def test_its_encoder_is_not_seconds_ahead_of_what_is_sent(tmp_path: Path) -> None:
    song = tmp_path / "tone.wav"
    song.write_bytes(wav(tone(1000.0, 60.0)))
    packets: list[bytes] = []
    async with relay(str(song)) as subject, aiohttp.ClientSession() as session:
        socket = await session.ws_connect(subject.url + subject.path("p", "opus"))
        while len(packets) < 25:
            packets.append(await socket.receive_bytes())
        (encoder,) = processes.tree(subject.pid)[1:]
        written = processes.written_bytes(encoder)
    page_bytes = sum(map(len, packets)) / len(packets) + PAGE_HEAD_BYTES + 1
    assert len(packets) < written / page_bytes < len(packets) + 100
