"""What a listener hears of the sound settings: levels, clipping, ramps, and no click at any change."""

import itertools
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.pcm import channels, largest_step, level_of, noise, sounds_the_same, tone
from tests.support.plain_biquads import equalized_plainly
from tonearm.core.filters import BAND_COUNT, Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, FRAMES_PER_SECOND
from tonearm.worker.filters.chain import RAMP_SAMPLES, ChainState, process

FLAT = (0.0,) * BAND_COUNT
BASS = (12.0, 12.0, 6.0, *FLAT[3:])
PRESENCE = (*FLAT[:7], -9.0, 24.0, 4.0, *FLAT[10:])
ALL_UP = (24.0,) * BAND_COUNT
ALL_DOWN = (-24.0,) * BAND_COUNT
ZIGZAG = (24.0, -24.0) * 7 + (24.0,)

PASSING = Filters()
QUIET = Filters(volume=0.25)
BASS_QUIET = Filters(volume=0.25, gains_db=BASS)


def in_calls(state: ChainState, pcm: bytes, frames_a_call: list[int]) -> tuple[bytes, ChainState]:
    """Processed in calls of so many frames each; the state at the end."""
    result = b""
    ends = list(accumulate(frames_a_call))
    for start, end in zip([0, *ends], ends, strict=False):
        part, state = process(state, pcm[start * FRAME_BYTES : end * FRAME_BYTES])
        result += part
    return result, state


def through_change(before: Filters, after: Filters, pcm: bytes, *, at_frame: int) -> bytes:
    first, state = process(ChainState.steady(before), pcm[: at_frame * FRAME_BYTES])
    changed = state.changed(after, pcm[: at_frame * FRAME_BYTES])
    return first + process(changed, pcm[at_frame * FRAME_BYTES :])[0]


class TestSteady:
    def test_nothing_set_gives_the_very_same_bytes(self) -> None:
        state = ChainState.steady(PASSING)
        pcm = noise(frames=5, peak=32_767)
        result, after = process(state, pcm)
        assert state.changes_nothing
        assert result is pcm
        assert after is state

    @pytest.mark.parametrize("volume", [0.0, 0.1, 0.5, 0.999, 1.5, 5.0])
    def test_volume_is_linear_and_clips_cleanly(self, volume: float) -> None:
        pcm = noise(frames=3, peak=32_767)
        result, _ = process(ChainState.steady(Filters(volume=volume)), pcm)
        expected = np.clip(channels(pcm) * volume, -32_768, 32_767)
        assert np.abs(channels(result) - expected).max() <= 0.51

    def test_volume_comes_after_the_equalizer(self) -> None:
        pcm = tone(1_000, frames=50, peak=30_000)
        boosted = Filters(volume=1 / 16, gains_db=PRESENCE)
        result, _ = process(ChainState.steady(boosted), pcm)
        assert largest_step(result[25 * FRAME_BYTES :]) > 3_000  # a sine of 20 000 or more, not one clipped to 2 048
        assert np.abs(channels(result)).max() < 32_767

    def test_too_much_boost_clips_and_never_wraps(self) -> None:
        pcm = tone(1_000, frames=10, peak=32_000)
        result, _ = process(ChainState.steady(Filters(volume=5.0, gains_db=ALL_UP)), pcm)
        settled = channels(result)[5 * FRAME_SAMPLES :]
        assert settled.max() == 32_767
        assert settled.min() == -32_768
        # The tone is symmetrical: a wrapped sample would show as one on the wrong side.
        assert np.count_nonzero(np.diff(np.sign(settled[:, 0]))) == pytest.approx(2 * 5 * 20, abs=2)

    def test_equalizer_and_volume_are_rounded_to_the_nearest_sample(self) -> None:
        pcm = noise(frames=4, peak=8_000)
        filters = Filters(volume=0.7, gains_db=BASS)
        result, _ = process(ChainState.steady(filters), pcm)
        for channel in range(2):
            plain = equalized_plainly(channels(pcm)[:, channel], BASS) * 0.7
            assert np.abs(channels(result)[:, channel] - plain).max() <= 0.51

    @pytest.mark.parametrize("length", [0, 1, FRAME_BYTES - 4, FRAME_BYTES + 4])
    @pytest.mark.parametrize("filters", [PASSING, BASS_QUIET])
    def test_only_whole_frames_are_taken(self, filters: Filters, length: int) -> None:
        with pytest.raises(ValueError, match=f"not {length} bytes"):
            process(ChainState.steady(filters), bytes(length))


