"""Every format from file and HTTP server to the audio socket: what a listener gets is what the file holds."""

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import pytest

from tests.support.audio_files import (
    Signal,
    encoded,
    flac,
    m4a,
    mp3,
    music,
    opus,
    pcm_of,
    tone,
    variable_mp3,
    vorbis,
    wav,
)
from tests.support.e2e_players import Heard, hear_all
from tests.support.media_files import loudest_hz, samples_of, snr_db
from tests.support.media_server import MediaServer, media, redirect
from tests.support.running_node import RunningNode

SECONDS: Final = 0.7
SAMPLES: Final = 33_600  # 35 frames of 960
TONE_HZ: Final = 997

NOISE: Final[Signal] = np.random.default_rng(5).uniform(-1, 1, (SAMPLES, 2))
MUSIC: Final = music(SECONDS)


def at(rate_hz: int, channels: int = 2) -> Signal:
    return music(SECONDS, rate_hz, channels=channels)


def sine(rate_hz: int, channels: int = 2) -> Signal:
    return tone(TONE_HZ, SECONDS, rate_hz, channels=channels)


# 48 kHz, 16 bits, stereo: comes out bit for bit.
EXACT: Final[dict[str, Callable[[], bytes]]] = {
    "16 bits.wav": lambda: wav(NOISE),
    "16 bits.flac": lambda: flac(NOISE),
    "16 bits.aiff": lambda: encoded("aiff", "pcm_s16be", NOISE),
    "16 bits.alac.m4a": lambda: m4a(NOISE, 48_000, codec="alac", sample_format="s16p"),
}

# Lossless, but with other samples than those of the node: the least signal to noise in dB.
LOSSLESS: Final[dict[str, tuple[Callable[[], bytes], float]]] = {
    "8 bits.wav": (lambda: wav(MUSIC, coding="u8"), 30),
    "24 bits.wav": (lambda: wav(MUSIC, coding="s24"), 60),
    "32 bits.wav": (lambda: wav(MUSIC, coding="s32"), 60),
    "float.wav": (lambda: wav(MUSIC, coding="f32"), 60),
    "mu-law.wav": (lambda: wav(MUSIC, coding="mulaw"), 30),
    "44.1 kHz.wav": (lambda: wav(at(44_100), 44_100), 60),
    "96 kHz.wav": (lambda: wav(at(96_000), 96_000), 60),
    "24 bits 96 kHz.flac": (lambda: encoded("flac", "flac", at(96_000), 96_000, sample_format="s32"), 60),
    "44.1 kHz.alac.m4a": (lambda: m4a(at(44_100), codec="alac"), 60),
}

LOSSY: Final[dict[str, Callable[[], bytes]]] = {
    "8 kHz.wav": lambda: wav(sine(8000), 8000),
    "VBR.mp3": lambda: variable_mp3(sine(44_100)),
    "CBR.mp3": lambda: mp3(sine(44_100)),
    "index first.m4a": lambda: m4a(sine(44_100)),
    "index last.m4a": lambda: m4a(sine(44_100), index_first=False),
    "vorbis.ogg": lambda: vorbis(sine(44_100)),
    "opus.ogg": lambda: opus(sine(48_000)),
    "opus.webm": lambda: opus(sine(48_000), container="webm"),
    "film with sound.mp4": lambda: m4a(sine(44_100), with_video=True),
    "film with sound.mkv": lambda: encoded("matroska", "libmp3lame", sine(48_000), with_video=True),
}


@cache
def every_file() -> dict[str, bytes]:
    makers = {**EXACT, **{name: make for name, (make, _) in LOSSLESS.items()}, **LOSSY}
    return {name: make() for name, make in makers.items()}


def require_sound(name: str, way: str, heard: Heard) -> None:
    """What was heard is the file's content, aligned to the sample when nothing was lost in the file."""
    told = f"{name}, {way}: {heard.summary}"
    assert [text.split()[0] for text in heard.summary if text.startswith("Track")] == ["TrackStart", "TrackEnd"], told
    got = samples_of(heard.pcm)
    if name in EXACT:
        assert heard.pcm == pcm_of(NOISE), told
    elif name in LOSSLESS:
        # Up to one sample of rounding in the rate makes a frame more; what is beyond the end is silence.
        assert SAMPLES <= len(got) <= SAMPLES + 960, told
        assert not np.abs(got[SAMPLES + 48 :]).any(), told
        assert snr_db(got, MUSIC) > LOSSLESS[name][1], told
    else:
        assert len(got) == pytest.approx(SAMPLES, abs=3840), told
        middle = got[9600:24_000]
        assert loudest_hz(middle) == pytest.approx(TONE_HZ, abs=4), told
        assert np.abs(middle).max() / 32768 == pytest.approx(0.5, abs=0.06), told


async def test_every_format_from_a_file(node: RunningNode) -> None:
    for name, content in every_file().items():
        (node.folder / name).write_bytes(content)
    heard = await hear_all(node, {name: str(node.folder / name) for name in every_file()})
    for name, what in heard.items():
        require_sound(name, "from a file", what)
        (end,) = (event for event in what.events if event["op"] == "TrackEnd")
        length_ms = end["track"]["info"]["length"]
        assert length_ms == pytest.approx(SECONDS * 1000, abs=1 if name in (*EXACT, *LOSSLESS) else 60), name


async def test_every_format_over_http(node: RunningNode) -> None:
    """From a server with ranges, half of them where a redirect leads."""
    async with MediaServer() as server:
        uris = {}
        for number, (name, content) in enumerate(every_file().items()):
            answer, way = media(content), "plain"
            if number % 2:
                server.serve(f"/{number}", answer)
                answer, way = redirect(f"/{number}"), "moved"
            uris[name] = server.serve(f"/{way}/{number}", answer)
        for name, what in (await hear_all(node, uris)).items():
            require_sound(name, uris[name], what)
