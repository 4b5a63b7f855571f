"""How long a crossfade lasts, and where it begins."""

from dataclasses import replace

import pytest

from tests.support.tracks import make_track
from tonearm.core.crossfade import CrossfadeSettings, FadeTime, fade_at_end, fade_of_skip
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts


def track(length_ms: int, *, is_stream: bool = False) -> Track:
    return make_track("a").with_facts(SourceFacts(length_ms, is_seekable=True, is_stream=is_stream))


FIVE = CrossfadeSettings(5_000)


def test_without_known_ends_tracks_join() -> None:
    known, radio = track(9_000), track(9_000, is_stream=True)
    for here, there in ((track(0), known), (known, track(0)), (radio, known), (known, radio), (track(1), known)):
        assert fade_at_end(FIVE, here, there) is None
        assert fade_of_skip(replace(FIVE, on_skip=True), here, 0, there) is None


def test_a_track_whose_end_is_a_guess_does_not_fade_before_it_unless_it_is_skipped() -> None:
    guessed = make_track("a").with_facts(SourceFacts(60_000, is_seekable=True, is_length_guess=True))
    assert fade_at_end(FIVE, guessed, track(60_000)) is None
    assert fade_at_end(FIVE, replace(guessed, end_ms=70_000), track(60_000)) is None
    assert fade_at_end(FIVE, replace(guessed, end_ms=50_000), track(60_000)) == FadeTime(45_000, 5_000)
    assert fade_at_end(FIVE, track(60_000), guessed) == FadeTime(55_000, 5_000)
    skipping = replace(FIVE, on_skip=True)
    assert fade_of_skip(skipping, guessed, 20_000, track(60_000)) == FadeTime(20_000, 5_000)


@pytest.mark.parametrize(
    ("rate", "here_ms", "there_ms", "expected"),
    [
        (1.0, 60_000, 30_000, FadeTime(55_000, 5_000)),
        (1.0, 8_000, 60_000, FadeTime(4_000, 4_000)),  # at most half of either track
        (1.0, 60_000, 3_001, FadeTime(58_500, 1_500)),
        (1.5, 60_000, 60_001, FadeTime(52_500, 5_000)),
        (2.0, 12_000, 60_000, FadeTime(6_000, 3_000)),  # half of the 6 s that the track is heard
        (2.0, 60_000, 12_000, FadeTime(54_000, 3_000)),
        (0.5, 6_000, 60_000, FadeTime(3_500, 5_000)),  # heard for 12 s, of which half is more
        (1.7, 9_001, 60_000, FadeTime(4_501, 2_647)),
    ],
)
def test_it_ends_with_the_track_that_goes_and_has_its_length_in_time_heard(
    rate: float, here_ms: int, there_ms: int, expected: FadeTime
) -> None:
    assert fade_at_end(FIVE, track(here_ms), track(there_ms), rate) == expected
    # What is left of the file from there on lasts as long as the fade, or a moment longer.
    left_ms = (here_ms - expected.at_ms) / rate
    assert expected.duration_ms <= left_ms < expected.duration_ms + 1 / rate


@pytest.mark.parametrize(
    ("from_ms", "rate", "at_end", "of_skip_ms"),
    [
        (55_000, 1.0, FadeTime(55_000, 5_000), 5_000),
        (55_001, 1.0, FadeTime(55_001, 4_999, is_late=True), 4_999),
        (59_900, 1.0, FadeTime(59_900, 100, is_late=True), 100),
        (59_901, 1.0, None, 99),
        (60_000, 1.0, None, None),
        (49_000, 2.0, FadeTime(50_000, 5_000), 5_000),
        (52_000, 2.0, FadeTime(52_000, 4_000, is_late=True), 4_000),
        (59_800, 2.0, FadeTime(59_800, 100, is_late=True), 100),
        (58_000, 0.5, FadeTime(58_000, 4_000, is_late=True), 4_000),
    ],
)
def test_behind_its_beginning_only_its_rest_is_left_and_a_skip_fades_from_where_it_is(
    from_ms: int, rate: float, at_end: FadeTime | None, of_skip_ms: int | None
) -> None:
    assert fade_at_end(FIVE, track(60_000), track(60_000), rate, from_ms) == at_end
    of_skip = fade_of_skip(replace(FIVE, on_skip=True), track(60_000), from_ms, track(60_000), rate)
    assert of_skip == (of_skip_ms and FadeTime(from_ms, of_skip_ms))
    assert fade_of_skip(FIVE, track(60_000), from_ms, track(60_000), rate) is None
