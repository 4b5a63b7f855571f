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

from tests.support.audio_files import music, pcm_of, tone, wav
from tests.support.e2e_players import create, delete, enqueue, order, patch, state, until_state
from tests.support.e2e_sockets import following, listening
from tests.support.http_client import connected, websocket
from tests.support.missing_programs import needs
from tests.support.opus_listening import decoded, segmental_snr_db
from tests.support.pcm import channels
from tests.support.running_node import RunningNode
from tonearm.core.frame import FRAME_SAMPLES


def song(node: RunningNode, name: str, seconds: float, seed: int = 0) -> bytes:
    """Puts a file there, and returns what is in it."""
    sound = music(seconds, seed=seed) * 0.5
    (node.folder / name).write_bytes(wav(sound))
    return pcm_of(sound)


def stream(node: RunningNode, kind: str, query: str = "") -> str:
    return f"{node.url}/v0/players/p/stream.{kind}{query}"


async def run(*command: str) -> tuple[int, bytes, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    return process.returncode or 0, output, errors.decode(errors="replace")


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


async def sound_recorded(url: str, kind: str, seconds: float) -> NDArray[np.float64]:
    """The first sound of a stream, so much at least, however long it takes."""
    data = bytearray()
    async with aiohttp.ClientSession() as session, session.get(url) as got:
        async for chunk in got.content.iter_any():
            data += chunk
            if len(data) > 16_000 and len(samples := decoded_file(bytes(data), kind)) > seconds * 48_000:
                return samples
    raise AssertionError("the stream has ended")


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


@pytest.mark.parametrize(
    ("kind", "query", "burst_s"),
    [
        ("ogg", "", 2.0), ("mp3", "", 2.0), ("wav", "", 0.0),
        ("ogg", "?burst=500", 0.5), ("mp3", "?burst=0", 0.0), ("wav", "?burst=1000", 1.0),
    ],
)  # fmt: skip
async def test_a_stream_begins_with_its_burst_and_then_takes_as_long_as_it_sounds(
    node: RunningNode, kind: str, query: str, burst_s: float
) -> None:
    song(node, "song.wav", 10)
    await create(node, "p", "song.wav", paused=True)
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    data = await recorded(stream(node, kind, query), 0.4)
    elapsed_s = loop.time() - begun_s
    samples = channels(data[44:][: len(data) // 4 * 4 - 44]) if kind == "wav" else decoded_file(data, kind)
    assert burst_s - 0.1 <= len(samples) / 48_000 <= burst_s + elapsed_s + 0.1
    assert not samples.any(), "nothing was sent before"


@pytest.mark.parametrize(
    ("kind", "is_awake"), [("ogg", True), ("mp3", False)], ids=["ogg of one awake", "mp3 of one asleep"]
)
async def test_the_first_listener_of_a_form_begins_with_what_was_sounded(
    node: RunningNode, kind: str, is_awake: bool
) -> None:
    """The burst is sound from its first moment on, goes on without a hole, and what comes then takes as long as it
    sounds, whatever was before."""
    song(node, "song.wav", 15)
    await create(node, "p", "song.wav")
    async with contextlib.AsyncExitStack() as stack:
        ear = await stack.enter_async_context(listening(node, "p"))
        await ear.frames_heard(150)
        if not is_awake:
            await stack.aclose()
            await until_state(node, "p", lambda now: now["quality"]["decoderProcess"] is None)
        begun_s = asyncio.get_running_loop().time()
        samples = await sound_recorded(stream(node, kind), kind, 2.5)
        elapsed_s = asyncio.get_running_loop().time() - begun_s
    loud = np.flatnonzero(np.abs(samples).max(axis=1) > 30)
    assert loud[0] < 0.05 * 48_000
    assert longest_hole_s(samples) < 0.03
    assert len(samples) / 48_000 < 2.0 + elapsed_s + 0.1


async def test_an_overlay_over_an_idle_player_is_in_every_stream(node: RunningNode) -> None:
    (node.folder / "song.wav").write_bytes(wav(tone(1_500, 0.2) * 0.01))  # next to nothing beside the beep
    (node.folder / "beep.wav").write_bytes(wav(tone(1_500, 1.0)))
    await create(node, "p", "song.wav")
    kinds = ("wav", "ogg", "mp3")
    async with following(node, "p") as tape:
        recordings = [asyncio.create_task(recorded(stream(node, kind, "?burst=0"), 4.0)) for kind in kinds]
        await tape.until("PlayerUpdate", state="idle")
        answer = await node.request("POST", "/v0/players/p/overlays", {"uri": "beep.wav"})
        assert answer.status == 201
        await tape.until("OverlayEnd", reason="finished")
        bodies = await asyncio.gather(*recordings)
    for kind, body in zip(kinds, bodies, strict=True):
        # The length in the header of an endless WAV stream is no length.
        samples = decoded_file(body, kind) if kind != "wav" else channels(body[44:][: len(body) // 4 * 4 - 44])
        assert len(samples) / 48_000 == pytest.approx(3.8, abs=0.35), "silence comes while there is nothing"
        loud = np.flatnonzero(np.abs(samples).max(axis=1) > 3_000)
        assert loud[-1] - loud[0] == pytest.approx(48_000, abs=1_500), kind
        beep = samples[loud[0] + 4_800 : loud[0] + 4_800 + 38_400, 0]
        assert np.abs(np.fft.rfft(beep)).argmax() * 48_000 / len(beep) == pytest.approx(1_500, abs=2), kind


@needs("ffmpeg")
@pytest.mark.parametrize(("kind", "codec"), [("ogg", "opus"), ("mp3", "mp3"), ("wav", "pcm_s16le")])
async def test_ffmpeg_plays_each_stream(node: RunningNode, tmp_path: Path, kind: str, codec: str) -> None:
    song(node, "song.wav", 12)
    await create(node, "p", "song.wav")
    output = tmp_path / "heard.wav"
    code, _, errors = await run(
        *("ffmpeg", "-v", "info", "-nostdin", "-y", "-i", stream(node, kind), "-t", "4", str(output))
    )
    assert code == 0, errors
    assert f"Audio: {codec}" in errors
    assert "icy-name" in errors
    samples = decoded_file(output.read_bytes(), "wav")
    assert len(samples) == pytest.approx(4 * 48_000, abs=2000)
    assert np.abs(samples[-48_000:]).max() > 1000


@needs("curl")
async def test_titles_come_between_the_bytes(node: RunningNode, tmp_path: Path) -> None:
    song(node, "first song.wav", 15)
    await create(node, "p", "first song.wav")
    heads = tmp_path / "heads"
    code, body, errors = await run(
        *("curl", "-s", "--http1.0", "-m", "4", "-D", str(heads), "-H", "Icy-MetaData: 1", stream(node, "mp3"))
    )
    assert code == 28, errors  # curl's own time limit
    head = heads.read_text().lower()
    for line in ("icy-name: tonearm p", "icy-metaint: 16000", "content-type: audio/mpeg", "cache-control: no-store"):
        assert line in head
    assert "x-content-type-options: nosniff" in head
    assert "transfer-encoding" not in head
    size = body[16_000] * 16
    assert body[16_001 : 16_001 + size].rstrip(b"\0") == b"StreamTitle='first song';"
    assert body[32_001 + size] == 0, "the title is the same"
    sound = body[:16_000] + body[16_001 + size : 32_001 + size]
    assert len(decoded_file(sound, "mp3")) > 1.9 * 48_000


async def test_one_logical_stream_or_one_for_each_title(node: RunningNode) -> None:
    song(node, "one.wav", 2.0, seed=1)
    song(node, "two.wav", 20, seed=2)
    await create(node, "p", "one.wav")
    await enqueue(node, "p", "two.wav")
    plain, chained = await asyncio.gather(
        recorded(stream(node, "ogg"), 4), recorded(stream(node, "ogg", "?chained=1"), 4)
    )
    assert plain.count(b"OpusHead") == 1
    assert chained.count(b"OpusHead") == 2
    assert b"TITLE=one" in chained
    assert b"TITLE=two" in chained
    assert len(decoded_file(plain, "ogg")) > 3 * 48_000


@pytest.mark.timing
async def test_a_first_look_at_a_stream_is_no_listener(node: RunningNode) -> None:
    song(node, "song.wav", 12)
    await create(node, "p", "song.wav")
    async with following(node, "p", "?since=0") as tape:
        for kind in ("mp3", "ogg", "wav"):
            async with connected(node.port) as client:
                client.send_request("GET", f"/v0/players/p/stream.{kind}")
                assert (await state(node, "p"))["listeners"] == 0
        assert [event["op"] for event in tape.events if event["op"] == "TrackStart"] == []
        async with connected(node.port) as client:
            client.send_request("GET", "/v0/players/p/stream.ogg")
            await tape.until("TrackStart")
            assert (await state(node, "p"))["listenersByFormat"] == {"pcm": 0, "opus": 1, "mp3": 0, "voice": 0}
    await until_state(node, "p", lambda now: now["listeners"] == 0)


@pytest.mark.timing
async def test_a_listener_that_stood_still_is_late_by_no_more_than_it_asked_for(node: RunningNode) -> None:
    """What its own kernel has taken comes first, then a gap, then frames that were 200 ms old at most as it went on."""
    song(node, "song.wav", 15)
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
                numbers.append(struct.unpack(">BBHIQ", (await still.read_frame()).payload[:16])[3])
            # The kernels of both sides may take some more in the middle, which makes a gap of its own.
            *_, last_gap = (place for place, number in enumerate(numbers) if place and number > numbers[place - 1] + 1)
            # What the client and the kernel had taken already: of PCM a few frames, of packets a second at most.
            assert last_gap < 100
            assert newest - numbers[last_gap] <= 10 + 1, "200 ms, and the frame that comes first"
