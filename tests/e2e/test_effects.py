"""The equalizer, each effect and the volume, set over HTTP and measured in what a listener hears."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.audio_files import flac, music, opus, pcm_of, tone, wav
from tests.support.e2e_players import at_rest, create, enqueue, order, patch, refusal, state
from tests.support.e2e_sockets import following, listening
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


async def test_effects_change_while_playing_without_a_click_and_as_soon_as_the_equalizer(node: RunningNode) -> None:
    # A tone so low that a jump of a twentieth of its peak stands out in the second difference.
    (node.folder / "low.wav").write_bytes(wav(tone(200, 60.0, level=0.3)))
    steady = channels(pcm_of(tone(200, 0.1, level=0.3)))
    bend = np.abs(np.diff(steady, 2, axis=0)).max()
    bodies: list[dict[str, Any]] = [
        {"volume": 0.2},
        {"eq": [{"band": 6, "gain_db": 6}]},
        {"karaoke": {"level": 0.5}},
        {"lowPass": {}},
        {"highPass": {"frequencyHz": 300}},
        {"channelMix": {"leftToLeft": 0.2}},
        {"tremolo": {"frequency": 3, "depth": 0.4}},
        {"vibrato": {"frequency": 3, "depth": 0.4}},
        {"rotation": {"rotationHz": 1}},
        {"echo": {"delayMs": 120}},
        {"compressor": {"thresholdDb": -40}},
    ]
    delays: dict[str, list[int]] = {}
    await create(node, "p", "low.wav")
    async with listening(node, "p") as ear:
        await ear.frames_heard(15)
        for body in bodies * 2:
            await patch(node, "p", "filters", {"reset": True})
            await ear.more_frames(12)
            flat = ear.frames[-1]  # four whole periods: each flat frame is like every other
            await patch(node, "p", "filters", body)
            sent = (await state(node, "p"))["quality"]["framesSent"]
            await ear.frames_heard(sent + 12)
            delay = next((number for number, frame in enumerate(ear.frames[sent:]) if frame != flat), 12)
            delays.setdefault(next(iter(body)), []).append(delay)
        heard = channels(ear.pcm)
    assert all(min(frames) < 10 for frames in delays.values()), delays  # 200 ms are rendered ahead
    steps = np.abs(np.diff(heard, 2, axis=0)).max()
    # Within 10 ms from one filter to another a tone bends more; a click is a hundred times that.
    assert steps < bend * 4, (steps, bend)


async def test_filters_survive_the_change_of_tracks_and_flat_is_bit_for_bit_again(node: RunningNode) -> None:
    noise = np.random.default_rng(6).uniform(-0.3, 0.3, (9600, 2))
    (node.folder / "noise.wav").write_bytes(wav(noise))
    await create(node, "p", "noise.wav")
    await enqueue(node, "p", "noise.wav")
    await patch(node, "p", "filters", {"volume": 2.0, "eq": [{"band": 5, "gain_db": 3}, {"band": 5, "gain_db": 0}]})
    async with listening(node, "p") as ear:
        await ear.frames_heard(20)
        # From the first sample on, also of the second track; unless the decoder had no time for it before the listener.
        was_late = (await state(node, "p"))["quality"]["latePlans"] > 0
        error = np.abs(channels(ear.pcm) - 2 * channels(pcm_of(noise) * 2))
        assert error[len(noise) if was_late else 0 :].max() <= 1
        await patch(node, "p", "filters", {"volume": 1.0})
        await order(node, "p", "play")
        assert await ear.more_frames(10) == pcm_of(noise)


async def test_the_filters_are_told_and_a_wrong_one_changes_nothing(node: RunningNode) -> None:
    await create(node, "p", "x.wav")
    async with following(node, "p") as tape:
        await patch(node, "p", "filters", {"echo": {"decay": 0.5}, "lowPass": {"frequencyHz": 900}})
        await patch(node, "p", "filters", {})
        told = (await tape.until("FiltersChange"))["filters"]
        assert told["echo"] == {"delayMs": 300.0, "decay": 0.5, "mix": 0.4}
        assert told["lowPass"] == {"frequencyHz": 900.0}
        for wrong, names in (
            ({"volume": 0.5, "karaoke": {"level": 1.1}}, "karaoke.level 1.1 is out of range; it is 0 to 1."),
            ({"tremolo": {"frequency": 0}}, "tremolo.frequency 0 is out of range; it is 0.1 to 20."),
            ({"lowPass": {"frequencyHz": 0}}, "lowPass.frequencyHz 0 is out of range; it is 10 to 20000."),
            ({"echo": 5}, "`echo` must be an object"),
            ({"echo": {"mix": "1"}}, "`echo.mix` must be a number"),
        ):
            answer = await node.request("PATCH", "/v0/players/p/filters", wrong)
            assert refusal(answer) == (400, "bad_request")
            assert names in answer.json()["message"]
        now = await state(node, "p")
        shown = (await node.request("GET", "/v0/players/p/filters")).json()
        assert shown == told
        assert {name: now[name] for name in shown} == shown
        await patch(node, "p", "filters", {"echo": {}})
        assert (await tape.until("FiltersChange"))["filters"]["echo"]["decay"] == 0.4
        await patch(node, "p", "filters", {"echo": None})
        told = (await tape.until("FiltersChange"))["filters"]
        assert (told["echo"], told["lowPass"]) == (None, {"frequencyHz": 900.0})
        await patch(node, "p", "filters", {"reset": True})
        assert (await tape.until("FiltersChange"))["filters"]["lowPass"] is None
        assert tape.summary() == ["FiltersChange"] * 4


async def test_a_timescale_changes_pace_and_pitch_and_positions_stay_time_in_the_file(node: RunningNode) -> None:
    (node.folder / "tone.wav").write_bytes(wav(tone(400, 4.0, level=0.3)))
    (node.folder / "next.wav").write_bytes(wav(tone(400, 1.0, level=0.3)))
    await create(node, "p", "tone.wav")
    await enqueue(node, "p", "next.wav")
    await patch(node, "p", "filters", {"timescale": {"speed": 2.0, "pitch": 1.25}})
    async with following(node, "p") as tape, listening(node, "p") as ear:
        await ear.frames_heard(40)
        now = await state(node, "p")
        assert now["positionRate"] == 2.0
        assert now["position"] == pytest.approx(now["quality"]["framesSent"] * 40, abs=120)
        await patch(node, "p", "filters", {"timescale": {"pitch": 1.25}})
        changed_at = (await tape.until("PlayerUpdate", positionRate=1.0))["position"]
        assert now["position"] <= changed_at <= (await state(node, "p"))["position"]
        await ear.more_frames(20)
        await patch(node, "p", "filters", {"timescale": {"speed": 4.0, "pitch": 1.25}})
        await tape.until("TrackEnd", reason="finished")
        assert await at_rest(tape) == "idle"
        heard = channels(ear.pcm)
    loud = np.flatnonzero(np.abs(heard[:, 0].reshape(-1, 960)).max(axis=1))
    assert len(loud) == loud[-1] + 1  # no gap, not between the two either
    # 5 s in the file: what is heard of it depends on when the changes came.
    assert 75 < len(loud) < 150
    middle = heard[9_600:28_800, 0] * np.hanning(19_200)
    assert np.argmax(np.abs(np.fft.rfft(middle))) * 48_000 / 19_200 == pytest.approx(500, abs=3)
    steady = channels(pcm_of(tone(500, 0.1, level=0.3)))
    steps = np.abs(np.diff(heard[: int(loud[-1]) * 960 - 960], 2, axis=0)).max()
    assert steps < 4 * np.abs(np.diff(steady, 2, axis=0)).max()


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
