"""The equalizer, each effect and the volume, set over HTTP and measured in what a listener hears."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.audio_files import flac, music, opus, pcm_of, tone, wav
from tests.support.e2e_players import create, patch
from tests.support.e2e_sockets import listening
from tests.support.loudness_meter import measured_by_ffmpeg
from tests.support.pcm import channels
from tests.support.running_node import RunningNode

Samples: TypeAlias = NDArray[np.float64]
PEAK: Final = 0.3 * 32_768
SECONDS: Final = 3.0
# Half a second in, when what a filter had to settle is over, and of whole periods of every tone.
START, STOP = 24_000, 72_000


def level(samples: Samples, channel: int, frequency_hz: float) -> float:
    """The peak of a tone in one channel as a share of PEAK."""
    heard = samples[START:STOP, channel]
    turns = frequency_hz / 48_000 * np.arange(START, STOP)
    return float(2.0 * np.abs(np.mean(heard * np.exp(-2j * np.pi * turns))) / PEAK)


def loudness(samples: Samples, channel: int) -> NDArray[np.float64]:
    """The level of each 10 ms as a share of PEAK, as a sine's peak."""
    in_steps = samples[START:STOP, channel].reshape(-1, 480)
    return np.asarray(np.sqrt(2.0 * np.square(in_steps).mean(axis=1)) / PEAK)


def check_equalizer(heard: Samples) -> None:
    assert level(heard, 0, 1000) == pytest.approx(10 ** (9 / 20), rel=0.01)


def check_karaoke(heard: Samples) -> None:
    assert level(heard, 0, 1000) < 0.05  # the middle is gone
    assert level(heard, 0, 3000) == pytest.approx(1.0, abs=0.05)  # the side is there


def check_low_pass(heard: Samples) -> None:
    assert level(heard, 0, 1000) == pytest.approx(0.707, abs=0.02)
    assert level(heard, 0, 3000) < 0.12


def check_smoothing(heard: Samples) -> None:
    share = 1 / 20
    for frequency_hz in (1000, 3000):
        wanted = share / abs(1 - (1 - share) * np.exp(-2j * np.pi * frequency_hz / 48_000))
        assert level(heard, 0, frequency_hz) == pytest.approx(wanted, rel=0.01)


def check_high_pass(heard: Samples) -> None:
    assert level(heard, 0, 3000) == pytest.approx(0.707, abs=0.02)
    assert level(heard, 0, 1000) < 0.12


def check_channel_mix(heard: Samples) -> None:
    assert level(heard, 1, 3000) == pytest.approx(0.5, abs=0.01)
    assert level(heard, 0, 3000) == pytest.approx(0.25, abs=0.01)


def check_tremolo(heard: Samples) -> None:
    steps = loudness(heard, 1)
    assert (steps.max(), steps.min()) == (pytest.approx(1.0, abs=0.02), pytest.approx(0.4, abs=0.02))
    assert np.argmax(np.abs(np.fft.rfft(steps - steps.mean()))) == 5  # the second's fifth harmonic: 5 Hz


def check_vibrato(heard: Samples) -> None:
    assert level(heard, 1, 1000) < 0.7  # its sidebands have the rest
    assert level(heard, 1, 1005) > 0.1
    assert loudness(heard, 1).min() > 0.9


def check_rotation(heard: Samples) -> None:
    left, right = loudness(heard, 0), loudness(heard, 1)
    assert left[np.argmin(right)] > 0.95 * left.max()
    assert right.min() < 0.05
    assert np.argmax(np.abs(np.fft.rfft(right - right.mean()))) == 2


def check_distortion(heard: Samples) -> None:
    assert level(heard, 1, 3000) > 0.05  # the third harmonic of 1000 Hz
    assert np.abs(heard).max() <= 32_768


def check_echo(heard: Samples) -> None:
    # 100 ms are whole periods of the tones: y = x + mix · (1 + decay + decay² …) · x in the end.
    assert level(heard, 1, 1000) == pytest.approx(1 + 0.5 / (1 - 0.2), abs=0.01)


def check_compressor(heard: Samples) -> None:
    # 0.3 is 10.46 dB below full scale, and 9.54 dB above the threshold: a quarter of that is left.
    wanted = 10 ** ((-20.0 + 9.54 / 4 + 10.46) / 20)
    assert level(heard, 1, 1000) == pytest.approx(wanted, rel=0.02)


