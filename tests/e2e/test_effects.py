"""The equalizer and effects of each stage, set over HTTP and measured in what a listener hears."""

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


def check_equalizer(heard: Samples) -> None:
    assert level(heard, 0, 1000) == pytest.approx(10 ** (9 / 20), rel=0.01)


def check_karaoke(heard: Samples) -> None:
    assert level(heard, 0, 1000) < 0.05  # the middle is gone
    assert level(heard, 0, 3000) == pytest.approx(1.0, abs=0.05)  # the side is there


def check_channel_mix(heard: Samples) -> None:
    assert level(heard, 1, 3000) == pytest.approx(0.5, abs=0.01)
    assert level(heard, 0, 3000) == pytest.approx(0.25, abs=0.01)


def check_compressor(heard: Samples) -> None:
    # 0.3 is 10.46 dB below full scale, and 9.54 dB above the threshold: a quarter of that is left.
    wanted = 10 ** ((-20.0 + 9.54 / 4 + 10.46) / 20)
    assert level(heard, 1, 1000) == pytest.approx(wanted, rel=0.02)


def check_timescale(heard: Samples) -> None:
    assert level(heard, 1, 1250) == pytest.approx(1.0, abs=0.05)


def check_normalization(heard: Samples) -> None:
    assert 0.7 < level(heard, 1, 1000) < 0.95  # on its way down, by a decibel a second


# Of the stages of the sound one each: what is sent, whether a tone is added on the left side, and what is heard.
EFFECTS: Final[Mapping[str, tuple[dict[str, Any], bool, Callable[[Samples], None]]]] = {
    "eq": ({"eq": [{"band": 8, "gain_db": 9}]}, False, check_equalizer),
    "karaoke": ({"karaoke": {"monoLevel": 0}}, True, check_karaoke),
    "channelMix": (
        {"channelMix": {"leftToLeft": 0.25, "leftToRight": 0.5, "rightToRight": 0.5}},
        True,
        check_channel_mix,
    ),
    "compressor": ({"compressor": {"thresholdDb": -20, "ratio": 4}, "limiter": None}, False, check_compressor),
    "timescale": ({"timescale": {"pitch": 1.25}}, False, check_timescale),
    "normalization": ({"normalization": {"targetLufs": -16}}, False, check_normalization),
}


async def test_effects_are_heard(node: RunningNode) -> None:
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
