"""mpv plays the streams of a running node: all of the sound, and titles when they change."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import PATIENT, create, enqueue, order
from tests.support.eventually import eventually
from tests.support.missing_programs import needs
from tests.support.running_node import RunningNode, running_node

pytestmark = needs("mpv")

ONE_HZ, OTHER_HZ = 1000, 400
RATE_HZ = 48_000


def tones_in(pcm: bytes) -> list[float]:
    """The frequency of each 50 ms of s16le stereo at 48 kHz, 0 where it is silent."""
    sound = np.frombuffer(pcm[: len(pcm) // 4 * 4], "<i2").reshape(-1, 2)[:, 0].astype(np.float64)
    window = RATE_HZ // 20
    parts = sound[: len(sound) // window * window].reshape(-1, window)
    loudest = np.abs(np.fft.rfft(parts * np.hanning(window))).argmax(axis=1) * RATE_HZ / window
    return [float(hertz) for hertz in np.where(np.abs(parts).max(axis=1) > 1000, loudest, 0.0)]


class Mpv:
    """One that plays."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, *command: str) -> Any:
        """The answer's data; None for a property that it does not have now."""
        self._writer.write(json.dumps({"command": command}).encode() + b"\n")
        while "error" not in (answer := json.loads(await self._reader.readline())):
            pass  # an event
        return answer.get("data")

    async def shows(self, of: str, value: str) -> None:
        async def is_there() -> bool:
            return bool(await self.ask("get_property", of) == value)

        await eventually(is_there, f"mpv shows {value} as its {of}")

    async def played_s(self, seconds: float) -> None:
        """Waits until it has played so much from now on."""
        begun = float(await self.ask("get_property", "time-pos") or 0.0)

        async def is_played() -> bool:
            return float(await self.ask("get_property", "time-pos") or 0.0) >= begun + seconds

        await eventually(is_played, f"mpv has played {seconds} s more")


@asynccontextmanager
async def mpv(url: str, control: Path, *output: str) -> AsyncIterator[Mpv]:
    """It is over at the end, and has finished what it writes."""
    process = await asyncio.create_subprocess_exec(
        "mpv", "--no-config", "--no-terminal", "--vo=null", *output, f"--input-ipc-server={control}", url,
        stdin=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await eventually(control.exists, "mpv has started")
        reader, writer = await asyncio.open_unix_connection(str(control))
        try:
            yield Mpv(reader, writer)
            writer.write(b'{"command": ["quit"]}\n')
            assert await process.wait() == 0
        finally:
            writer.close()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def playing_two(folder: Path) -> AsyncIterator[RunningNode]:
    """A node with a player that plays one tone, and then another."""
    (folder / "one.wav").write_bytes(wav(tone(ONE_HZ, 60.0)))
    (folder / "other.wav").write_bytes(wav(tone(OTHER_HZ, 60.0)))
    async with running_node(folder, PATIENT) as node:
        await create(node, "p", "one.wav")
        await enqueue(node, "p", "other.wav")
        yield node


@pytest.mark.parametrize("kind", ["ogg", "mp3", "wav"])
async def test_mpv_plays_all_of_a_stream_and_shows_its_titles_over_a_skip(kind: str, tmp_path: Path) -> None:
    recording = tmp_path / "heard"
    pcm = ("--ao=pcm", f"--ao-pcm-file={recording}", "--ao-pcm-waveheader=no")
    form = ("--audio-format=s16", f"--audio-samplerate={RATE_HZ}", "--audio-channels=stereo")
    async with playing_two(tmp_path) as node:
        url = f"{node.url}/v0/players/p/stream.{kind}"
        async with mpv(url, tmp_path / "control", *pcm, *form) as listener:
            await listener.shows("metadata/by-key/icy-name", "tonearm p")
            await listener.shows("media-title", "one")
            await listener.played_s(5.0)
            await order(node, "p", "skip")
            await listener.shows("media-title", "other")
            await listener.played_s(5.0)
    tones = tones_in(recording.read_bytes())
    at_one = [index for index, hertz in enumerate(tones) if abs(hertz - ONE_HZ) < 30]
    at_other = [index for index, hertz in enumerate(tones) if abs(hertz - OTHER_HZ) < 30]
    assert len(at_one) >= 40
    assert len(at_other) >= 30
    assert max(at_one) < min(at_other)
    # Nothing was missing: but for the beginning and the change, each 50 ms of it are one of the two.
    assert len(at_one) + len(at_other) >= max(at_other) - min(at_one) + 1 - 2
