"""What a listener hears of volume and equalizer: levels, clipping, ramps, and no click at any change."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.pcm import channels, largest_step, level_of, noise, tone
from tonearm.core.filters import BAND_COUNT, BAND_FREQUENCIES_HZ, Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, FRAMES_PER_SECOND
from tonearm.worker.filters.chain import RAMP_SAMPLES, ChainState, process
from tonearm.worker.filters.linear import equalizer

FLAT = (0.0,) * BAND_COUNT
BASS = (12.0, 12.0, 6.0, *FLAT[3:])
ALL_UP = (24.0,) * BAND_COUNT
ALL_DOWN = (-24.0,) * BAND_COUNT

PASSING = Filters()


def equalized_plainly(mono: NDArray[np.int64], gains_db: tuple[float, ...]) -> NDArray[np.float64]:
    """One channel through a direct form I biquad a band, coefficients straight from the cookbook's peakingEQ."""
    sound = [float(sample) for sample in mono]
    for frequency_hz, gain_db in zip(BAND_FREQUENCIES_HZ, gains_db, strict=True):
        if gain_db:
            sound = _peaking(sound, frequency_hz, gain_db)
    return np.array(sound)


def _peaking(sound: list[float], frequency_hz: float, gain_db: float) -> list[float]:
    omega = 2.0 * math.pi * frequency_hz / 48_000
    alpha = math.sin(omega) / (2.0 * 2.145)
    amplitude = math.sqrt(10.0 ** (gain_db / 20.0))
    b0, b1, b2 = 1.0 + alpha * amplitude, -2.0 * math.cos(omega), 1.0 - alpha * amplitude
    a0, a1, a2 = 1.0 + alpha / amplitude, -2.0 * math.cos(omega), 1.0 - alpha / amplitude
    x1 = x2 = y1 = y2 = 0.0
    result = []
    for x in sound:
        y = (b0 * x + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2) / a0
        x2, x1, y2, y1 = x1, x, y1, y
        result.append(y)
    return result


@pytest.mark.parametrize(
    "gains_db",
    [
        (24.0, *FLAT[1:]),
        (-24.0, *FLAT[1:]),
        (*FLAT[1:], 24.0),
        (6.0, 0.0, -3.5, 0.0, 0.0, 12.0, 0.0, 0.0, -24.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0),
        ALL_UP,
        ALL_DOWN,
        (24.0, -24.0) * 7 + (24.0,),
        (1e-9,) * BAND_COUNT,
    ],
)
def test_the_equalizer_is_that_of_plain_biquads_and_rings_to_exact_silence(gains_db: tuple[float, ...]) -> None:
    samples = channels(noise(frames=8, peak=32_767) + tone(25, frames=4, peak=32_000)).astype(np.int16)
    kernel = equalizer(gains_db)
    planes, modes = kernel.process(samples.T, kernel.silence())
    for channel, plane in enumerate(planes):
        plain = equalized_plainly(samples[:, channel].astype(np.int64), gains_db)
        assert np.abs(plane - plain).max() < 0.05
    for _ in range(40):
        planes, modes = kernel.process(np.zeros((2, 9_600), dtype=np.int16), modes)
    assert not planes.any()
    assert not modes.any()


def test_nothing_set_gives_the_very_same_bytes() -> None:
    pcm = noise(frames=5, peak=32_767)
    assert process(ChainState.steady(PASSING), pcm)[0] is pcm


@pytest.mark.parametrize("volume", [0.0, 0.1, 0.5, 0.999, 1.5, 5.0])
def test_volume_is_linear_and_clips_cleanly(volume: float) -> None:
    pcm = noise(frames=3, peak=32_767)
    result, _ = process(ChainState.steady(Filters(volume=volume)), pcm)
    expected = np.clip(channels(pcm) * volume, -32_768, 32_767)
    assert np.abs(channels(result) - expected).max() <= 0.51


@pytest.mark.parametrize("volume", [1 / 16, 2.0])
def test_volume_comes_after_the_equalizer_and_the_sum_is_rounded_and_clips(volume: float) -> None:
    pcm = noise(frames=4, peak=30_000)
    result, _ = process(ChainState.steady(Filters(volume=volume, gains_db=BASS)), pcm)
    plain = equalized_plainly(channels(pcm)[:, 0], BASS) * volume
    assert np.abs(plain).max() > 32_768 * volume
    assert np.abs(channels(result)[:, 0] - np.clip(plain, -32_768, 32_767)).max() <= 0.51


