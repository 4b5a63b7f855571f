"""Endless streams over HTTP and Opus on /ws, as programs and browsers take them, on a running node."""

import asyncio
import contextlib
import io
import os
import signal
import struct
from pathlib import Path

import aiohttp
import av
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, delete, enqueue, order, patch, state, until_state
from tests.support.e2e_sockets import listening
from tests.support.missing_programs import needs
from tests.support.opus_listening import decoded, segmental_snr_db
from tests.support.pcm import channels
from tests.support.running_node import RunningNode
from tonearm.core.frame import FRAME_SAMPLES


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


def longest_hole_s(samples: NDArray[np.float64]) -> float:
    """The longest silence between the first and the last sound."""
    loud = np.flatnonzero(np.abs(samples).max(axis=1) > 30)
    return float(np.diff(loud).max()) / 48_000


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


@pytest.mark.timing
async def test_four_kinds_of_listeners_hear_one_player_through_everything(node: RunningNode) -> None:
    """Filters, a skip and a killed decoder, while PCM, Opus, Ogg and MP3 are heard."""
    song(node, "one.wav", 12, seed=1)
    song(node, "two.wav", 15, seed=2)
    await create(node, "p", "one.wav", paused=True)
    await enqueue(node, "p", "two.wav")
    packets: list[tuple[int, int, bytes]] = []

    async def hear_opus(session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(f"{node.url}/v0/players/p/ws?format=opus&header=1") as socket:
            async for message in socket:
                _, flags, _, number, _ = struct.unpack(">BBHIQ", message.data[:16])
                packets.append((number, flags, message.data[16:]))

    async with aiohttp.ClientSession() as session:
        opus = asyncio.create_task(hear_opus(session))
        async with listening(node, "p") as ear:
            await until_state(node, "p", lambda now: now["listeners"] == 2)
            await order(node, "p", "play")
            streams = [asyncio.create_task(recorded(stream(node, kind), 6.5)) for kind in ("ogg", "mp3")]
            await ear.frames_heard(60)
            for volume in (0.7, 0.9, 1.0):
                await patch(node, "p", "filters", {"volume": volume})
                await ear.more_frames(10)
            await order(node, "p", "skip")
            await ear.more_frames(40)
            os.kill((await state(node, "p"))["quality"]["decoderProcess"], signal.SIGKILL)
            await ear.more_frames(60)
            ogg, mp3 = await asyncio.gather(*streams)
            now = await state(node, "p")
            assert now["listenersByFormat"]["pcm"] == 1
            await delete(node, "p")
            await ear.closed()
        await opus
    numbers = [number for number, flags, _ in packets if not flags & 4]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert sum(flags & 1 for _, flags, _ in packets) in (1, 2)
    skipped_at = [number for number, flags, _ in packets if flags & 2]
    assert len(skipped_at) == 1
    # The PCM listener may have come a frame later: its last frame is the last packet.
    heard = decoded([packet for _, flags, packet in packets if not flags & 4])[312:]
    pcm = channels(ear.pcm).astype(np.float64)
    late = len(numbers) - len(ear.frames)
    assert abs(late) <= 5
    start = max(late, 0) * FRAME_SAMPLES
    assert segmental_snr_db(pcm[max(-late, 0) * FRAME_SAMPLES :], heard[start:]) > 12
    for data, file_format, hole_s in ((ogg, "ogg", 0.15), (mp3, "mp3", 0.1)):
        samples = decoded_file(data, file_format)
        assert len(samples) / 48_000 == pytest.approx(6.5, abs=1.0), "a burst only of what was sounded: nothing yet"
        # Where the other process was not there in time, nobody heard anything.
        assert longest_hole_s(samples) < hole_s or now["quality"]["timesRunDry"] == 1, file_format


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
