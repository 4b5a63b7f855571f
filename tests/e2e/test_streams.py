"""Endless streams over HTTP, as programs and browsers take them, on a running node."""

import asyncio
import contextlib
import io
from pathlib import Path

import aiohttp
import av
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, enqueue
from tests.support.missing_programs import needs
from tests.support.running_node import RunningNode


def song(node: RunningNode, name: str, seconds: float, seed: int = 0) -> None:
    (node.folder / name).write_bytes(wav(music(seconds, seed=seed) * 0.5))


def stream(node: RunningNode, kind: str, query: str = "") -> str:
    return f"{node.url}/v0/players/p/stream.{kind}{query}"


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
    song(node, "one.wav", 2.0, seed=1)
    song(node, "two.wav", 20, seed=2)
    await create(node, "p", "one.wav")
    await enqueue(node, "p", "two.wav")
    plain, chained, with_titles = await asyncio.gather(
        recorded(stream(node, "ogg"), 4),
        recorded(stream(node, "ogg", "?chained=1"), 4),
        recorded(stream(node, "mp3"), 4, {"Icy-MetaData": "1"}),
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
    for kind, least_s in (("ogg", 2.0), ("mp3", 2.0), ("wav", 0.0)):  # of what was sounded before
        samples = decoded_file(await recorded(stream(node, kind), 0.3), kind)
        assert len(samples) > least_s * 48_000
        assert np.abs(samples[:4_800]).max() > 30


@needs("ffmpeg")
async def test_ffmpeg_plays_each_stream(node: RunningNode, tmp_path: Path) -> None:
    song(node, "song.wav", 12)
    await create(node, "p", "song.wav")

    async def play(kind: str, codec: str) -> None:
        output = tmp_path / f"{kind}.wav"
        process = await asyncio.create_subprocess_exec(
            *("ffmpeg", "-v", "info", "-nostdin", "-y", "-i", stream(node, kind), "-t", "3", str(output)),
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await process.communicate()
        assert process.returncode == 0, errors
        assert f"Audio: {codec}".encode() in errors
        assert b"icy-name" in errors
        samples = decoded_file(output.read_bytes(), "wav")
        assert len(samples) == pytest.approx(3 * 48_000, abs=2000)
        assert np.abs(samples[-48_000:]).max() > 1000

    await asyncio.gather(play("ogg", "opus"), play("mp3", "mp3"), play("wav", "pcm_s16le"))
