"""Frames of a session: joins, plans ahead, new listeners and what is kept. The model beside it has random orders."""

import numpy as np
import pytest

from tests.support.pcm import channels
from tests.support.session_bench import MemorySource, SessionBench, frame_count, padded, playing, render_all
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, NO_OUTPUTS, PCM
from tonearm.decoder.messages import BURST_FRAMES, GRANT_FRAMES, SHORT_GRANT_FRAMES, Mark, MarkKind
from tonearm.worker.filters.chain import HISTORY_FRAMES, ChainState, process

QUIET = Filters(volume=0.25)
QUIETER = Filters(volume=0.125)
BASS_AND_TREBLE = Filters(0.7, (9.0, 6.0, *(0.0,) * 11, -6.0, 4.0))
SECOND = 48_000


def begin(frame: int, source: int, offset_samples: int = 0) -> Mark:
    return Mark(MarkKind.BEGIN, frame, source, offset_samples)


def end(frame: int, source: int) -> Mark:
    return Mark(MarkKind.END, frame, source)


def wholes(*samples: int) -> list[MemorySource]:
    """Whole sources 1, 2, … of so many samples."""
    return [MemorySource(number, count, ends=True) for number, count in enumerate(samples, 1)]


def whole(*sources: MemorySource) -> bytes:
    """The PCM of these sources one after the other."""
    return b"".join(source.pcm(source.store.start, source.store.end - source.store.start) for source in sources)


def test_as_much_as_granted_is_rendered_and_no_more() -> None:
    bench = playing(*wholes(10 * SECOND))
    bench.render()
    assert bench.end_frame == SHORT_GRANT_FRAMES
    bench.send()
    bench.render()
    assert bench.end_frame == 1 + GRANT_FRAMES


@pytest.mark.parametrize("ends_the_wait", ["sound", "flush", "failure", "nothing in it"])
def test_the_last_frame_waits_for_the_next_source(ends_the_wait: str) -> None:
    (first,) = wholes(2 * FRAME_SAMPLES + 300)
    late = MemorySource(2)
    bench = playing(first, late)
    bench.session.flush()
    bench.plan(0, after=1, following=2, base_epoch=bench.epoch)  # which is the end of a flush
    bench.run()
    late.append(100 if ends_the_wait == "sound" else 0)
    bench.run()
    assert (bench.end_frame, bench.marks) == (2, [begin(0, 1)])
    if ends_the_wait == "flush":
        bench.session.flush()
    elif ends_the_wait == "failure":
        late.has_failed = True
    else:
        late.append(SECOND if ends_the_wait == "sound" else 0)
        late.store.finish(is_interrupted=False)
    assert bench.run() == padded(whole(first, late))
    joins = [end(2, 1), begin(2, 2, 300), end(frame_count(SECOND + 400) + 2, 2)]
    assert bench.marks == [begin(0, 1), *(joins if ends_the_wait == "sound" else [end(3, 1)])]
    silence = -(first.store.end + late.store.end) % FRAME_SAMPLES
    assert bench.audios[-1].marks[-1].offset_samples == silence
    for audio in bench.audios:
        if audio.frames and audio.source:
            joined = (audio.source - 1) * first.store.end
            assert audio.position_samples == audio.first_frame * FRAME_SAMPLES - joined


def test_filters_that_change_before_the_first_frame_hold_from_its_first_sample() -> None:
    (source,) = wholes(SECOND)
    bench = playing(source)
    bench.render()
    bench.plan(0, after=1, filters=QUIET)
    assert bench.run() == process(ChainState.steady(QUIET), whole(source))[0]


def test_a_cut_ahead_of_what_is_rendered_begins_where_it_was_ordered() -> None:
    """Of a player that slept: while its source was opened again, some frames passed, and then it was skipped."""
    sources = wholes(SECOND, SECOND)
    bench = SessionBench(dict(enumerate(sources, 1)), first_frame=100)
    bench.plan(100, switch_to=1)
    bench.first_frame = bench.sent = 103
    bench.plan(103, switch_to=2)
    bench.grant()
    assert bench.run() == whole(sources[1])
    assert bench.marks == [begin(103, 2), end(153, 2)]


def test_of_two_plans_ahead_the_second_has_no_gap() -> None:
    """Both are based on the same epoch; the first was rendered further than the second begins."""
    source = MemorySource(1, 3 * FRAME_SAMPLES)
    bench = playing(source)
    bench.run()
    sent = bench.sent_epoch
    source.append(20 * FRAME_SAMPLES)
    bench.plan(4, after=1, filters=QUIET, base_epoch=sent)
    render_all(bench.session)
    bench.plan(5, after=1, filters=QUIETER, base_epoch=sent)
    bench.render()
    plain, at = source.pcm(0, 13 * FRAME_SAMPLES), 3 * FRAME_BYTES
    changed = ChainState.steady(Filters()).changed(QUIETER, plain[:at])
    assert bench.pcm[at : 13 * FRAME_BYTES] == process(changed, plain[at:])[0]


@pytest.mark.parametrize("filters", [QUIET, BASS_AND_TREBLE])
def test_without_listeners_frames_are_counted_and_with_a_new_one_filters_are_as_if_they_had_always_run(
    filters: Filters,
) -> None:
    always = playing(*wholes(60 * FRAME_SAMPLES), filters=filters)
    bench = playing(*wholes(60 * FRAME_SAMPLES), outputs=NO_OUTPUTS)
    bench.change((5, filters))
    assert bench.run(35) == b""
    bench.listen(PCM)
    heard, expected = channels(bench.run()), channels(always.run())[35 * FRAME_SAMPLES :]
    # New filters are warmed up on half a second: the slowest band is within a few thousandths then.
    assert np.abs(heard - expected).max() <= (0 if filters.is_flat_equalizer else 150)
    assert bench.marks == [begin(0, 1), end(60, 1)]


def test_little_is_kept_of_the_frames_that_were_sent() -> None:
    source = MemorySource(1)
    bench = playing(source)
    for _ in range(40):
        source.append(SECOND // 2)
        bench.run(bench.sent + 25)
        behind = bench.sent * FRAME_SAMPLES - source.store.oldest
        assert behind <= (BURST_FRAMES + HISTORY_FRAMES + 5) * FRAME_SAMPLES + SECOND // 2


def test_sources_that_have_ended_or_were_cut_off_are_not_needed_any_more() -> None:
    tracks = 30
    bench = playing(*wholes(*[SECOND // 2] * (tracks - 1), 4 * SECOND))
    bench.render()
    for number in range(1, tracks - 1):
        bench.plan(bench.sent, after=number, following=number + 1)
        bench.run(25 * number + 20)
    used = [number for number in bench.sources if bench.session.uses(number)]
    assert used == list(range(tracks - (BURST_FRAMES + HISTORY_FRAMES) // 25 - 2, tracks))
    bench.play(tracks)
    assert bench.session.uses(tracks - 1)
    bench.run()
    assert not bench.session.uses(tracks - 1)


def test_a_plan_renewed_before_its_audio_came_goes_on_without_a_glide_too() -> None:
    # After a process died: what joins next is known a moment after the session was opened.
    source = MemorySource(1, SECOND, start_sample=SECOND, ends=True)
    bench = SessionBench({1: source, 2: MemorySource(2, SECOND, ends=True)}, first_frame=50)
    bench.plan(50, switch_to=1)
    assert bench.render()
    bench.plan(50, switch_to=1, after=1, following=2)
    assert bench.run() == source.pcm(SECOND, SECOND) + bench.sources[2].pcm(0, SECOND)
