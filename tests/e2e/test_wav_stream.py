"""`stream.wav` as a program for audio reads it."""

import asyncio
import urllib.request

import av
import numpy as np

from tests.support.audio_files import pcm_of, wav
from tests.support.e2e_players import create, delete, enqueue, order, until_state
from tests.support.e2e_sockets import following, listening
from tests.support.eventually import PATIENCE_S
from tests.support.running_node import RunningNode

NOISE = np.random.default_rng(2).uniform(-0.5, 0.5, (24_000, 2))


def read_samples(url: str, samples: int) -> tuple[bytes, str]:
    """The first samples that libav finds in the stream, and the codec's name."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        assert answer.headers["Content-Type"] == "audio/wav"
        with av.open(answer, mode="r", format="wav", buffer_size=4096, options={"probesize": "8192"}) as container:
            stream = container.streams.audio[0]
            assert (stream.rate, stream.channels) == (48_000, 2)
            assert container.duration is None or container.duration > 3600 * 1_000_000
            pcm = b""
            for frame in container.decode(stream):
                pcm += frame.to_ndarray().astype("<i2").tobytes()
                if len(pcm) >= samples * 4:
                    break
            return pcm[: samples * 4], stream.codec_context.name


async def test_it_is_an_endless_file_with_silence_where_nothing_plays(node: RunningNode) -> None:
    (node.folder / "noise.wav").write_bytes(wav(NOISE))
    await create(node, "p", "noise.wav")
    async with following(node, "p") as tape:
        reading = asyncio.create_task(
            asyncio.to_thread(read_samples, f"{node.url}/v0/players/p/stream.wav", 24_000 + 40_000)
        )
        await tape.until("PlayerUpdate", state="idle")
        await asyncio.sleep(0.2)
        await enqueue(node, "p", "noise.wav")
        pcm, codec = await reading
    assert codec == "pcm_s16le"
    sound = pcm_of(NOISE)
    first = pcm.index(sound)
    again = pcm.find(sound[:3840], first + len(sound))
    assert again > first + len(sound)
    assert not any(pcm[first + len(sound) : again])
    assert not any(pcm[:first])


async def test_it_counts_as_a_listener_and_ends_with_the_player(node: RunningNode) -> None:
    (node.folder / "noise.wav").write_bytes(wav(NOISE))
    await create(node, "p", "noise.wav")
    await order(node, "p", "pause")

    def read_all() -> bytes:
        with urllib.request.urlopen(f"{node.url}/v0/players/p/stream.wav", timeout=PATIENCE_S) as answer:
            body: bytes = answer.read()
        return body

    reading = asyncio.create_task(asyncio.to_thread(read_all))
    await until_state(node, "p", lambda now: now["listeners"])
    async with listening(node, "p") as ear:
        await order(node, "p", "play")
        await ear.frames_heard(25)
        await delete(node, "p")
        assert await ear.closed() == 1000
    body = await reading
    assert body.startswith(b"RIFF")
    assert pcm_of(NOISE) in body
