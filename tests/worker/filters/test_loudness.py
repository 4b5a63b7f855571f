"""The loudness meter against the cases of EBU Tech 3341, and the gain that follows it."""

import math
from functools import cache

import numpy as np
import pytest

from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.worker.filters.blocks import FULL_SCALE, Planes
from tonearm.worker.filters.loudness import (
    KNOWN_AFTER_MS,
    METER_STEP_MS,
    MOST_NORMALIZATION_DB,
    Meter,
    next_gain_db,
    wanted_gain_db,
)


def next_gain(meter: Meter, gain_db: float, target_lufs: float) -> float:
    return next_gain_db(meter.integrated_lufs, meter.measured_ms, gain_db, target_lufs, METER_STEP_MS)


def tones(*parts: tuple[float, float]) -> Planes:
    """1 kHz in both channels: of each part the level in dBFS and the length in seconds, in whole frames."""
    levels = np.concatenate([np.full(int(seconds * SAMPLE_RATE_HZ), 10 ** (level / 20)) for level, seconds in parts])
    levels = levels[: len(levels) // FRAME_SAMPLES * FRAME_SAMPLES]
    mono = FULL_SCALE * levels * np.sin(2 * np.pi * 1000 / SAMPLE_RATE_HZ * np.arange(len(levels)))
    return np.stack((mono, mono)).astype(np.float32)


def measured(sound: Planes, *, frames_a_block: int = 50) -> Meter:
    meter = Meter.fresh()
    for start in range(0, sound.shape[1], frames_a_block * FRAME_SAMPLES):
        meter = meter.fed(sound[:, start : start + frames_a_block * FRAME_SAMPLES])
    return meter


@pytest.mark.parametrize(
    ("parts", "integrated_lufs"),
    [
        (((-23.0, 20.0),), -23.0),
        (((-33.0, 20.0),), -33.0),
        (((-36.0, 10.0), (-23.0, 60.0), (-36.0, 10.0)), -23.0),
        (((-72.0, 10.0), (-36.0, 10.0), (-23.0, 60.0), (-36.0, 10.0), (-72.0, 10.0)), -23.0),
        (((-26.0, 20.0), (-20.0, 20.1), (-26.0, 20.0)), -23.0),
    ],
    ids=["case 1", "case 2", "case 3", "case 4", "case 5"],
)
def test_integrated_loudness(parts: tuple[tuple[float, float], ...], integrated_lufs: float) -> None:
    assert measured(tones(*parts)).integrated_lufs == pytest.approx(integrated_lufs, abs=0.1)


def test_momentary_loudness_is_that_of_the_last_400_ms() -> None:
    meter = measured(tones((-40.0, 2.0), (-23.0, 0.4)))
    assert meter.momentary_lufs == pytest.approx(-23.0, abs=0.1)
    assert measured(tones((-23.0, 0.3))).momentary_lufs == -math.inf


def test_silence_has_no_loudness() -> None:
    meter = measured(np.zeros((2, 2 * SAMPLE_RATE_HZ), dtype=np.float32))
    assert meter.integrated_lufs == meter.momentary_lufs == -math.inf
    assert next_gain(meter, 0.0, -14.0) == 0.0


def test_where_the_sound_is_split_into_blocks_makes_no_difference() -> None:
    sound = tones((-30.0, 1.0), (-18.0, 1.0))
    one, other = measured(sound, frames_a_block=1), measured(sound, frames_a_block=7)
    assert one.integrated_lufs == pytest.approx(other.integrated_lufs, abs=1e-6)


@cache
def after(level_dbfs: float, seconds: float) -> Meter:
    return measured(tones((level_dbfs, seconds)))


class TestGain:
    def test_it_goes_down_at_once_but_by_one_db_a_second_at_most(self) -> None:
        gain_db = 0.0
        for _ in range(1000 // METER_STEP_MS):
            gain_db = next_gain(after(-6.0, 1.0), gain_db, -14.0)
        assert gain_db == pytest.approx(-1.0)

    def test_it_does_not_go_up_before_three_seconds_are_known(self) -> None:
        assert next_gain(after(-30.0, KNOWN_AFTER_MS / 1000 - 0.1), 0.0, -14.0) == 0.0
        assert next_gain(after(-30.0, KNOWN_AFTER_MS / 1000), 0.0, -14.0) == pytest.approx(0.1)

    def test_it_stays_where_the_target_is_met(self) -> None:
        assert next_gain(after(-23.0, 4.0), 0.05, -23.0) == pytest.approx(0.0, abs=0.06)

    def test_it_has_an_end(self) -> None:
        assert wanted_gain_db(-65.0, -14.0) == MOST_NORMALIZATION_DB
        assert wanted_gain_db(-20.0, -14.0) == 6.0


def test_a_measurement_goes_on_from_what_was_known() -> None:
    loud = Meter.resumed(-9.03, 60_000)
    assert loud.integrated_lufs == pytest.approx(-9.03, abs=0.06)
    assert loud.fed(np.zeros((2, FRAME_SAMPLES), np.float32)).measured_ms == 60_020
    assert Meter.resumed(-80.0, 5_000).integrated_lufs == -math.inf
