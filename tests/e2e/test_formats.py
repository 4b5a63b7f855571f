"""Every format from file and HTTP server to the audio socket: what a listener gets is what the file holds."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from tests.support.audio_files import (
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
from tests.support.e2e_players import hear_all
from tests.support.media_files import loudest_hz, samples_of, snr_db
from tests.support.media_server import MediaServer, media, redirect
from tests.support.running_node import RunningNode

SECONDS: Final = 0.7
SAMPLES: Final = 33_600  # 35 frames of 960
TONE_HZ: Final = 997


async def test_every_format_from_a_file_and_over_http(node: RunningNode) -> None:
    noise = np.random.default_rng(5).uniform(-1, 1, (SAMPLES, 2))
    sound, sound_96k = music(SECONDS), music(SECONDS, 96_000)
    sine, sine_44k = tone(TONE_HZ, SECONDS), tone(TONE_HZ, SECONDS, 44_100)
    # 48 kHz, 16 bits, stereo: comes out bit for bit.
    exact: dict[str, Callable[[], bytes]] = {
        "16 bits.wav": lambda: wav(noise),
        "16 bits.flac": lambda: flac(noise),
        "16 bits.aiff": lambda: encoded("aiff", "pcm_s16be", noise),
        "16 bits.alac.m4a": lambda: m4a(noise, 48_000, codec="alac", sample_format="s16p"),
    }
    # Lossless, but with other samples than those of the node.
    lossless: dict[str, Callable[[], bytes]] = {
        "float.wav": lambda: wav(sound, coding="f32"),
        "24 bits 96 kHz.flac": lambda: encoded("flac", "flac", sound_96k, 96_000, sample_format="s32"),
    }
    lossy: dict[str, Callable[[], bytes]] = {
        "VBR.mp3": lambda: variable_mp3(sine_44k),
        "CBR.mp3": lambda: mp3(sine_44k),
        "index last.m4a": lambda: m4a(sine_44k, index_first=False),
        "vorbis.ogg": lambda: vorbis(sine_44k),
        "opus.ogg": lambda: opus(sine),
        "opus.webm": lambda: opus(sine, container="webm"),
        "film with sound.mp4": lambda: m4a(sine_44k, with_video=True),
        "film with sound.mkv": lambda: encoded("matroska", "libmp3lame", sine, with_video=True),
    }
    async with MediaServer() as server:
        uris = {}
        for name, make in {**exact, **lossless, **lossy}.items():
            (node.folder / name).write_bytes(content := make())
            uris[f"{name}, from a file"] = str(node.folder / name)
            server.serve(f"/{name.replace(' ', '-')}", media(content))
            uris[f"{name}, moved"] = server.serve(f"/to/{len(uris)}", redirect(f"/{name.replace(' ', '-')}"))
        all_heard = await hear_all(node, uris)
    for way, heard in all_heard.items():
        name, told = way.rpartition(",")[0], f"{way}: {heard.codes}"
        start, end = (event for event in heard.events if event["op"].startswith("Track"))
        assert (start["op"], end["op"]) == ("TrackStart", "TrackEnd"), told
        length_ms = end["track"]["info"]["length"]
        assert length_ms == pytest.approx(SECONDS * 1000, abs=60 if name in lossy else 1), told
        got = samples_of(heard.pcm)
        if name in exact:
            assert heard.pcm == pcm_of(noise), told
        elif name in lossless:
            # Up to one sample of rounding in the rate makes a frame more; what is beyond the end is silence.
            assert SAMPLES <= len(got) <= SAMPLES + 960, told
            assert not np.abs(got[SAMPLES + 48 :]).any(), told
            assert snr_db(got, sound) > 60, told
        else:
            assert len(got) == pytest.approx(SAMPLES, abs=3840), told
            middle = got[9600:24_000]
            assert loudest_hz(middle) == pytest.approx(TONE_HZ, abs=4), told
            assert np.abs(middle).max() / 32768 == pytest.approx(0.5, abs=0.06), told
