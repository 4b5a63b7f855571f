"""What each effect does to sound, measured on its output."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.one_of_each import ONE_OF_EACH, filters_with
from tests.support.pcm import channels, noise, sounds_the_same, tone
from tonearm.core.filters import (
    ChannelMix,
    Compressor,
    Distortion,
    Echo,
    Effect,
    Filters,
    HighPass,
    Karaoke,
    LowPass,
    Rotation,
    Tremolo,
    Vibrato,
)
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, FRAMES_PER_SECOND, SAMPLE_RATE_HZ
from tonearm.worker.filters.chain import ChainState, process


def through(effect: Effect, pcm: bytes) -> NDArray[np.int64]:
    """The samples, n by 2, after the effect."""
    return channels(through_in_calls(filters_with(effect), pcm, 10))


def through_in_calls(filters: Filters, pcm: bytes, frames_a_call: int) -> bytes:
    state = ChainState.steady(filters)
    result = b""
    for start in range(0, len(pcm), frames_a_call * FRAME_BYTES):
        part, state = process(state, pcm[start : start + frames_a_call * FRAME_BYTES])
        result += part
    return result


def stereo(left: NDArray[np.number], right: NDArray[np.number]) -> bytes:
    return np.rint(np.stack((left, right), axis=1)).astype("<i2").tobytes()


def rms(samples: NDArray[np.int64]) -> float:
    return float(np.sqrt(np.mean(np.square(samples.astype(np.float64)))))


def gain_db(effect: Effect, frequency_hz: float, *, peak: float = 8_000.0) -> float:
    """The gain that a tone of `frequency_hz` gets, after a second to settle."""
    pcm = tone(frequency_hz, frames=2 * FRAMES_PER_SECOND, peak=peak)
    result = through(effect, pcm)[SAMPLE_RATE_HZ:, 0]
    return float(20 * np.log10(rms(result) / rms(channels(pcm)[SAMPLE_RATE_HZ:, 0])))


EQUALIZED = Filters(0.25, (24.0, -24.0) * 7 + (24.0,))


@pytest.mark.parametrize("filters", [*map(filters_with, (*ONE_OF_EACH, Echo(700.0, 0.6, 0.8))), EQUALIZED])
class TestEveryFilter:
    @pytest.mark.parametrize("frames_a_call", [1, 3])
    def test_sounds_the_same_however_the_sound_is_split_into_blocks(self, filters: Filters, frames_a_call: int) -> None:
        pcm = noise(frames=30, peak=9_000)
        assert sounds_the_same(through_in_calls(filters, pcm, frames_a_call), through_in_calls(filters, pcm, 10))

    @pytest.mark.parametrize("turned", ["on", "off"])
    def test_does_not_click_when_it_is_turned_on_or_off(self, filters: Filters, turned: str) -> None:
        pcm = tone(220.0, frames=50, peak=9_000)
        before, after = Filters(volume=filters.volume), filters
        if turned == "off":
            before, after = after, before
        at = 25 * FRAME_BYTES
        first, state = process(ChainState.steady(before), pcm[:at])
        second, _ = process(state.changed(after, pcm[:at]), pcm[at:])
        result = channels(first + second).astype(np.float64)
        # A click is a corner: the second difference after the change against that of the two steady sounds.
        bends = np.abs(np.diff(result, n=2, axis=0)).max(axis=1)
        join = 25 * FRAME_SAMPLES
        steady = max(bends[join - 4_000 : join - 10].max(), bends[-4_000:].max())
        assert bends[join - 5 :].max() <= 1.5 * steady + 12

    def test_keeps_its_memory_when_the_volume_changes(self, filters: Filters) -> None:
        pcm = noise(frames=40, peak=6_000)
        at = 20 * FRAME_BYTES
        _, state = process(ChainState.steady(filters), pcm[:at])
        undisturbed, _ = process(state, pcm[at:])
        quieter = state.changed(replace(filters, volume=filters.volume / 2), pcm[:at])
        result, _ = process(quieter, pcm[at:])
        expected = channels(undisturbed)[FRAME_SAMPLES:] * 0.5
        assert np.abs(channels(result)[FRAME_SAMPLES:] - expected).max() <= 1.0


def test_an_effect_that_is_off_leaves_the_very_bytes() -> None:
    pcm = noise(frames=5, peak=32_767)
    neutral = (
        *(ChannelMix(), LowPass(smoothing=1.0), Distortion(), Rotation(0.0)),
        *(Tremolo(depth=0.0), Vibrato(depth=0.0)),
    )
    for effect in neutral:
        assert through_in_calls(filters_with(effect), pcm, 5) == pcm, effect


def test_effects_in_a_row_give_what_each_does_to_the_result_of_the_one_before() -> None:
    pcm = noise(frames=20, peak=4_000)
    both, _ = process(ChainState.steady(filters_with(Distortion(sin_scale=2.0), HighPass(300.0))), pcm)
    filtered = through_in_calls(filters_with(HighPass(300.0)), pcm, 10)
    assert np.abs(channels(both) - through(Distortion(sin_scale=2.0), filtered)).max() <= 2


def test_karaoke_is_the_recurrence() -> None:
    pcm = noise(frames=4, peak=9_000)
    setting = Karaoke(0.8, 0.6, 300.0, 150.0)
    c = np.exp(-2 * np.pi * 150.0 / SAMPLE_RATE_HZ)
    b = -4 * c / (1 + c) * np.cos(2 * np.pi * 300.0 / SAMPLE_RATE_HZ)
    a = np.sqrt(1 - b * b / (4 * c)) * (1 - c)
    y1 = y2 = 0.0
    expected = []
    for left, right in channels(pcm).tolist():
        y = a * (left + right) / 2 - b * y1 - c * y2
        y2, y1 = y1, y
        band = y * 0.6 * 0.8
        expected.append((left - right * 0.8 + band, right - left * 0.8 + band))
    assert np.abs(through(setting, pcm) - np.array(expected)).max() < 0.6


@pytest.mark.parametrize("smoothing", [1.5, 20.0, 1000.0])
def test_low_pass_is_lavalinks_recurrence(smoothing: float) -> None:
    pcm = noise(frames=5, peak=30_000)
    value, expected = 0.0, []
    for sample in channels(pcm)[:, 1].tolist():
        value += (sample - value) / smoothing
        expected.append(value)
    assert np.abs(through(LowPass(smoothing), pcm)[:, 1] - np.array(expected)).max() < 0.6


@pytest.mark.parametrize("corner_hz", [50.0, 800.0, 15_000.0])
def test_passes_are_3_db_down_at_their_corner_and_fall_12_db_an_octave(corner_hz: float) -> None:
    assert gain_db(LowPass(frequency_hz=corner_hz), corner_hz) == pytest.approx(-3.01, abs=0.1)
    assert gain_db(HighPass(corner_hz), corner_hz) == pytest.approx(-3.01, abs=0.1)
    assert gain_db(LowPass(frequency_hz=500.0), 2_000.0) == pytest.approx(-24.1, abs=0.7)
    assert gain_db(HighPass(2_000.0), 500.0) == pytest.approx(-24.1, abs=0.7)


def test_channel_mix_is_its_matrix_sample_for_sample() -> None:
    pcm = noise(frames=3, peak=30_000)
    left, right = channels(pcm).T.astype(np.float64)
    expected = np.stack((0.3 * left + 0.7 * right, 0.25 * left + 0.6 * right), axis=1)
    mixed = through(ChannelMix(0.3, 0.25, 0.7, 0.6), pcm)
    assert np.abs(mixed - np.clip(expected, -32_768, 32_767)).max() <= 0.51


@pytest.mark.parametrize(("frequency_hz", "depth"), [(2.0, 0.5), (5.0, 0.2), (20.0, 0.1), (4.0, 1.0)])
def test_tremolo_has_its_rate_and_swings_by_its_depth(frequency_hz: float, depth: float) -> None:
    level = 20_000.0
    constant = stereo(np.full(96_000, level), np.full(96_000, level))
    envelope = through(Tremolo(frequency_hz, depth), constant)[:, 0] / level
    assert envelope.max() == pytest.approx(1.0, abs=0.001)
    assert envelope.min() == pytest.approx(1.0 - depth, abs=0.001)
    assert envelope[0] == pytest.approx(1.0 - depth / 2, abs=0.001)
    spectrum = np.abs(np.fft.rfft(envelope - envelope.mean()))
    assert np.argmax(spectrum) * SAMPLE_RATE_HZ / len(envelope) == pytest.approx(frequency_hz, abs=0.5)


@pytest.mark.parametrize(("frequency_hz", "depth"), [(2.0, 0.5), (14.0, 1.0), (0.3, 0.1)])
def test_vibrato_is_lavadsps_delay_sample_for_sample(frequency_hz: float, depth: float) -> None:
    pcm = noise(frames=25, peak=9_000)
    sound = np.concatenate((np.zeros(200), channels(pcm)[:, 0]))
    swing = (np.sin(2 * np.pi * frequency_hz / SAMPLE_RATE_HZ * np.arange(25 * FRAME_SAMPLES)) + 1) / 2
    at = 200 + np.arange(25 * FRAME_SAMPLES) - (3 + depth * 96 * swing)  # 96 samples are 2 ms
    first = np.floor(at).astype(int)
    x = at - first
    y0, y1, y2, y3 = (sound[first + shift] for shift in (-1, 0, 1, 2))
    c1, c2, c3 = (y2 - y0) / 2, y0 - 2.5 * y1 + 2 * y2 - y3 / 2, (y3 - y0) / 2 + 1.5 * (y1 - y2)
    expected = ((c3 * x + c2) * x + c1) * x + y1
    # The delay is counted in float32, whose last bits move white noise by some steps.
    assert np.abs(through(Vibrato(frequency_hz, depth), pcm)[:, 0] - expected).max() <= 3


def test_rotation_pans_from_side_to_side() -> None:
    constant = stereo(np.full(96_000, 10_000.0), np.full(96_000, 10_000.0))
    left, right = through(Rotation(0.5), constant).T / 10_000.0
    np.testing.assert_allclose(left + right, 1.0, atol=0.001)  # what leaves one side is on the other
    quarter = SAMPLE_RATE_HZ // 2  # of a turn that takes two seconds
    assert (left[0], left[quarter], left[3 * quarter]) == pytest.approx((0.5, 1.0, 0.0), abs=0.001)
    other_way = through(Rotation(-0.5), constant).T / 10_000.0
    assert other_way[0][quarter] == pytest.approx(0.0, abs=0.001)


def test_distortion_is_its_curve_and_stays_in_full_scale() -> None:
    pcm = noise(frames=3, peak=32_767)
    setting = Distortion(0.1, 2.0, 0.2, 0.7, 0.3, 1.1, 0.05, 0.9)
    x = channels(pcm) / 32_768.0
    curve = 0.05 + 0.9 * (0.1 + np.sin(2.0 * x)) * (0.2 + np.cos(0.7 * x)) * (0.3 + np.tan(1.1 * x))
    expected = np.clip(np.clip(curve, -1, 1) * 32_768, -32_768, 32_767)
    assert np.abs(through(setting, pcm) - expected).max() <= 1.0
    wild = through(Distortion(tan_scale=100.0, scale=100.0), pcm)
    assert np.abs(wild).max() <= 32_768


@pytest.mark.parametrize("delay_ms", [1.0, 7.3, 20.0, 333.0, 2000.0])
def test_an_echo_comes_again_after_the_delay_and_again_quieter(delay_ms: float) -> None:
    click = np.zeros(5 * SAMPLE_RATE_HZ)
    click[100] = 20_000.0
    result = through(Echo(delay_ms, 0.5, 0.8), stereo(click, -click))
    delay = int(delay_ms * 48)
    for repeat in (1, 2):
        assert result[100 + repeat * delay].tolist() == pytest.approx(
            [16_000 * 0.5 ** (repeat - 1), -16_000 * 0.5 ** (repeat - 1)], abs=1
        )
    assert result[100].tolist() == [20_000, -20_000]
    heard = np.flatnonzero(np.abs(result[: 100 + 2 * delay + 1, 0]) > 1)
    assert heard.tolist() == [100, 100 + delay, 100 + 2 * delay]


@pytest.mark.parametrize("level_db", [-50.0, -30.0, -20.0, -12.0, -6.0, -1.0])
@pytest.mark.parametrize(("threshold_db", "ratio"), [(-20.0, 4.0), (-40.0, 20.0), (-10.0, 2.0)])
def test_the_static_curve_of_a_compressor(level_db: float, threshold_db: float, ratio: float) -> None:
    peak = 32_768 * 10 ** (level_db / 20)
    expected_db = 2.0 - max(0.0, level_db - threshold_db) * (1 - 1 / ratio)
    for frequency_hz in (100.0, 1_000.0, 7_100.0):
        setting = Compressor(threshold_db, ratio, makeup_db=2.0)
        assert gain_db(setting, frequency_hz, peak=peak) == pytest.approx(expected_db, abs=0.5)


def test_a_compressor_gives_both_channels_the_same_gain() -> None:
    loud, quiet = tone(1_000.0, frames=50, peak=30_000), tone(700.0, frames=50, peak=1_000)
    result = through(Compressor(), stereo(channels(loud)[:, 0], channels(quiet)[:, 0]))[24_000:]
    loud_gain = rms(result[:, 0]) / (30_000 / np.sqrt(2))
    quiet_gain = rms(result[:, 1]) / (1_000 / np.sqrt(2))
    assert quiet_gain == pytest.approx(loud_gain, rel=0.01)


def test_attack_and_release_of_a_compressor_take_their_times() -> None:
    setting = Compressor(-20.0, 20.0, attack_ms=50.0, release_ms=200.0)
    level = np.concatenate((np.full(24_000, 500.0), np.full(48_000, 30_000.0), np.full(48_000, 500.0)))
    carrier = level * np.where(np.arange(len(level)) % 2, 1.0, -1.0)
    gain = np.abs(through(setting, stereo(carrier, carrier))[:, 0]) / level
    reduction_db = -20 * np.log10(gain)
    full_db = reduction_db[71_000]
    assert full_db == pytest.approx((20 * np.log10(30_000 / 32_768) + 20) * 0.95, abs=0.3)
    assert reduction_db[24_000 + 50 * 48] == pytest.approx(full_db * (1 - np.exp(-1)), rel=0.06)
    # After the attack's smoothing a release of 200 ms is at 1/e a little later than 200 ms.
    fell = 72_000 + np.flatnonzero(reduction_db[72_000:] < full_db / np.e)[0]
    assert 200 <= (fell - 72_000) / 48 <= 270
