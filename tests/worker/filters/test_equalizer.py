"""What the equalizer does to sound, against its definition and against a plain biquad."""

import numpy as np
import pytest

from tests.support.pcm import channels, level_of, noise, tone
from tests.support.plain_biquads import equalized_plainly
from tonearm.core.filters import BAND_COUNT, BAND_FREQUENCIES_HZ, Filters
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND
from tonearm.worker.filters.chain import ChainState, process
from tonearm.worker.filters.linear import equalizer

FLAT = (0.0,) * BAND_COUNT
SETTINGS = {
    "one low boost": (24.0, *FLAT[1:]),
    "one low cut": (-24.0, *FLAT[1:]),
    "highest band": (*FLAT[1:], 24.0),
    "five bands": (6.0, 0.0, -3.5, 0.0, 0.0, 12.0, 0.0, 0.0, -24.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0),
    "all up": (24.0,) * BAND_COUNT,
    "all down": (-24.0,) * BAND_COUNT,
    "up and down": (24.0, -24.0) * 7 + (24.0,),
    "hardly anything": (1e-9,) * BAND_COUNT,
}


def one_band(band: int, gain_db: float) -> tuple[float, ...]:
    return (*FLAT[:band], gain_db, *FLAT[band + 1 :])


def gain_heard_db(gains_db: tuple[float, ...], frequency_hz: float, *, peak: float) -> float:
    """Measured as a listener would: a tone goes through, and its level in the last of two seconds is read."""
    pcm = tone(frequency_hz, frames=2 * FRAMES_PER_SECOND, peak=peak)
    result, _ = process(ChainState.steady(Filters(gains_db=gains_db)), pcm)
    settled = slice(FRAMES_PER_SECOND * FRAME_BYTES, None)
    return float(20.0 * np.log10(level_of(result[settled], frequency_hz) / level_of(pcm[settled], frequency_hz)))


@pytest.mark.parametrize("gain_db", [-24.0, -6.0, 0.5, 6.0, 24.0])
def test_a_band_alone_gives_its_gain_at_its_centre(gain_db: float) -> None:
    for band, frequency_hz in enumerate(BAND_FREQUENCIES_HZ):
        heard_db = gain_heard_db(one_band(band, gain_db), frequency_hz, peak=2_000.0 if gain_db > 0 else 30_000)
        assert heard_db == pytest.approx(gain_db, abs=0.05), band


@pytest.mark.parametrize("gains_db", SETTINGS.values(), ids=SETTINGS.keys())
def test_the_result_is_that_of_plain_biquads(gains_db: tuple[float, ...]) -> None:
    samples = channels(noise(frames=8, peak=32_767) + tone(25, frames=4, peak=32_000)).astype(np.int16)
    kernel = equalizer(gains_db)
    planes, _ = kernel.process(samples.T, kernel.silence())
    for channel, plane in enumerate(planes):
        plain = equalized_plainly(samples[:, channel].astype(np.int64), gains_db)
        assert np.abs(plane - plain).max() < 0.05


def test_ringing_dies_away_to_exact_silence() -> None:
    kernel = equalizer(SETTINGS["all up"])
    loud = channels(noise(frames=4, peak=32_767)).astype(np.int16)
    _, modes = kernel.process(loud.T, kernel.silence())
    for _ in range(40):
        planes, modes = kernel.process(np.zeros((2, 9_600), dtype=np.int16), modes)
    assert not planes.any()
    assert not modes.any()


def test_a_cut_beyond_the_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 25 dB"):
        equalizer(one_band(3, -26.0))
