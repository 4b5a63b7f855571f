"""The file that tells where in it a player is."""

import numpy as np
from bench import media


def test_each_step_has_a_tone_that_no_other_step_has() -> None:
    hertz = [media.step_hz(number) for number in range(media.STEPS)]
    assert np.diff(hertz).min() >= 100
    assert max(hertz) < 20_000
    assert all(value % 50 == 0 for value in hertz)


def test_a_seek_leads_into_the_middle_of_a_step() -> None:
    assert [media.step_middle_ms(number) for number in (0, 1, media.STEPS - 1)] == [5_000, 15_000, 195_000]
