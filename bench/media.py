"""The files that the benchmarks play: one piece of music-like sound in every format."""

import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final

import av
import numpy as np
from aiohttp import web

LENGTH_S: Final = 200  # as a song: opening it again is not what is measured
_PIECE_S: Final = 60
RATE_HZ: Final = 44_100

# name -> (container, codec, bit rate or None, options)
FORMATS: Final = {
    "mp3": ("mp3", "libmp3lame", 192_000, {}),
    "vorbis": ("ogg", "vorbis", 192_000, {"strict": "experimental"}),
    "aac": ("mp4", "aac", 160_000, {}),
    "flac": ("flac", "flac", None, {}),
    "wav": ("wav", "pcm_s16le", None, {}),
    "opus": ("ogg", "libopus", 128_000, {}),
}
_ENDINGS: Final = {"mp4": "m4a", "ogg": "ogg"}


def make_file(folder: Path, name: str) -> Path:
    """Writes the piece in the format `name` and returns the path; a file that is there already is kept."""
    container_name, codec, bit_rate, options = FORMATS[name]
    path = folder / f"{name}.{_ENDINGS.get(container_name, container_name)}"
    if path.exists():
        return path
    rate_hz = 48_000 if codec == "libopus" else RATE_HZ
    pcm = _piece(rate_hz)
    with av.open(str(path), "w", format=container_name) as container:
        stream = container.add_stream(codec, rate=rate_hz, layout="stereo", options=options)
        assert isinstance(stream, av.AudioStream)
        if bit_rate is not None:
            stream.bit_rate = bit_rate
        frame = av.AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate = rate_hz
        frame.time_base = Fraction(1, rate_hz)
        resampler = av.AudioResampler(stream.format, stream.layout, rate_hz, stream.codec_context.frame_size or None)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
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


def make_tone(folder: Path) -> Path:
    """Some minutes of a steady 1 kHz tone, for hearing when a filter takes hold."""
    path = folder / "tone.wav"
    if not path.exists():
        t = np.arange(LENGTH_S * 48_000) / 48_000
        samples = np.asarray(np.sin(2 * np.pi * 1000 * t) * 16_000, dtype=np.int16)
        with wave.open(str(path), "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(48_000)
            file.writeframes(np.repeat(samples, 2).tobytes())
    return path


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
