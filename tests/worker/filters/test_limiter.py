"""What the limiter leaves of peaks, and that it leaves everything else alone."""

import numpy as np
from numpy.typing import NDArray

from tests.support.pcm import true_peak_db
from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.worker.filters.blocks import FULL_SCALE
from tonearm.worker.filters.limiter import LOOKAHEAD_SAMPLES, QUIET, limited, state_if_idle

CEILING_DB = -1.0


def limited_in_blocks(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    state, parts = QUIET, []
    block = 10 * FRAME_SAMPLES
    for start in range(0, sound.shape[1], block):
        ahead = sound[:, start + block :][:, :LOOKAHEAD_SAMPLES]
        part, state = limited(sound[:, start : start + block], ahead, CEILING_DB, state)
        parts.append(part)
    return np.concatenate(parts, axis=1)


def sine(frequency_hz: float, level_db: float, *, degrees: float = 0.0, seconds: int = 1) -> NDArray[np.float32]:
    turns = frequency_hz / SAMPLE_RATE_HZ * np.arange(seconds * SAMPLE_RATE_HZ)
    mono = FULL_SCALE * 10 ** (level_db / 20) * np.sin(2 * np.pi * turns + np.radians(degrees))
    return np.stack((mono, mono)).astype(np.float32)


def music(*, level_db: float, up_to_hz: float) -> NDArray[np.float32]:
    """Noise without anything above `up_to_hz`, whose highest sample is at `level_db`."""
    spectrum = np.fft.rfft(np.random.default_rng(1).normal(size=(2, SAMPLE_RATE_HZ)))
    spectrum[:, int(up_to_hz) :] = 0.0
    sound = np.fft.irfft(spectrum)
    return np.asarray(sound / np.abs(sound).max() * FULL_SCALE * 10 ** (level_db / 20), dtype=np.float32)


def test_loud_sound_stays_below_the_ceiling_also_between_the_samples() -> None:
    """Tones, some of EBU Tech 3341, cases 15 to 20, up to 3 dB of which lie between the samples; and dense sound."""
    for frequency_hz in (997.0, 11_025.0):
        loud = limited_in_blocks(sine(frequency_hz, 12.0))
        assert CEILING_DB - 0.2 < true_peak_db(loud / FULL_SCALE) < CEILING_DB + 0.1
    tones = [
        sine(SAMPLE_RATE_HZ / divisor, 3.0, degrees=degrees) for divisor in (4, 6, 8) for degrees in (0, 45, 60, 67.5)
    ]
    for sound in (*tones, *(music(level_db=6.0, up_to_hz=up_to_hz) for up_to_hz in (1_000, 8_000, 18_000))):
        assert true_peak_db(limited_in_blocks(sound) / FULL_SCALE) < CEILING_DB + 0.1


def test_a_burst_out_of_silence_is_met_before_it_comes() -> None:
    sound = np.zeros((2, SAMPLE_RATE_HZ), dtype=np.float32)
    sound[:, 20_000:22_000] = sine(1_000.0, 9.0)[:, :2_000]
    result = limited_in_blocks(sound)
    assert true_peak_db(result / FULL_SCALE) < CEILING_DB + 0.1
    assert not result[:, :20_000].any()


def test_what_does_not_reach_the_ceiling_is_left_as_it_is() -> None:
    sound = music(level_db=-2.0, up_to_hz=1_000.0)
    block = sound[:, : 10 * FRAME_SAMPLES]
    assert limited(block, sound[:, 10 * FRAME_SAMPLES :], CEILING_DB, QUIET)[0] is block
    np.testing.assert_array_equal(limited_in_blocks(sound), sound)


def test_nothing_is_left_alone_at_a_glance_that_may_peak_between_its_samples() -> None:
    for level_db, is_left_alone in ((-5.5, True), (-5.0, False)):
        sound = sine(12_000.0, level_db)[:, : 10 * FRAME_SAMPLES + LOOKAHEAD_SAMPLES]  # as far as a sound can be
        assert (state_if_idle(sound, 10, CEILING_DB, QUIET) is not None) is is_left_alone


def test_it_lets_go_after_a_peak() -> None:
    sound = sine(1_000.0, -20.0, seconds=3)
    sound[:, 30_000:31_000] *= 20.0
    result = limited_in_blocks(sound)
    np.testing.assert_array_equal(result[:, -SAMPLE_RATE_HZ:], sound[:, -SAMPLE_RATE_HZ:])


def test_its_gain_moves_without_corners() -> None:
    sound = sine(997.0, -3.0)
    sound[:, 20_000:] *= 3.0
    gain = limited_in_blocks(sound)[0, 15_000:30_000] / sound[0, 15_000:30_000]
    steady = np.abs(sound[0, 15_000:30_000]) > 3_000  # where the division says something
    steps = np.abs(np.diff(gain[steady]))
    assert steps.max() < 0.02
