"""Frames of a session: joins, plans, filters and what is kept, sample for sample."""

import numpy as np
import pytest

from tests.support.pcm import channels, sounds_the_same
from tests.support.session_bench import MemorySource, SessionBench, frame_count, padded, render_all
from tonearm.core.filters import BAND_COUNT, Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, PCM
from tonearm.decoder.messages import BURST_FRAMES, GRANT_FRAMES, SHORT_GRANT_FRAMES, Grant, Mark, MarkKind, Plan
from tonearm.worker.filters.chain import HISTORY_FRAMES, ChainState, process
from tonearm.worker.rendering.block_packets import BLOCK_FRAMES

QUIET = Filters(volume=0.25)
QUIETER = Filters(volume=0.125)
BASS_AND_TREBLE = Filters(0.7, (9.0, 6.0, *(0.0,) * 11, -6.0, 4.0))
BASS = Filters(gains_db=(0.0, 12.0, *(0.0,) * (BAND_COUNT - 2)))
SECOND = 48_000


def begin(frame: int, source: int, offset_samples: int = 0) -> Mark:
    return Mark(MarkKind.BEGIN, frame, source, offset_samples)


def end(frame: int, source: int) -> Mark:
    return Mark(MarkKind.END, frame, source)


def bench_of(*samples: int, first_frame: int = 0, filters: Filters | None = None) -> SessionBench:
    """Whole sources 1, 2, … of so many samples."""
    sources = {number: MemorySource(number, count, ends=True) for number, count in enumerate(samples, 1)}
    return SessionBench(sources, filters, first_frame)


def playing(
    *samples: int, following: int | None = None, sent: int | None = None, filters: Filters | None = None
) -> SessionBench:
    """Source 1 plays. With `sent` so many frames were sent, and those that are granted after them rendered."""
    bench = bench_of(*samples, filters=filters)
    bench.play(1, following)
    if sent is not None:
        bench.run(sent)
    return bench


def whole(bench: SessionBench, *sources: int) -> bytes:
    """The PCM of these sources one after the other."""
    stores = [(bench.sources[source], bench.sources[source].store) for source in sources]
    return b"".join(source.pcm(store.start, store.end - store.start) for source, store in stores)


def frames_of(pcm: bytes, start: int, stop: int) -> bytes:
    return pcm[start * FRAME_BYTES : stop * FRAME_BYTES]


# One source


def test_no_more_than_granted_is_rendered() -> None:
    bench = bench_of(10 * SECOND)
    assert bench.render() == []  # before a plan
    bench.play(1)
    bench.render()
    assert bench.end_frame == SHORT_GRANT_FRAMES
    assert bench.render() == []
    for sent in range(1, 30):
        bench.send()
        bench.render()
        assert bench.end_frame == sent + GRANT_FRAMES


def test_a_source_that_ends_without_a_sample_has_no_begin() -> None:
    bench = playing(0, SECOND, following=2)
    assert bench.run() == whole(bench, 2)
    assert bench.marks == [end(0, 1), begin(0, 2), end(50, 2)]


# Joins


