"""The relay that encodes: packets out of the pages of an Ogg stream."""

import asyncio
import contextlib

from bench.relay import opus_packets

from tonearm.interop.ogg_opus import OggOpusStream


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