class TestStates:
    @pytest.mark.parametrize("gains_db", [FLAT, BASS, ALL_UP, ALL_DOWN, ZIGZAG], ids=str)
    @pytest.mark.parametrize("split", [[5, 5], [1] * 10, [3, 1, 6]], ids=str)
    def test_where_it_is_split_makes_no_difference(self, gains_db: tuple[float, ...], split: list[int]) -> None:
        pcm = noise(frames=10, peak=3_000)
        state = ChainState.steady(Filters(volume=0.3)).changed(Filters(volume=0.2, gains_db=gains_db), b"")
        whole, _ = in_calls(state, pcm, [10])
        parts, _ = in_calls(state, pcm, split)
        assert sounds_the_same(whole, parts)


class TestRamp:
    def test_a_ramp_takes_ten_milliseconds_from_the_first_sample(self) -> None:
        pcm = np.full((2 * FRAME_SAMPLES, 2), 10_000, dtype="<i2").tobytes()
        result, state = process(ChainState.steady(QUIET).changed(PASSING, pcm), pcm)
        left = channels(result)[:, 0]
        assert left[0] == pytest.approx(2_500, abs=1)
        assert np.all(np.diff(left[:RAMP_SAMPLES]) >= 0)
        assert left[RAMP_SAMPLES // 2] == pytest.approx(6_250, abs=30)
        assert np.all(left[RAMP_SAMPLES:] == 10_000)
        assert state.changes_nothing

    def test_after_a_ramp_to_nothing_set_the_bytes_are_the_same_again(self) -> None:
        pcm = noise(frames=6, peak=9_000)
        loud = Filters(volume=5.0, gains_db=ZIGZAG)
        _, state = process(ChainState.steady(loud), pcm)
        changed = state.changed(PASSING, pcm)
        assert not changed.changes_nothing
        result, after = process(changed, pcm)
        ramp_bytes = RAMP_SAMPLES * 4
        assert result[ramp_bytes:] == pcm[ramp_bytes:]
        assert after.changes_nothing

    def test_no_change_is_no_ramp(self) -> None:
        state = ChainState.steady(BASS_QUIET)
        assert state.changed(Filters(volume=0.25, gains_db=BASS), b"") is state

    def test_many_changes_before_the_next_frame_ramp_once_from_what_is_heard_to_the_last(self) -> None:
        pcm = noise(frames=5, peak=3_000)
        playing = process(ChainState.steady(BASS_QUIET), pcm)[1]
        last = Filters(volume=0.5, gains_db=PRESENCE)
        many = playing.changed(Filters(gains_db=ALL_DOWN), pcm).changed(Filters(gains_db=PRESENCE), pcm)
        many = many.changed(PASSING, pcm).changed(last, pcm)
        assert process(many, pcm)[0] == process(playing.changed(last, pcm), pcm)[0]
        assert many.filters == last

    def test_a_new_volume_keeps_the_memory_of_the_equalizer(self) -> None:
        pcm = noise(frames=10, peak=3_000)
        playing = process(ChainState.steady(BASS_QUIET), pcm[: 5 * FRAME_BYTES])[1]
        louder = process(playing.changed(Filters(volume=0.5, gains_db=BASS), b""), pcm[5 * FRAME_BYTES :])[0]
        same = process(playing, pcm[5 * FRAME_BYTES :])[0]
        difference = channels(louder) - 2 * channels(same)
        assert np.abs(difference[RAMP_SAMPLES:]).max() <= 2

    def test_a_new_volume_on_a_due_equalizer_keeps_what_it_was_warmed_up_with(self) -> None:
        pcm = tone(25, frames=30, peak=2_000)
        due = ChainState.steady(PASSING).changed(Filters(gains_db=BASS), pcm)
        louder = due.changed(Filters(volume=2.0, gains_db=BASS), b"")
        difference = channels(process(louder, pcm)[0]) - 2 * channels(process(due, pcm)[0])
        assert np.abs(difference[RAMP_SAMPLES:]).max() <= 2

    @pytest.mark.parametrize("frequency_hz", [25, 40, 1_000])
    def test_a_new_equalizer_comes_in_at_its_full_level(self, frequency_hz: int) -> None:
        pcm = tone(frequency_hz, frames=2 * FRAMES_PER_SECOND, peak=1_500)
        boost = Filters(volume=0.2, gains_db=ALL_UP)
        half = FRAMES_PER_SECOND * FRAME_BYTES
        result = through_change(Filters(volume=0.2), boost, pcm, at_frame=FRAMES_PER_SECOND)
        steady, _ = process(ChainState.steady(boost), pcm)
        soon = slice(half + 2 * FRAME_BYTES, half + 12 * FRAME_BYTES)
        assert level_of(result[soon], frequency_hz) == pytest.approx(level_of(steady[soon], frequency_hz), rel=0.02)

    def test_a_history_of_part_of_a_frame_counts(self) -> None:
        pcm = tone(1_000, frames=3, peak=1_000)
        short = pcm[: FRAME_BYTES + 400]
        state = ChainState.steady(PASSING).changed(Filters(gains_db=PRESENCE), short)
        result, _ = process(state, pcm[len(short) :][:FRAME_BYTES])
        plain = equalized_plainly(channels(pcm)[:, 0], PRESENCE)[len(short) // 4 :][:FRAME_SAMPLES]
        assert np.abs(channels(result)[RAMP_SAMPLES:, 0] - plain[RAMP_SAMPLES:]).max() <= 1


CHANGES = {
    "volume 0 to 5": (Filters(volume=0.0), Filters(volume=5.0)),
    "volume 5 to 0": (Filters(volume=5.0), Filters(volume=0.0)),
    "volume 1 to 0": (PASSING, Filters(volume=0.0)),
    "one band up": (PASSING, Filters(gains_db=PRESENCE)),
    "one band back": (Filters(gains_db=PRESENCE), PASSING),
    "flat to all up, quiet": (Filters(volume=0.02), Filters(volume=0.02, gains_db=ALL_UP)),
    "loud to all up and quiet": (PASSING, Filters(volume=0.02, gains_db=ALL_UP)),
    "all up to flat": (Filters(volume=0.02, gains_db=ALL_UP), PASSING),
    "all up to all down": (Filters(volume=0.02, gains_db=ALL_UP), Filters(gains_db=ALL_DOWN)),
    "all down to flat": (Filters(gains_db=ALL_DOWN), PASSING),
    "flat to zigzag": (PASSING, Filters(volume=0.2, gains_db=ZIGZAG)),
    "zigzag to the opposite": (
        Filters(volume=0.2, gains_db=ZIGZAG),
        Filters(volume=0.2, gains_db=tuple(-gain_db for gain_db in ZIGZAG)),
    ),
    "bass to presence": (Filters(gains_db=BASS), Filters(gains_db=PRESENCE)),
}


@pytest.mark.parametrize("before_after", CHANGES.values(), ids=CHANGES.keys())
class TestNoClick:
    """No step from sample to sample is much larger than the larger of those that both settings have by themselves."""

    def test_tones(self, before_after: tuple[Filters, Filters]) -> None:
        before, after = before_after
        near = slice(28 * FRAME_BYTES, None)
        for frequency_hz, phase in itertools.product((25, 60, 200, 440, 1_000, 12_345.6), (0.0, np.pi / 2)):
            pcm = tone(frequency_hz, frames=45, peak=1_500, phase=phase)
            result = through_change(before, after, pcm, at_frame=30)
            alone = [process(ChainState.steady(filters), pcm)[0] for filters in before_after]
            steps = max(largest_step(steady[near]) for steady in alone)
            more = 0.1 * steps
            if frequency_hz <= 200:
                # A period is not short against the ramp: the level moves by up to pi / 2 / RAMP_SAMPLES a sample.
                more = sum(np.abs(channels(steady)).max() for steady in alone) * np.pi / 2 / RAMP_SAMPLES
            assert largest_step(result[near]) <= steps + more + 1, (frequency_hz, phase)


some_filters = st.builds(
    Filters,
    volume=st.sampled_from([0.0, 0.1, 1.0]) | st.floats(0.0, 1.0),
    gains_db=st.sampled_from([FLAT, BASS, ALL_DOWN]) | st.tuples(*[st.floats(-24.0, 24.0)] * BAND_COUNT),
)


@settings(max_examples=60)
@given(
    start=some_filters,
    changes=st.lists(st.tuples(st.integers(0, 6), some_filters), min_size=1, max_size=6),
    frequency_hz=st.sampled_from([300, 1_000, 5_000]),
)
def test_any_changes_neither_click_nor_wrap(
    start: Filters, changes: list[tuple[int, Filters]], frequency_hz: int
) -> None:
    # The largest sum of 15 bands is 46 dB, 200 times: 100 goes through all of it without clipping.
    frames = 12 + sum(gap for gap, _ in changes)
    pcm = tone(frequency_hz, frames=frames, peak=100)
    result, state = process(ChainState.steady(start), pcm[: 6 * FRAME_BYTES])
    position = 6 * FRAME_BYTES
    for gap, filters in [*changes, (6, changes[-1][1])]:
        if gap:
            part, state = process(state, pcm[position : position + gap * FRAME_BYTES])
            result, position = result + part, position + gap * FRAME_BYTES
        state = state.changed(filters, pcm[:position])
    assert len(result) == len(pcm)
    assert state.changes_nothing == changes[-1][1].changes_nothing

    alone = [process(ChainState.steady(filters), pcm)[0] for filters in [start, *(filters for _, filters in changes)]]
    assert largest_step(result) <= 1.1 * max(map(largest_step, alone)) + 1
    assert np.abs(channels(result)).max() <= 1.1 * max(np.abs(channels(pcm_alone)).max() for pcm_alone in alone) + 1