@pytest.mark.parametrize(
    "lengths",
    [
        (SECOND + 123, SECOND),  # in mid-frame
        (SECOND, SECOND),  # between two frames
        (5 * FRAME_SAMPLES, 5 * FRAME_SAMPLES),  # between two blocks
        (10 * FRAME_SAMPLES, 1),
        (1, SECOND),
        (300, 300, 300, 300, 300, 300, 300),  # several in one frame
        (1, 1, 1, 1),
        (FRAME_SAMPLES, FRAME_SAMPLES, FRAME_SAMPLES),
        (FRAME_SAMPLES - 1, 1, FRAME_SAMPLES, 2 * FRAME_SAMPLES + 17, 1, 1, SECOND),
        *((alone,) for alone in (1, 300, FRAME_SAMPLES - 1, FRAME_SAMPLES, FRAME_SAMPLES + 1, SECOND, SECOND + 123)),
    ],
)
def test_sources_join_sample_for_sample_and_the_last_frame_is_filled_with_silence(lengths: tuple[int, ...]) -> None:
    bench = bench_of(*lengths)
    bench.play(1, following=2 if len(lengths) > 1 else None)
    for source in range(2, len(lengths)):
        bench.plan(0, after=source, following=source + 1, base_epoch=bench.epoch)
    numbers = range(1, len(lengths) + 1)
    assert bench.run() == padded(whole(bench, *numbers))

    expected: list[Mark] = []
    start = 0
    for number, length in zip(numbers, lengths, strict=True):
        expected.append(begin(start // FRAME_SAMPLES, number, start % FRAME_SAMPLES))
        start += length
        is_last = number == len(lengths)
        expected.append(end(frame_count(start) if is_last else start // FRAME_SAMPLES, number))
    assert bench.marks == expected
    assert bench.filled_samples[len(lengths)] == -start % FRAME_SAMPLES
    for audio in bench.audios:
        if audio.frames and audio.source == 1:
            assert audio.position_samples == audio.first_frame * FRAME_SAMPLES


def test_the_last_frame_waits_for_the_next_source_while_it_is_opened() -> None:
    bench = playing(2 * FRAME_SAMPLES + 300, following=2)
    bench.run()
    assert bench.end_frame == 2
    assert bench.marks == [begin(0, 1)]
    next_source = bench.sources[2] = MemorySource(2)
    bench.run()
    assert bench.end_frame == 2
    next_source.append(100)
    bench.run()
    assert bench.end_frame == 2
    next_source.append(SECOND)
    next_source.store.finish(is_interrupted=False)
    assert bench.run() == padded(whole(bench, 1, 2))
    assert bench.marks == [begin(0, 1), end(2, 1), begin(2, 2, 300), end(frame_count(SECOND + 400) + 2, 2)]


def test_flush_fills_the_last_frame_with_silence() -> None:
    bench = playing(2 * FRAME_SAMPLES + 300, following=2)
    bench.run()
    bench.session.flush()
    assert bench.run() == padded(whole(bench, 1))
    assert bench.marks == [begin(0, 1), end(3, 1)]
    bench.sources[2] = MemorySource(2, FRAME_SAMPLES, ends=True)
    assert bench.render() == []  # it came too late, and sounds when a plan says so
    bench.play(2)
    bench.run()
    assert frames_of(bench.pcm, 3, 4) == whole(bench, 2)


def test_flush_does_not_drop_a_next_source_that_has_samples() -> None:
    bench = playing(2 * FRAME_SAMPLES + 300, FRAME_SAMPLES, following=2)
    bench.session.flush()
    assert bench.run() == padded(whole(bench, 1, 2))


def test_a_plan_ends_a_flush() -> None:
    bench = playing(300, following=2)
    bench.session.flush()
    bench.plan(0, after=1, following=2, base_epoch=bench.epoch)
    assert bench.render() == []


@pytest.mark.parametrize("has_failed", [True, False], ids=["failed", "without a sample"])
def test_a_next_source_that_has_nothing_is_not_waited_for(has_failed: bool) -> None:
    bench = bench_of(300)
    next_source = bench.sources[2] = MemorySource(2)
    bench.play(1, following=2)
    assert bench.render() == []
    if has_failed:
        next_source.has_failed = True
    else:
        next_source.store.finish(is_interrupted=False)
    assert bench.run() == padded(whole(bench, 1))
    assert bench.marks == [begin(0, 1), end(1, 1)]


def test_a_source_that_follows_itself_does_not_hang() -> None:
    bench = playing(0, following=1)
    bench.run()
    assert bench.end_frame == 0


# Plans


def test_filters_that_change_before_the_first_frame_hold_from_its_first_sample() -> None:
    bench = playing(SECOND)
    bench.render()
    bench.plan(0, after=1, filters=QUIET)
    assert bench.run() == process(ChainState.steady(QUIET), whole(bench, 1))[0]


def test_filters_changed_in_silence_hold_from_the_first_sample_of_the_next_source() -> None:
    bench = playing(SECOND, SECOND)
    bench.run()
    bench.plan(50, after=0, filters=QUIET)
    bench.run()
    bench.plan(50, after=2, switch_to=2, filters=QUIET)
    assert frames_of(bench.run(), 50, 100) == process(ChainState.steady(QUIET), whole(bench, 2))[0]


def test_new_filters_are_warmed_up_with_the_sound_before_over_a_join() -> None:
    bench = playing(SECOND // 2 + 77, SECOND, following=2)
    bench.run(40)
    bench.plan(40, after=2, filters=BASS)
    rendered = bench.run()
    plain = padded(whole(bench, 1, 2))
    history = frames_of(plain, 40 - HISTORY_FRAMES, 40)
    changed = ChainState.steady(Filters()).changed(BASS, history)
    expected = frames_of(process(changed, frames_of(plain, 40, 70))[0], 0, 20)
    assert sounds_the_same(frames_of(rendered, 40, 60), expected)


@pytest.mark.parametrize(("at_frame", "filters"), [(6, QUIETER), (5, Filters())], ids=["other", "taken back"])
def test_a_ramp_starts_from_the_filters_that_were_sent(at_frame: int, filters: Filters) -> None:
    bench = playing(SECOND, sent=5)
    sent = bench.sent_epoch
    bench.plan(5, after=1, filters=QUIET)
    render_all(bench.session)  # rendered, but on its way when the next plan is made
    bench.plan(at_frame, after=1, filters=filters, base_epoch=sent)
    bench.send(at_frame - 5)
    got, plain = bench.run(), whole(bench, 1)
    assert frames_of(got, 0, at_frame) == frames_of(plain, 0, at_frame)
    changed = ChainState.steady(Filters()).changed(filters, frames_of(plain, 0, at_frame))
    assert frames_of(got, at_frame, 50) == process(changed, frames_of(plain, at_frame, 50))[0]


@pytest.mark.parametrize(
    ("at_frame", "after", "following", "heard"), [(2, 1, 3, (1, 3)), (5, 1, None, (1,)), (5, 2, 3, (1, 2, 3))]
)
def test_a_plan_before_a_join_chooses_the_next_source_and_one_in_its_frame_keeps_it(
    at_frame: int, after: int, following: int | None, heard: tuple[int, ...]
) -> None:
    bench = playing(5 * FRAME_SAMPLES + 100, SECOND + 7, SECOND, following=2, sent=at_frame)
    assert begin(5, 2, 100) in bench.marks
    bench.plan(at_frame, after=after, following=following)
    assert bench.run() == padded(whole(bench, *heard))
    assert [mark.source for mark in bench.marks if mark.kind is MarkKind.BEGIN] == [*heard]


def test_a_plan_after_the_end_keeps_the_end() -> None:
    """The end was rendered but not sent yet, as in a paused player."""
    bench = playing(3 * FRAME_SAMPLES - 1)
    bench.run()
    for at_frame in (3, 4):
        bench.plan(at_frame, after=1, filters=QUIET if at_frame == 3 else QUIETER)
        bench.run()
        assert bench.marks == [begin(0, 1), end(3, 1)]


def test_a_cut_that_was_not_rendered_yet_is_kept_by_a_plan_on_it() -> None:
    bench = playing(SECOND)
    bench.run(5)
    bench.plan(5, switch_to=2)
    render_all(bench.session)
    bench.plan(5, after=2, filters=QUIET, base_epoch=bench.epoch)
    bench.sources[2] = MemorySource(2, SECOND, ends=True)
    bench.run()
    assert bench.marks == [begin(0, 1), begin(5, 2), end(55, 2)]  # a tail alone was rendered for the cut, not sent


@pytest.mark.parametrize("is_open", [True, False])
def test_a_cut_ahead_of_what_is_rendered_begins_where_it_was_ordered(is_open: bool) -> None:
    """Of a player that slept: while its source was opened again, some frames passed, and then it was skipped."""
    bench = bench_of(SECOND, SECOND, first_frame=100)
    if not is_open:
        del bench.sources[1]
    bench.plan(100, switch_to=1)
    if not is_open:
        bench.render()
    bench.first_frame = bench.sent = 103
    bench.plan(103, switch_to=2)
    bench.grant()
    assert bench.run() == whole(bench, 2)
    assert bench.marks == [begin(103, 2), end(153, 2)]


def test_a_plan_ahead_of_what_is_rendered_begins_at_once() -> None:
    source = MemorySource(1, 3 * FRAME_SAMPLES)
    bench = SessionBench({1: source, 2: MemorySource(2, SECOND, ends=True)})
    bench.play(1)
    bench.run()
    assert bench.end_frame == 3
    for filters, at_frame in ((QUIET, 4), (QUIETER, 5), (QUIET, 500)):
        bench.plan(at_frame, after=1, filters=filters, base_epoch=2)
    source.append(FRAME_SAMPLES)
    (audio,) = bench.render()
    assert (audio.first_frame, audio.frames) == (3, 1)


def test_of_two_plans_ahead_the_second_has_no_gap() -> None:
    """Both are based on the same epoch; the first was rendered further than the second begins."""
    source = MemorySource(1, 3 * FRAME_SAMPLES)
    bench = SessionBench({1: source})
    bench.play(1)
    bench.run()
    sent = bench.sent_epoch
    source.append(20 * FRAME_SAMPLES)
    bench.plan(4, after=1, filters=QUIET, base_epoch=sent)
    render_all(bench.session)
    bench.plan(5, after=1, filters=QUIETER, base_epoch=sent)
    bench.render()
    plain = source.pcm(0, 13 * FRAME_SAMPLES)
    changed = ChainState.steady(Filters()).changed(QUIETER, frames_of(plain, 0, 3))
    assert frames_of(bench.pcm, 3, 13) == process(changed, frames_of(plain, 3, 13))[0]


@pytest.mark.parametrize("at_frame", [0, 10, 10**9])
@pytest.mark.parametrize("base_epoch", [1, 2, 99])
def test_a_plan_far_from_what_is_kept_goes_on_somewhere(at_frame: int, base_epoch: int) -> None:
    bench = playing(10 * SECOND, SECOND)
    bench.run(200)
    bench.session.plan(Plan(1, 3, base_epoch, at_frame, None, 1, 2, QUIET))
    audios = render_all(bench.session)
    bench.session.grant(Grant(1, 3, 200, 220))
    assert all(audio.first_frame >= 200 - BURST_FRAMES - HISTORY_FRAMES - 5 for audio in audios)
    bench.session.plan(Plan(1, 4, 3, 205, 2, 2, None, QUIET))
    assert render_all(bench.session)[0].source == 2


def test_a_switch_back_to_a_source_whose_start_was_released_plays_the_rest() -> None:
    bench = bench_of(0, SECOND)
    bench.sources[1] = MemorySource(1)
    for _ in range(200):
        bench.sources[1].append(FRAME_SAMPLES)
    bench.play(1)
    bench.run(200)
    bench.play(1)
    bench.run(201)
    assert bench.audios[-1].position_samples > 0


# Without listeners frames are only counted, and with a new one the filters are as if they had always run


@pytest.mark.parametrize("filters", [Filters(), QUIET, BASS_AND_TREBLE])
def test_with_a_new_listener_the_filters_are_as_if_they_had_always_run(filters: Filters) -> None:
    always, bench = playing(60 * FRAME_SAMPLES, filters=filters), bench_of(60 * FRAME_SAMPLES, filters=filters)
    bench.listen()
    bench.play(1)
    assert bench.run(35) == b""
    bench.listen(PCM)
    heard, expected = channels(bench.run()), channels(always.run())[35 * FRAME_SAMPLES :]
    # New filters are warmed up on half a second: the slowest band is within a few thousandths then.
    assert np.abs(heard - expected).max() <= (0 if filters.is_flat_equalizer else 150)
    assert bench.marks == [begin(0, 1), end(60, 1)]


def test_filters_changed_without_listeners_are_in_force_without_a_ramp() -> None:
    bench = bench_of(40 * FRAME_SAMPLES)
    bench.listen()
    bench.play(1)
    bench.change((5, Filters(volume=0.0)))
    bench.run(10)
    bench.listen(PCM)
    assert bench.run(20)[: 10 * FRAME_BYTES] == bytes(10 * FRAME_BYTES)


# What is kept


def test_little_is_kept_of_the_frames_that_were_sent() -> None:
    source = MemorySource(1)
    bench = SessionBench({1: source})
    bench.play(1)
    for _ in range(40):
        source.append(SECOND // 2)
        bench.run(bench.sent + 25)
        behind = bench.sent * FRAME_SAMPLES - source.store.oldest
        assert behind <= (BURST_FRAMES + HISTORY_FRAMES + 5) * FRAME_SAMPLES + SECOND // 2


def test_sources_that_have_ended_are_not_needed_any_more() -> None:
    tracks = 30
    bench = playing(*[SECOND // 2] * tracks)
    bench.render()
    for number in range(1, tracks):
        bench.plan(bench.sent, after=number, following=number + 1)
        bench.run(25 * number + 20)
    used = [number for number in bench.sources if bench.session.uses(number)]
    assert used == list(range(tracks - (BURST_FRAMES + HISTORY_FRAMES) // 25 - 1, tracks + 1))


def test_a_source_that_was_cut_off_is_needed_until_the_cut_was_sent() -> None:
    bench = playing(SECOND, 4 * SECOND, sent=10)
    bench.play(2)
    assert bench.session.uses(1)
    bench.run(10 + BURST_FRAMES + HISTORY_FRAMES + BLOCK_FRAMES)
    assert not bench.session.uses(1)
    assert bench.session.uses(2)


def test_a_session_knows_how_far_it_used_each_source() -> None:
    bench = bench_of(SECOND, SECOND)
    assert bench.session.used_up_to(1) == 0
    bench.play(1, following=2)
    bench.render()
    assert bench.session.used_up_to(1) == SHORT_GRANT_FRAMES * FRAME_SAMPLES
    assert bench.session.is_current(1)
    assert not bench.session.is_current(2)
    assert bench.session.used_up_to(2) == 0


def test_a_plan_renewed_before_its_audio_came_goes_on_without_a_glide_too() -> None:
    # After a process died: what joins next is known a moment after the session was opened.
    source = MemorySource(1, SECOND, start_sample=SECOND, ends=True)
    bench = SessionBench({1: source, 2: MemorySource(2, SECOND, ends=True)}, first_frame=50)
    bench.plan(50, switch_to=1)
    assert bench.render()
    bench.plan(50, switch_to=1, after=1, following=2)
    assert bench.run() == source.pcm(SECOND, SECOND) + bench.sources[2].pcm(0, SECOND)