def check_timescale(heard: Samples) -> None:
    assert level(heard, 1, 1250) == pytest.approx(1.0, abs=0.05)


def check_normalization(heard: Samples) -> None:
    assert 0.7 < level(heard, 1, 1000) < 0.95  # on its way down, by a decibel a second


# For each effect what is sent, whether a tone is added on the left side, and what is heard.
EFFECTS: Final[Mapping[str, tuple[dict[str, Any], bool, Callable[[Samples], None]]]] = {
    "eq": ({"eq": [{"band": 8, "gain_db": 9}]}, False, check_equalizer),
    "karaoke": ({"karaoke": {"monoLevel": 0}}, True, check_karaoke),
    "lowPass": ({"lowPass": {"frequencyHz": 1000}}, True, check_low_pass),
    "smoothing": ({"lowPass": {}}, True, check_smoothing),
    "highPass": ({"highPass": {"frequencyHz": 3000}}, True, check_high_pass),
    "channelMix": (
        {"channelMix": {"leftToLeft": 0.25, "leftToRight": 0.5, "rightToRight": 0.5}},
        True,
        check_channel_mix,
    ),
    "tremolo": ({"tremolo": {"frequency": 5, "depth": 0.6}}, False, check_tremolo),
    "vibrato": ({"vibrato": {"frequency": 5, "depth": 0.8}}, False, check_vibrato),
    "rotation": ({"rotation": {"rotationHz": 2}}, False, check_rotation),
    "distortion": ({"distortion": {"sinScale": 3, "cosOffset": 1, "tanOffset": 1}}, False, check_distortion),
    "echo": ({"echo": {"delayMs": 100, "decay": 0.2, "mix": 0.5}}, False, check_echo),
    "compressor": ({"compressor": {"thresholdDb": -20, "ratio": 4}, "limiter": None}, False, check_compressor),
    "timescale": ({"timescale": {"pitch": 1.25}}, False, check_timescale),
    "normalization": ({"normalization": {"targetLufs": -16}}, False, check_normalization),
}


async def test_each_effect_is_heard(node: RunningNode) -> None:
    middle = tone(1000, SECONDS, level=0.3)
    side = tone(3000, SECONDS, level=0.3) * np.array([1.0, 0.0])
    (node.folder / "middle.wav").write_bytes(wav(middle))
    (node.folder / "both.wav").write_bytes(wav(middle + side))
    async with AsyncExitStack() as stack:
        ears = {}
        for name, (body, has_side, _) in EFFECTS.items():
            await create(node, name, "both.wav" if has_side else "middle.wav")
            await patch(node, name, "filters", body)
            ears[name] = await stack.enter_async_context(listening(node, name))
        await asyncio.gather(*(ear.frames_heard(90) for ear in ears.values()))
        for name, (_, _, check) in EFFECTS.items():
            check(channels(ears[name].pcm).astype(np.float64))


async def test_tracks_come_to_the_target_by_their_tags_and_by_measuring(node: RunningNode) -> None:
    quiet = music(14.0, level=0.06)
    lufs, _ = measured_by_ffmpeg(pcm_of(quiet))
    replay_gain = {"REPLAYGAIN_TRACK_GAIN": f"{-18.0 - lufs:.2f} dB"}
    (node.folder / "tagged.flac").write_bytes(flac(quiet, tags=replay_gain))
    (node.folder / "untagged.flac").write_bytes(flac(quiet * 5.0))
    opus_gain = {"R128_TRACK_GAIN": str(round((-23.0 - lufs) * 256))}
    (node.folder / "tagged.opus").write_bytes(opus(quiet, tags=opus_gain))
    target = lufs + 8.0
    async with AsyncExitStack() as stack:
        ears = {}
        for name in ("tagged.flac", "untagged.flac", "tagged.opus"):
            await create(node, name, name)
            await patch(node, name, "filters", {"normalization": {"targetLufs": round(target, 2)}})
            ears[name] = await stack.enter_async_context(listening(node, name))
        await asyncio.gather(*(ear.frames_heard(660) for ear in ears.values()))
    for name, ear in ears.items():
        settled = ear.frames[10:] if name.startswith("tagged") else ear.frames[450:]
        heard_lufs, peak_db = measured_by_ffmpeg(b"".join(settled))
        assert heard_lufs == pytest.approx(target, abs=0.5), name
        assert peak_db < -0.9
