"""The files that the benchmarks play: one piece of music-like sound in every format."""

import subprocess
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from aiohttp import web

LENGTH_S: Final = 200  # as a song: opening it again is not what is measured
_PIECE_S: Final = 60
RATE_HZ: Final = 44_100

# name -> (container, codec, bit rate or None)
FORMATS: Final = {
    "mp3": ("mp3", "libmp3lame", 192_000),
    "vorbis": ("ogg", "libvorbis", 192_000),
    "aac": ("mp4", "aac", 160_000),
    "flac": ("flac", "flac", None),
    "wav": ("wav", "pcm_s16le", None),
    "opus": ("ogg", "libopus", 128_000),
}
_ENDINGS: Final = {"mp4": "m4a", "ogg": "ogg"}


def make_file(folder: Path, name: str, length_s: int = LENGTH_S) -> Path:
    """Writes so much of the piece in the format `name` and returns the path; a file that is there already is kept.

    By the ffmpeg program, which has to be there anyway: PyAV has no libvorbis, and libav's own Vorbis encoder writes
    wrong times, so that a node takes 200 s for 14 and opens the next track at once.
    """
    container_name, codec, bit_rate = FORMATS[name]
    ending = _ENDINGS.get(container_name, container_name)
    path = folder / (f"{name}.{ending}" if length_s == LENGTH_S else f"{name}-{length_s}s.{ending}")
    if path.exists():
        return path
    rate_hz = 48_000 if codec == "libopus" else RATE_HZ
    reading = ["-f", "s16le", "-ar", str(rate_hz), "-ac", "2", "-i", "-"]
    writing = ["-c:a", codec, *(() if bit_rate is None else ("-b:a", str(bit_rate))), "-f", container_name, str(path)]
    subprocess.run(
        ["ffmpeg", "-v", "error", *reading, *writing], input=_piece(rate_hz)[: length_s * rate_hz].tobytes(), check=True
    )
    return path


@cache
def _piece(rate_hz: int) -> np.ndarray:
    """Chords with overtones and a little noise, a minute of them again and again: about as much to do as with music."""
    t = np.arange(_PIECE_S * rate_hz) / rate_hz
    generator = np.random.default_rng(7)
    sound = np.zeros((len(t), 2))
    for second in range(0, _PIECE_S, 2):
        part = slice(second * rate_hz, (second + 2) * rate_hz)
        local = t[part] - second
        fade = np.exp(-local * 1.5)
        for note in generator.choice([110, 131, 165, 196, 220, 262, 330, 392, 440, 523], 4, replace=False):
            for overtone in range(1, 9):
                phase = generator.random(2) * 6.28
                tone = np.sin(2 * np.pi * note * overtone * local[:, None] + phase) / overtone
                sound[part] += tone * fade[:, None]
    sound += generator.normal(0, 0.02, sound.shape)
    minute = np.asarray(sound / np.abs(sound).max() * 0.8 * 32767, dtype=np.int16)
    return np.resize(minute, (LENGTH_S * rate_hz, 2))


def make_bare_mp3(folder: Path) -> Path:
    """The piece as MP3 without a table in front: its length has to be counted."""
    path = folder / "bare.mp3"
    if not path.exists():
        full = ["-i", str(make_file(folder, "mp3")), "-c", "copy", "-write_xing", "0", "-id3v2_version", "0"]
        subprocess.run(["ffmpeg", "-v", "error", *full, str(path)], check=True)
    return path


def make_tone(folder: Path) -> Path:
    """Some minutes of a steady 1 kHz tone, for hearing when a filter takes hold."""
    return _make_tone(folder / "tone.wav", LENGTH_S)


def make_clip(folder: Path) -> Path:
    """A short tone, for hearing when an overlay begins."""
    return _make_tone(folder / "clip.wav", 0.2)


def _make_tone(path: Path, length_s: float) -> Path:
    if not path.exists():
        t = np.arange(round(length_s * 48_000)) / 48_000
        samples = np.asarray(np.sin(2 * np.pi * 1000 * t) * 16_000, dtype=np.int16)
        with wave.open(str(path), "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(48_000)
            file.writeframes(np.repeat(samples, 2).tobytes())
    return path


_STEP_S: Final = 10
STEPS: Final = LENGTH_S // _STEP_S


def make_steps(folder: Path) -> Path:
    """An MP3 in which each ten seconds have a tone of their own, for hearing where in it a player is: see `step_hz`."""
    path = folder / "steps.mp3"
    if not path.exists():
        t = np.arange(_STEP_S * RATE_HZ) / RATE_HZ
        tones = [np.sin(2 * np.pi * step_hz(number) * t) for number in range(STEPS)]
        samples = np.asarray(np.repeat(np.concatenate(tones), 2) * 16_000, dtype=np.int16)
        reading = ["-f", "s16le", "-ar", str(RATE_HZ), "-ac", "2", "-i", "-"]
        writing = ["-c:a", "libmp3lame", "-b:a", "192k", str(path)]
        subprocess.run(["ffmpeg", "-v", "error", *reading, *writing], input=samples.tobytes(), check=True)
    return path


def step_hz(number: int) -> int:
    """The tone of step `number`: a whole number of waves in 20 ms, two steps never as near as 100 Hz."""
    return 500 + 100 * number


def step_middle_ms(number: int) -> int:
    return (number * _STEP_S + _STEP_S // 2) * 1000


@asynccontextmanager
async def http_server(folder: Path) -> AsyncIterator[str]:
    """Serves `folder` with ranges on loopback; gives its address."""
    app = web.Application()
    app.router.add_static("/", folder)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site.port}"
    finally:
        await runner.cleanup()
