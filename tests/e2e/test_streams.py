"""Endless streams over HTTP, as programs and browsers take them, on a running node."""

import asyncio
import contextlib
import io
import time

import aiohttp
import av
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.audio_files import music, tone, wav
from tests.support.e2e_players import create, enqueue, state
from tests.support.e2e_sockets import listening
from tests.support.http_client import websocket
from tests.support.running_node import RunningNode
from tonearm.protocol.framing import HEADER


def decoded_file(data: bytes, file_format: str) -> NDArray[np.float64]:
    with av.open(io.BytesIO(data), "r", format=file_format) as container:
        resampler = av.AudioResampler("s16", "stereo", 48_000)
        blocks = [
            block.to_ndarray().reshape(-1, 2)
            for frame in container.decode(audio=0)
            for block in resampler.resample(frame)
        ]
    return np.concatenate(blocks).astype(np.float64)


async def recorded(url: str, seconds: float, headers: dict[str, str] | None = None) -> bytes:
    """What comes within so many seconds once the answer has begun: were the request itself cancelled, aiohttp's client
    could leave a connection that is just being made unclosed."""
    data = bytearray()
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as got:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for chunk in got.content.iter_any():
                    data += chunk
                raise AssertionError("the stream has ended")
    return bytes(data)


async def test_titles_and_a_burst_come_in_streams(node: RunningNode) -> None:
    for name, seconds, hz in (("one", 2.0, 440), ("two", 20.0, 660)):
        (node.folder / f"{name}.wav").write_bytes(wav(tone(hz, seconds)))
    await create(node, "p", "one.wav")
    await enqueue(node, "p", "two.wav")
    stream = f"{node.url}/v0/players/p/stream"
    plain, chained, with_titles = await asyncio.gather(
        recorded(f"{stream}.ogg", 4),
        recorded(f"{stream}.ogg?chained=1", 4),
        recorded(f"{stream}.mp3", 4, {"Icy-MetaData": "1"}),
    )
    assert plain.count(b"OpusHead") == 1
    assert chained.count(b"OpusHead") == 2
    assert b"TITLE=one" in chained
    assert b"TITLE=two" in chained
    size = with_titles[16_000] * 16
    assert with_titles[16_001 : 16_001 + size].rstrip(b"\0") == b"StreamTitle='one';"
    assert b"StreamTitle='two';" in with_titles
    sound = with_titles[:16_000] + with_titles[16_001 + size : 32_001 + size]
    for data, file_format in ((plain, "ogg"), (sound, "mp3")):
        assert len(decoded_file(data, file_format)) > 1.9 * 48_000
    for kind, burst_s in (("ogg", 2.0), ("mp3", 2.0), ("wav", 0.0)):  # of what was sounded before
        begun_s = time.monotonic()
        samples = decoded_file(await recorded(f"{stream}.{kind}", 0.6), kind)
        assert burst_s - 0.1 <= len(samples) / 48_000 <= burst_s + time.monotonic() - begun_s + 0.1
        assert np.abs(samples[:4_800]).max() > 30


@pytest.mark.timing
async def test_a_listener_that_stood_still_is_late_by_no_more_than_it_asked_for(node: RunningNode) -> None:
    """What its own kernel has taken comes first, then a gap, then frames that were 200 ms old at most as it went on."""
    (node.folder / "song.wav").write_bytes(wav(music(10.0)))
    await create(node, "p", "song.wav")
    target = "/v0/players/p/ws?header=1&maxLatencyMs=200&format="
    async with (
        websocket(node.port, target + "pcm", receive_buffer_bytes=4096) as still_pcm,
        websocket(node.port, target + "opus", receive_buffer_bytes=4096) as still_opus,
        listening(node, "p") as ear,
    ):
        await ear.frames_heard(150)
        for still in (still_pcm, still_opus):
            newest = (await state(node, "p"))["quality"]["framesSent"]
            numbers = [0]
            while numbers[-1] < newest:
                numbers.append(HEADER.unpack_from((await still.read_frame()).payload)[3])
            # The kernels of both sides may take some more in the middle, which makes a gap of its own.
            *_, last_gap = (place for place, number in enumerate(numbers) if place and number > numbers[place - 1] + 1)
            # What the client and the kernel had taken already: of PCM a few frames, of packets a second at most.
            assert last_gap < 100
            assert newest - numbers[last_gap] <= 10 + 1, "200 ms, and the frame that comes first"
