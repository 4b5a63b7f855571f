"""Two sources under one another: levels, marks, what happens when one is late, and rendering again in the middle."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.pcm import channels, noise, sounds_the_same
from tests.support.session_bench import RISE, SessionBench, StoredSource
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.decoder.messages import CrossfadeOrder, Mark, MarkKind

FRAMES = 100  # two seconds
AT = 40 * FRAME_SAMPLES + 300
SPAN = 20 * FRAME_SAMPLES + 100
POWER = CrossfadeOrder(AT, SPAN, "equalPower")
LINEAR = CrossfadeOrder(AT, SPAN, "linear")


def sources(*, frames: int = FRAMES) -> dict[int, StoredSource]:
    return {number: StoredSource(noise(frames=frames, peak=9_000, seed=number)) for number in (1, 2, 3)}


def late(known: dict[int, StoredSource], number: int) -> bytes:
    """Nothing of this source is there yet. Its sound."""
    pcm = whole_of(known[number])
    known[number] = StoredSource(b"", is_finished=False)
    return pcm


def bench_with(crossfade: CrossfadeOrder | None, known: dict[int, StoredSource] | None = None) -> SessionBench:
    bench = SessionBench(known or sources())
    bench.plan(0, switch_to=1, following=2, crossfade=crossfade)
    return bench


def whole_of(source: StoredSource) -> bytes:
    return source.store.read(0, source.store.end)


def samples_of(source: StoredSource) -> NDArray[np.float64]:
    return channels(whole_of(source)).astype(np.float64)


def share_of(span: int) -> NDArray[np.float64]:
    """How much of the fade is over at each sample of it."""
    return np.asarray(((np.arange(span) + 0.5) / span)[:, np.newaxis])


def expected(first: NDArray[np.float64], second: NDArray[np.float64], curve: str) -> NDArray[np.float64]:
    share = share_of(SPAN)
    out, into = (1 - share, share) if curve == "linear" else (np.cos(np.pi / 2 * share), np.sin(np.pi / 2 * share))
    mixed = first[AT : AT + SPAN] * out + second[:SPAN] * into
    return np.concatenate((first[:AT], mixed, second[SPAN:]))


@pytest.mark.parametrize("crossfade", [POWER, LINEAR], ids=["equal power", "linear"])
def test_the_old_source_goes_out_as_the_new_one_comes_in(crossfade: CrossfadeOrder) -> None:
    bench = bench_with(crossfade)
    sound = channels(bench.run())
    result = expected(samples_of(bench.sources[1]), samples_of(bench.sources[2]), crossfade.curve)
    assert np.abs(sound[: len(result)] - result).max() <= 0.51
    assert not sound[len(result) :].any()
    ends = (AT + SPAN) // FRAME_SAMPLES + 1
    last = -(-(AT + FRAMES * FRAME_SAMPLES) // FRAME_SAMPLES)
    assert bench.marks == [
        Mark(MarkKind.BEGIN, 0, 1),
        Mark(MarkKind.FADING, 40, 1),
        Mark(MarkKind.BEGIN, 40, 2, 300),
        Mark(MarkKind.FADED, ends, 1),
        Mark(MarkKind.END, last, 2),
    ]
    for audio in bench.audios:  # positions are those of the new source from its beginning on
        if audio.frames and audio.first_frame > 40:
            assert (audio.source, audio.position_samples) == (2, audio.first_frame * FRAME_SAMPLES - AT)


def test_a_next_source_that_is_late_joins_at_the_end() -> None:
    known = sources()
    second = late(known, 2)
    bench = bench_with(POWER, known)
    bench.run(60)
    known[2].arrive(second)
    assert bench.run() == whole_of(known[1]) + second
    assert bench.marks[1:3] == [Mark(MarkKind.END, FRAMES, 1), Mark(MarkKind.BEGIN, FRAMES, 2)]


def test_an_old_source_that_ends_early_only_ends() -> None:
    known = sources()
    known[1] = StoredSource(known[1].store.read(0, AT + 1_000))
    bench = bench_with(POWER, known)
    sound = channels(bench.run()).astype(np.float64)
    rest = samples_of(known[2])[2_000:SPAN]
    gains = np.sin(np.pi / 2 * share_of(SPAN)[2_000:])
    assert np.abs(sound[AT + 2_000 : AT + SPAN] - rest * gains).max() <= 0.51
    assert Mark(MarkKind.FADED, (AT + SPAN) // FRAME_SAMPLES + 1, 1) in bench.marks


def test_an_old_source_that_is_not_decoded_far_enough_is_waited_for() -> None:
    known = sources()
    whole = whole_of(known[1])
    known[1] = StoredSource(whole[: 4 * (AT + 3 * FRAME_SAMPLES)], is_finished=False)
    bench = bench_with(POWER, known)
    bench.run()
    assert bench.end_frame == 43
    known[1].arrive(whole[4 * (AT + 3 * FRAME_SAMPLES) :])
    undisturbed = bench_with(POWER).run()
    assert sounds_the_same(bench.run(), undisturbed)


def test_filters_change_in_the_middle() -> None:
    bench = bench_with(POWER)
    bench.run(45)
    bench.plan(45, after=2, filters=Filters(volume=0.5))
    sound = channels(bench.run()).astype(np.float64)
    undisturbed = channels(bench_with(POWER).run()).astype(np.float64)
    after_ramp = 46 * FRAME_SAMPLES
    assert np.abs(sound[after_ramp:] - undisturbed[after_ramp:] * 0.5).max() <= 1.0


def test_a_cut_in_the_middle_ends_both_voices_within_5_ms() -> None:
    bench = bench_with(POWER)
    bench.run(48)
    bench.plan(48, switch_to=3)
    sound = bench.run()
    joint = channels(sound)[48 * FRAME_SAMPLES : 49 * FRAME_SAMPLES].astype(np.float64)
    undisturbed = channels(bench_with(POWER).run())[48 * FRAME_SAMPLES : 48 * FRAME_SAMPLES + 240].astype(np.float64)
    third = samples_of(bench.sources[3])
    # Both voices go on as they were at the cut, but for the ramp of the crossfade, which stands still then.
    assert np.abs(joint[:240] - third[:240] - undisturbed * (1 - RISE)).max() < 400
    assert np.abs(joint[240:] - third[240:FRAME_SAMPLES]).max() <= 0.51
    assert sound[49 * FRAME_BYTES :].startswith(bench.sources[3].store.read(FRAME_SAMPLES, 10 * FRAME_SAMPLES))


def test_a_cut_can_fade_over_to_a_source_that_is_ready() -> None:
    bench = bench_with(None)
    bench.run(30)
    at = bench.sent * FRAME_SAMPLES
    bench.plan(bench.sent, switch_to=3, cut_fade=POWER)
    sound = channels(bench.run()).astype(np.float64)
    share = share_of(SPAN) * np.pi / 2
    first, third = samples_of(bench.sources[1]), samples_of(bench.sources[3])
    during = first[at : at + SPAN] * np.cos(share) + third[:SPAN] * np.sin(share)
    assert np.abs(sound[at : at + SPAN] - during).max() <= 0.51
    assert np.array_equal(sound[at + SPAN : at + FRAMES * FRAME_SAMPLES], third[SPAN:])
    kinds = [(mark.kind, mark.source) for mark in bench.marks]
    assert kinds[1:4] == [(MarkKind.FADING, 1), (MarkKind.BEGIN, 3), (MarkKind.FADED, 1)]


def test_a_cut_to_a_source_that_has_nothing_yet_glides_as_any_other() -> None:
    known = sources()
    late(known, 3)
    bench = bench_with(None, known)
    bench.run(30)
    bench.plan(bench.sent, switch_to=3, cut_fade=POWER)
    bench.run()
    assert [mark.kind for mark in bench.marks] == [MarkKind.BEGIN]
    assert bench.audios[-1].source == 0


@pytest.mark.parametrize("offset", [0, 300])
def test_a_crossfade_right_behind_another_leaves_the_end_of_that_one_as_it_is(offset: int) -> None:
    first, middle, last = (noise(frames=20, peak=9_000, seed=seed) for seed in (1, 2, 3))
    bench = SessionBench({1: StoredSource(first), 2: StoredSource(middle), 3: StoredSource(last)})
    span = 10 * FRAME_SAMPLES
    bench.plan(0, switch_to=1, following=2, crossfade=CrossfadeOrder(span - offset, span, "linear"))
    bench.plan(0, after=2, following=3, crossfade=CrossfadeOrder(span, span, "linear"), base_epoch=bench.epoch)
    sound = channels(bench.run()).astype(np.float64)
    share = share_of(span)
    here, there = channels(first).astype(np.float64), channels(middle).astype(np.float64)
    at = span - offset
    expected = here[at : at + span] * (1 - share) + there[:span] * share
    assert np.abs(sound[at : at + span] - expected).max() <= 0.51


REST = CrossfadeOrder(AT, SPAN, "linear", is_late=True)


def faded_from(first: NDArray[np.float64], second: NDArray[np.float64], begins_at: int) -> NDArray[np.float64]:
    """Two sounds of which the second begins when the first is at `begins_at`: what is left of `REST` is the fade."""
    span = AT + SPAN - begins_at
    share = share_of(span)
    mixed = first[begins_at : begins_at + span] * (1 - share) + second[:span] * share
    return np.concatenate((first[:begins_at], mixed, second[span:]))


def test_a_rest_begins_a_frame_behind_a_cut_and_ends_where_the_whole_would() -> None:
    known = sources()
    begin = AT + 5 * FRAME_SAMPLES
    first = known[1].store.read(0, AT + SPAN)
    known[1] = StoredSource(first[4 * begin :], start=begin)
    bench = SessionBench(known)
    bench.plan(0, switch_to=3)
    bench.run(10)
    bench.plan(bench.sent, switch_to=1, following=2, crossfade=REST)
    bench.run()
    sound = channels(bench.pcm)[10 * FRAME_SAMPLES :].astype(np.float64)
    result = faded_from(channels(first).astype(np.float64), samples_of(known[2]), begin + FRAME_SAMPLES)[begin:]
    glide = 5 * 48  # samples of the cut, before which nothing is bit for bit
    assert np.abs(sound[glide : len(result)] - result[glide:]).max() <= 0.51
    assert [(mark.kind, mark.frame - 10, mark.source) for mark in bench.marks[1:4]] == [
        (MarkKind.BEGIN, 0, 1),
        (MarkKind.FADING, 1, 1),
        (MarkKind.BEGIN, 1, 2),
    ]


def test_a_rest_begins_when_the_next_source_is_there() -> None:
    known = sources()
    second = late(known, 2)
    bench = bench_with(REST, known)
    bench.run(30)
    begins_at = bench.end_frame * FRAME_SAMPLES
    assert AT < begins_at < AT + SPAN
    known[2].arrive(second)
    bench.run()
    sound = channels(bench.pcm).astype(np.float64)
    result = faded_from(samples_of(known[1]), samples_of(known[2]), begins_at)
    assert np.abs(sound[: len(result)] - result).max() <= 0.51


def test_a_rest_that_is_too_short_is_a_plain_join() -> None:
    known = sources()
    second = late(known, 2)
    first = known[1].store.read(0, AT + SPAN)
    known[1] = StoredSource(first)
    bench = bench_with(REST, known)
    while bench.end_frame * FRAME_SAMPLES < AT + SPAN - 4 * FRAME_SAMPLES:
        bench.render()
        bench.send(1)
    known[2].arrive(second)
    bench.run()
    assert bench.pcm.startswith(first + second[: 40 * FRAME_BYTES])
