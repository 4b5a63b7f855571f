"""The loudness meter against the cases of EBU Tech 3341, and the gain that follows it."""

import math

import numpy as np
import pytest

from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.worker.filters.blocks import FULL_SCALE, Planes
from tonearm.worker.filters.loudness import (
    METER_STEP_MS,
    MOST_NORMALIZATION_DB,
    Meter,
    next_gain_db,
    wanted_gain_db,
)


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
    "parts",
    [  # cases 1, 4 and 5
        ((-23.0, 20.0),),
        ((-72.0, 10.0), (-36.0, 10.0), (-23.0, 60.0), (-36.0, 10.0), (-72.0, 10.0)),
        ((-26.0, 20.0), (-20.0, 20.1), (-26.0, 20.0)),
    ],
)
def test_integrated_loudness(parts: tuple[tuple[float, float], ...]) -> None:
    assert measured(tones(*parts)).integrated_lufs == pytest.approx(-23.0, abs=0.1)


def test_momentary_loudness_is_that_of_the_last_400_ms() -> None:
    assert measured(tones((-40.0, 2.0), (-23.0, 0.4))).momentary_lufs == pytest.approx(-23.0, abs=0.1)
    assert measured(tones((-23.0, 0.3))).momentary_lufs == -math.inf


def test_silence_has_no_loudness_and_no_gain() -> None:
    meter = measured(np.zeros((2, 2 * SAMPLE_RATE_HZ), dtype=np.float32))
    assert meter.integrated_lufs == -math.inf
    assert next_gain_db(meter.integrated_lufs, meter.measured_ms, 0.0, -14.0, METER_STEP_MS) == 0.0


def test_where_the_sound_is_split_into_blocks_makes_no_difference() -> None:
    sound = tones((-30.0, 1.0), (-18.0, 1.0))
    one, other = measured(sound, frames_a_block=1), measured(sound, frames_a_block=7)
    assert one.integrated_lufs == pytest.approx(other.integrated_lufs, abs=1e-6)


def test_the_gain_has_an_end() -> None:
    assert wanted_gain_db(-65.0, -14.0) == MOST_NORMALIZATION_DB
    assert wanted_gain_db(-20.0, -14.0) == 6.0


def test_a_measurement_goes_on_from_what_was_known() -> None:
    loud = Meter.resumed(-9.03, 60_000)
    assert loud.integrated_lufs == pytest.approx(-9.03, abs=0.06)
    assert loud.fed(np.zeros((2, FRAME_SAMPLES), np.float32)).measured_ms == 60_020
    assert Meter.resumed(-80.0, 5_000).integrated_lufs == -math.inf
