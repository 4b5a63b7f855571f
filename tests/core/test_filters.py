import math

import pytest

from tonearm.core.errors import BadRequest
from tonearm.core.filters import (
    Compressor,
    Echo,
    Effects,
    FilterChange,
    Filters,
    Karaoke,
    Limiter,
    LowPass,
    Normalization,
    Timescale,
    Tremolo,
)

LOUD_BASS = Filters(volume=2.0, gains_db=(6.0, *(0.0,) * 13, -3.0))


def test_an_effect_changes_the_sound_only_with_values_that_do() -> None:
    for neutral, audible in (
        (Effects(), Effects(limiter=Limiter(enabled=True))),
        (Effects(timescale=Timescale()), Effects(timescale=Timescale(speed=1.1))),
        (Effects(tremolo=Tremolo(depth=0.0)), Effects(tremolo=Tremolo())),
        (Effects(normalization=Normalization(mode="off")), Effects(normalization=Normalization())),
        (Effects(limiter=None), Effects(limiter=None, compressor=Compressor())),
    ):
        assert Filters(effects=neutral).changes_nothing
        assert not Filters(effects=audible).changes_nothing
        assert not LOUD_BASS.changes_nothing


def test_what_is_named_is_set_and_all_else_stays() -> None:
    for change, expected in (
        (FilterChange(), LOUD_BASS),
        (FilterChange(volume=0.5), Filters(0.5, LOUD_BASS.gains_db)),
        (FilterChange(gains=((1, 4), (14, 0))), Filters(2.0, (6.0, 4.0, *(0.0,) * 13))),
        (FilterChange(gains=((0, 1.0), (0, 2.0))), Filters(2.0, (2.0, *(0.0,) * 13, -3.0))),  # the last one counts
        (FilterChange(gains=()), Filters(volume=2.0)),  # an empty list makes the equalizer flat
        *((FilterChange(volume=volume), Filters(volume, LOUD_BASS.gains_db)) for volume in (0, 5)),
        *((FilterChange(gains=((14, gain_db),)), Filters(2.0, (6.0, *(0.0,) * 13, gain_db))) for gain_db in (-24, 24)),
    ):
        assert change.applied_to(LOUD_BASS) == expected


def test_what_is_out_of_range_is_refused() -> None:
    for change, message in (
        *((FilterChange(volume=value), r"volume .* is 0 to 5") for value in (-0.001, 5.001, math.nan, 10**400)),
        *((FilterChange(gains=((3, gain_db),)), r"gain_db .* is -24 to 24") for gain_db in (-24.1, 24.1, math.nan)),
        *((FilterChange(gains=((band, 1.0),)), "bands are 0 to 14") for band in (-1, 15, 10**30)),
    ):
        with pytest.raises(BadRequest, match=message):
            change.applied_to(Filters())


def test_an_effect_replaces_the_one_before_none_switches_it_off_and_a_reset_makes_everything_flat_before() -> None:
    both = FilterChange(effects={"karaoke": Karaoke(level=0.5), "tremolo": Tremolo()}).applied_to(LOUD_BASS)
    assert both == Filters(2.0, LOUD_BASS.gains_db, Effects(karaoke=Karaoke(level=0.5), tremolo=Tremolo()))
    one = FilterChange(effects={"karaoke": None, "tremolo": Tremolo(depth=1.0)}).applied_to(both)
    assert one.effects == Effects(tremolo=Tremolo(depth=1.0))
    assert FilterChange(volume=1.0).applied_to(one).effects is one.effects
    assert FilterChange(resets=True).applied_to(both) == Filters()
    partly = FilterChange(volume=0.5, effects={"tremolo": Tremolo()}, resets=True).applied_to(both)
    assert partly == Filters(0.5, effects=Effects(tremolo=Tremolo()))


def test_an_effect_outside_its_range_is_refused_by_name() -> None:
    for name, effect, message in (
        ("karaoke", Karaoke(filter_band=0), r"karaoke\.filterBand 0 is out of range; it is 1 to 20000\."),
        ("low_pass", LowPass(frequency_hz=0.0), r"lowPass\.frequencyHz 0 is out of range; it is 10 to 20000\."),
        ("tremolo", Tremolo(depth=math.nan), r"tremolo\.depth nan"),
        ("echo", Echo(decay=0.91), r"echo\.decay 0\.91 is out of range; it is 0 to 0\.9\."),
        ("normalization", Normalization(-4.0), r"normalization\.targetLufs -4 is out of range; it is -30 to -5\."),
        ("timescale", Timescale(speed=4.0, rate=2.0), "timescale.speed times rate is 8"),
    ):
        with pytest.raises(BadRequest, match=message):
            FilterChange(volume=2.0, effects={name: effect}).applied_to(Filters())
