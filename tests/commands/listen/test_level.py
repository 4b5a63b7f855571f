"""Levels in dB of full scale, true peaks and loudness, of real sound."""

import math
import struct

import numpy as np
import pytest

from tests.support.audio_files import Signal, music, s16, tone
from tests.support.loudness_meter import measured_by_ffmpeg
from tonearm.commands.listen_display import SILENCE_DB, MeterReading, Meters, bar
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES


def frame(*samples: int) -> bytes:
    """One frame that begins with these samples, left and right in turn."""
    return struct.pack(f"<{len(samples)}h", *samples).ljust(FRAME_BYTES, b"\0")


def heard(*signals: Signal) -> tuple[Meters, bytes]:
    """Meters that heard one signal after the other, frame by frame, and what they heard."""
    pcm = b"".join(s16(signal).astype("<i2").tobytes() for signal in signals)
    pcm = pcm[: len(pcm) // FRAME_BYTES * FRAME_BYTES]
    meters = Meters()
    for start in range(0, len(pcm), FRAME_BYTES):
        meters.add(pcm[start : start + FRAME_BYTES])
    return meters, pcm


def dbfs(level_db: float) -> float:
    return float(10 ** (level_db / 20))


def test_each_channel_has_its_own_peak() -> None:
    meters = Meters()
    meters.add(frame(0, -16384, 8192, 0, -100, 100))
    left, right = meters.take().peaks_db
    assert left == pytest.approx(-12.04, abs=0.01)
    assert right == pytest.approx(-6.02, abs=0.01)


def test_the_most_negative_sample_is_full_scale() -> None:
    meters = Meters()
    meters.add(frame(-32768, 0))
    assert meters.take().peaks_db == (0.0, SILENCE_DB)


def test_a_peak_is_kept_until_it_is_taken() -> None:
    meters = Meters()
    meters.add(frame(16384, 16384))
    meters.add(bytes(FRAME_BYTES))
    assert meters.take().peaks_db[0] > -7
    assert meters.take() == MeterReading((SILENCE_DB, SILENCE_DB), -math.inf, -math.inf)


@pytest.mark.parametrize("level_db", [-23.0, -33.0, -3.0])
def test_a_tone_of_997_hz_in_both_channels_is_as_loud_as_its_level(level_db: float) -> None:
    """EBU Tech 3341, cases 1 and 2."""
    meters, _ = heard(tone(997, 1.0, level=dbfs(level_db)))
    levels = meters.take()
    assert levels.momentary_lufs == pytest.approx(level_db, abs=0.1)
    assert levels.true_peak_db == pytest.approx(level_db, abs=0.05)
    assert levels.peaks_db == pytest.approx((level_db, level_db), abs=0.05)


@pytest.mark.parametrize(
    ("hertz", "degrees", "sample_peak_db"),
    [(12_000, 0.0, -6.0), (12_000, 45.0, -9.0), (8_000, 60.0, -7.25), (6_000, 67.5, -6.7)],
)
def test_the_true_peak_lies_between_the_samples(hertz: int, degrees: float, sample_peak_db: float) -> None:
    """EBU Tech 3341, cases 15 to 18: sines with a true peak of -6 dBTP, however they meet the samples: +0.2, -0.4."""
    time = np.arange(48_000) / 48_000
    sine = dbfs(-6.0) * np.sin(2 * np.pi * hertz * time + math.radians(degrees))
    sine *= np.clip(np.minimum(time, time[::-1]) / 0.1, 0.0, 1.0)  # a sine that is cut off would ring
    meters, _ = heard(np.stack((sine, sine), axis=1))
    levels = meters.take()
    assert levels.peaks_db[0] == pytest.approx(sample_peak_db, abs=0.05)
    assert -6.4 <= levels.true_peak_db <= -5.8


def test_all_that_was_heard_is_summed_up_as_ffmpeg_does() -> None:
    meters, pcm = heard(music(4.0, level=0.9), tone(40, 1.0, level=0.02), music(3.0, level=0.2, seed=2))
    meters.take()
    lufs, true_peak_db = measured_by_ffmpeg(pcm)
    assert meters.integrated_lufs == pytest.approx(lufs, abs=0.1)
    assert meters.highest_true_peak_db == pytest.approx(true_peak_db, abs=0.2)


def test_silence_has_neither_loudness_nor_peak() -> None:
    meters = Meters()
    for _ in range(50):
        meters.add(bytes(2 * FRAME_SAMPLES * 2))
    assert meters.take() == MeterReading((SILENCE_DB, SILENCE_DB), -math.inf, -math.inf)
    assert meters.integrated_lufs == meters.highest_true_peak_db == -math.inf


@pytest.mark.parametrize(("level_db", "drawn"), [(0, "####"), (3, "####"), (-30, "##.."), (-60, "...."), (-90, "....")])
def test_a_bar_goes_from_silence_to_full_scale(level_db: float, drawn: str) -> None:
    assert bar(level_db, 4, "#", ".") == drawn
