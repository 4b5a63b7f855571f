"""Levels in dB of full scale."""

import struct

import pytest

from tonearm.listen.display import SILENCE_DB, PeakMeter, bar


def test_each_channel_has_its_own_peak() -> None:
    meter = PeakMeter()
    meter.add(struct.pack("<6h", 0, -16384, 8192, 0, -100, 100))
    left, right = meter.take_db()
    assert left == pytest.approx(-12.04, abs=0.01)
    assert right == pytest.approx(-6.02, abs=0.01)


def test_the_most_negative_sample_is_full_scale() -> None:
    meter = PeakMeter()
    meter.add(struct.pack("<2h", -32768, 0))
    assert meter.take_db() == (0.0, SILENCE_DB)


def test_a_peak_is_kept_until_it_is_taken() -> None:
    meter = PeakMeter()
    meter.add(struct.pack("<2h", 16384, 16384))
    meter.add(bytes(3840))
    assert meter.take_db()[0] > -7
    assert meter.take_db() == (SILENCE_DB, SILENCE_DB)


@pytest.mark.parametrize(("level_db", "drawn"), [(0, "####"), (3, "####"), (-30, "##.."), (-60, "...."), (-90, "....")])
def test_a_bar_goes_from_silence_to_full_scale(level_db: float, drawn: str) -> None:
    assert bar(level_db, 4, "#", ".") == drawn
