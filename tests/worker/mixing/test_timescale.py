"""What speed, pitch and rate make of a source: its length, its pitch, where in it the sound is, and no clicks."""

import numpy as np
import pytest

from tonearm.core.filters import Timescale
from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.worker.filters.blocks import Planes
from tonearm.worker.mixing.timescale import StretchedSource, Stretcher, reads_ahead
from tonearm.worker.sources.pcm_store import PcmStore

# Speed, pitch and rate.
SETTINGS = [
    *((1.5, 1.0, 1.0), (0.5, 1.0, 1.0), (4.0, 1.0, 1.0), (0.25, 1.0, 1.0)),
    *((1.0, 1.5, 1.0), (1.0, 0.7, 1.0), (1.0, 1.0, 1.25), (2.0, 0.7, 1.3)),
]
EXTREMES = [
    *((1.01, 1.0, 1.0), (1.0, 0.25, 1.0), (1.0, 1.0, 4.0)),
    *((4.0, 0.25, 1.0), (4.0, 0.25, 0.25), (0.25, 4.0, 4.0)),
]


def stretched(source: Planes, setting: Timescale) -> Planes:
    """The whole source at the setting."""

    def read(start: int, count: int) -> Planes:
        samples = np.zeros((2, count), dtype=np.float32)
        first, last = max(start, 0), min(start + count, source.shape[1])
        if last > first:
            samples[:, first - start : last - start] = source[:, first:last]
        return samples

    stretcher = Stretcher(setting)
    state = stretcher.begin(0)
    frames: list[Planes] = []
    while len(frames) * FRAME_SAMPLES * setting.position_rate < source.shape[1]:
        frame, state = stretcher.frame(state, read)
        frames.append(frame)
    return np.concatenate(frames, axis=1)


def tone(frequency_hz: float, *, seconds: float = 3.0, peak: float = 10_000.0) -> Planes:
    turns = frequency_hz / SAMPLE_RATE_HZ * np.arange(int(seconds * SAMPLE_RATE_HZ))
    return np.tile((peak * np.sin(2 * np.pi * turns)).astype(np.float32), (2, 1))


@pytest.mark.parametrize("values", SETTINGS)
def test_a_tone_has_its_length_and_pitch_and_stays_smooth_and_as_loud(values: tuple[float, float, float]) -> None:
    setting = Timescale(*values)
    sound = stretched(tone(440.0), setting)
    assert sound.shape[1] / SAMPLE_RATE_HZ == pytest.approx(3.0 / setting.position_rate, abs=0.021)
    middle = sound[0, 4_800:-4_800] * np.hanning(sound.shape[1] - 9_600)
    loudest = np.argmax(np.abs(np.fft.rfft(middle, 4 * len(middle)))) / (4 * len(middle))
    expected_hz = 440.0 * setting.pitch * setting.rate
    assert abs(1200 * np.log2(loudest * SAMPLE_RATE_HZ / expected_hz)) < 5
    inner = sound[0, 2_400 : -int(9_600 / setting.position_rate)].astype(np.float64)
    assert inner.std() == pytest.approx(10_000 / np.sqrt(2), rel=0.02)
    step = 2 * np.pi * expected_hz / SAMPLE_RATE_HZ
    assert np.abs(np.diff(inner, n=2)).max() < 1.3 * 10_000 * step**2 + 1


@pytest.mark.parametrize("values", SETTINGS + EXTREMES)
def test_two_more_frames_are_made_of_what_it_reads_ahead(values: tuple[float, float, float]) -> None:
    setting = Timescale(*values)
    file = PcmStore(1_000)
    stretched = StretchedSource(1, file, setting, 1_000)
    for samples in np.random.default_rng(5).integers(1, 4_000, 300):
        file.append(bytes(4 * int(samples)))
        stretched.make(1 << 40)
        frame_before = stretched.store.end - FRAME_SAMPLES
        assert file.end - stretched.file_sample(frame_before) <= reads_ahead(setting)


@pytest.mark.parametrize(
    "setting", [Timescale(speed=1.5), Timescale(speed=0.8), Timescale(rate=1.25), Timescale(pitch=1.5)]
)
def test_the_position_is_where_the_sound_is_within_20_ms(setting: Timescale) -> None:
    """A tone that is loud in every other half second of the source: where the result changes, the position says so."""
    parts = [tone(500.0, seconds=0.5, peak=2_000.0 if number % 2 else 20_000.0) for number in range(12)]
    sound = stretched(np.concatenate(parts, axis=1), setting)
    envelope = np.convolve(np.abs(sound[0]), np.full(240, 1 / 240), "same")
    changes = np.flatnonzero(np.diff((envelope > 7_000).astype(int)))
    positions_s = changes / SAMPLE_RATE_HZ * setting.position_rate
    positions_s = positions_s[(positions_s > 0.25) & (positions_s < 5.75)]  # around its ends there is silence
    halves = np.round(positions_s * 2)
    assert set(halves) == set(range(1, 12))
    assert np.abs(positions_s - halves / 2).max() < 0.020


def test_what_would_be_above_half_the_rate_goes_away_instead_of_folding_back() -> None:
    sound = stretched(tone(20_000.0), Timescale(rate=2.0))
    assert sound[0, 4_800:-4_800].std() < 100