def test_a_ramp_takes_ten_milliseconds_from_the_first_sample() -> None:
    pcm = np.full((2 * FRAME_SAMPLES, 2), 10_000, dtype="<i2").tobytes()
    result, state = process(ChainState.steady(Filters(volume=0.25)).changed(PASSING, pcm), pcm)
    left = channels(result)[:, 0]
    assert left[0] == pytest.approx(2_500, abs=1)
    assert np.all(np.diff(left[:RAMP_SAMPLES]) >= 0)
    assert left[RAMP_SAMPLES // 2] == pytest.approx(6_250, abs=30)
    assert np.all(left[RAMP_SAMPLES:] == 10_000)
    assert state.changes_nothing


def test_after_a_ramp_to_nothing_set_the_bytes_are_the_same_again() -> None:
    pcm = noise(frames=6, peak=9_000)
    _, state = process(ChainState.steady(Filters(volume=5.0, gains_db=ALL_UP)), pcm)
    result, after = process(state.changed(PASSING, pcm), pcm)
    assert result[RAMP_SAMPLES * 4 :] == pcm[RAMP_SAMPLES * 4 :]
    assert after.changes_nothing


def test_a_change_on_one_that_is_due_begins_at_what_is_heard_and_keeps_what_was_warmed_up() -> None:
    pcm = tone(25, frames=30, peak=2_000)
    due = ChainState.steady(PASSING).changed(Filters(gains_db=BASS), pcm)
    quiet = Filters(volume=0.25)
    assert process(due.changed(quiet, pcm), pcm)[0] == process(ChainState.steady(PASSING).changed(quiet, pcm), pcm)[0]
    louder = due.changed(Filters(volume=2.0, gains_db=BASS), b"")
    difference = channels(process(louder, pcm)[0]) - 2 * channels(process(due, pcm)[0])
    assert np.abs(difference[RAMP_SAMPLES:]).max() <= 2


@pytest.mark.parametrize("frequency_hz", [25, 1_000])
def test_a_new_equalizer_comes_in_at_its_full_level(frequency_hz: int) -> None:
    pcm = tone(frequency_hz, frames=2 * FRAMES_PER_SECOND, peak=1_500)
    half = FRAMES_PER_SECOND * FRAME_BYTES
    boost = Filters(volume=0.2, gains_db=ALL_UP)
    changed = ChainState.steady(Filters(volume=0.2)).changed(boost, pcm[:half])
    result, _ = process(changed, pcm[half:])
    steady, _ = process(ChainState.steady(boost), pcm)
    soon = slice(2 * FRAME_BYTES, 12 * FRAME_BYTES)
    assert level_of(result[soon], frequency_hz) == pytest.approx(level_of(steady[half:][soon], frequency_hz), rel=0.02)


some_filters = st.builds(
    Filters,
    volume=st.sampled_from([0.0, 0.1, 1.0]) | st.floats(0.0, 1.0),
    gains_db=st.sampled_from([FLAT, BASS, ALL_DOWN]) | st.tuples(*[st.floats(-24.0, 24.0)] * BAND_COUNT),
)


@settings(max_examples=60)
@given(
    start=some_filters,
    changes=st.lists(st.tuples(st.integers(0, 6), some_filters), min_size=1, max_size=6),
    frequency_hz=st.sampled_from([300, 1_000, 5_000]),
)
def test_any_changes_neither_click_nor_wrap(
    start: Filters, changes: list[tuple[int, Filters]], frequency_hz: int
) -> None:
    # The largest sum of 15 bands is 46 dB, 200 times: 100 goes through all of it without clipping.
    frames = 12 + sum(gap for gap, _ in changes)
    pcm = tone(frequency_hz, frames=frames, peak=100)
    result, state = process(ChainState.steady(start), pcm[: 6 * FRAME_BYTES])
    position = 6 * FRAME_BYTES
    for gap, filters in [*changes, (6, changes[-1][1])]:
        if gap:
            part, state = process(state, pcm[position : position + gap * FRAME_BYTES])
            result, position = result + part, position + gap * FRAME_BYTES
        state = state.changed(filters, pcm[:position])
    assert len(result) == len(pcm)
    assert state.changes_nothing == changes[-1][1].changes_nothing

    alone = [process(ChainState.steady(filters), pcm)[0] for filters in [start, *(filters for _, filters in changes)]]
    assert largest_step(result) <= 1.1 * max(map(largest_step, alone)) + 1
    assert np.abs(channels(result)).max() <= 1.1 * max(np.abs(channels(pcm_alone)).max() for pcm_alone in alone) + 1
