"""Two sources under one another: levels, marks, what happens when one is late, and cuts."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.pcm import channels, noise, sounds_the_same
from tests.support.session_bench import RISE, SessionBench, StoredSource, playing
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.decoder.messages import CrossfadeOrder, Mark, MarkKind

FRAMES = 100  # two seconds
AT = 40 * FRAME_SAMPLES + 300
SPAN = 20 * FRAME_SAMPLES + 100
POWER = CrossfadeOrder(AT, SPAN, "equalPower")
LINEAR = CrossfadeOrder(AT, SPAN, "linear")
REST = CrossfadeOrder(AT, SPAN, "linear", is_late=True)
SOUNDS = [noise(frames=FRAMES, peak=9_000, seed=seed) for seed in (1, 2, 3)]
FIRST, SECOND, THIRD = (channels(pcm).astype(np.float64) for pcm in SOUNDS)


def bench_with(crossfade: CrossfadeOrder | None) -> SessionBench:
    return playing(*map(StoredSource, SOUNDS), crossfade=crossfade)


def faded(curve: str, at: int, second: NDArray[np.float64] = SECOND) -> NDArray[np.float64]:
    """The first sound with the second one from `at` on: the fade lasts to where the whole one would end."""
    span = AT + SPAN - at
    share = np.asarray(((np.arange(span) + 0.5) / span)[:, np.newaxis])
    out, into = (1 - share, share) if curve == "linear" else (np.cos(np.pi / 2 * share), np.sin(np.pi / 2 * share))
    mixed = FIRST[at : at + span] * out + second[:span] * into
    return np.concatenate((FIRST[:at], mixed, second[span:]))


@pytest.mark.parametrize("crossfade", [POWER, LINEAR], ids=["equal power", "linear"])
def test_the_old_source_goes_out_as_the_new_one_comes_in(crossfade: CrossfadeOrder) -> None:
    bench = bench_with(crossfade)
    sound = channels(bench.run())
    result = faded(crossfade.curve, AT)
    assert np.abs(sound[: len(result)] - result).max() <= 0.51
    assert not sound[len(result) :].any()
    assert bench.marks == [
        Mark(MarkKind.BEGIN, 0, 1),
        Mark(MarkKind.FADING, 40, 1),
        Mark(MarkKind.BEGIN, 40, 2, 300),
        Mark(MarkKind.FADED, (AT + SPAN) // FRAME_SAMPLES + 1, 1),
        Mark(MarkKind.END, -(-(AT + FRAMES * FRAME_SAMPLES) // FRAME_SAMPLES), 2),
    ]
    for audio in bench.audios:  # positions are those of the new source from its beginning on
        if audio.frames and audio.first_frame > 40:
            assert (audio.source, audio.position_samples) == (2, audio.first_frame * FRAME_SAMPLES - AT)


@pytest.mark.parametrize(
    ("crossfade", "sent_before", "fades"), [(POWER, 60, False), (REST, 30, True), (REST, 37, False)]
)
def test_a_next_source_that_is_late_fades_as_long_as_is_left_or_joins_at_the_end(
    crossfade: CrossfadeOrder, sent_before: int, fades: bool
) -> None:
    first, second = SOUNDS[0][: 4 * (AT + SPAN)], StoredSource(b"", is_finished=False)
    bench = playing(StoredSource(first), second, crossfade=crossfade)
    bench.run(sent_before)
    at = bench.end_frame * FRAME_SAMPLES
    second.arrive(SOUNDS[1])
    sound = channels(bench.run())
    result = faded("linear", at) if fades else channels(first + SOUNDS[1])
    assert np.abs(sound[: len(result)] - result).max() <= 0.51
    assert [mark.kind for mark in bench.marks[1:3]] == [MarkKind.FADING if fades else MarkKind.END, MarkKind.BEGIN]


def test_an_old_source_is_waited_for_and_that_ends_early_only_ends() -> None:
    decoded, end = AT + 3 * FRAME_SAMPLES, AT + 4 * FRAME_SAMPLES
    old = StoredSource(SOUNDS[0][: 4 * decoded], is_finished=False)
    bench = playing(old, StoredSource(SOUNDS[1]), crossfade=POWER)
    bench.run()
    assert bench.end_frame == 43
    old.arrive(SOUNDS[0][4 * decoded : 4 * end])
    sound = channels(bench.run())
    assert sounds_the_same(bench.pcm[: 4 * end], bench_with(POWER).run()[: 4 * end])
    share = (np.arange(end - AT, SPAN) + 0.5) / SPAN
    rest = SECOND[end - AT : SPAN] * np.sin(np.pi / 2 * share)[:, np.newaxis]
    assert np.abs(sound[end : AT + SPAN] - rest).max() <= 0.51
    assert Mark(MarkKind.FADED, (AT + SPAN) // FRAME_SAMPLES + 1, 1) in bench.marks


def test_a_cut_in_the_middle_ends_both_voices_within_5_ms() -> None:
    bench = bench_with(POWER)
    bench.run(48)
    bench.plan(48, switch_to=3)
    sound = bench.run()
    joint = channels(sound)[48 * FRAME_SAMPLES : 49 * FRAME_SAMPLES].astype(np.float64)
    undisturbed = faded("equalPower", AT)[48 * FRAME_SAMPLES :][:240]
    # Both voices go on as they were at the cut, but for the ramp of the crossfade, which stands still then.
    assert np.abs(joint[:240] - THIRD[:240] - undisturbed * (1 - RISE)).max() < 400
    assert np.abs(joint[240:] - THIRD[240:FRAME_SAMPLES]).max() <= 0.51
    assert sound[49 * FRAME_BYTES :].startswith(SOUNDS[2][FRAME_BYTES : 10 * FRAME_BYTES])


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_cut_can_fade_over_to_a_source_that_is_ready(is_ready: bool) -> None:
    bench = bench_with(None)
    if not is_ready:
        bench.sources[3] = StoredSource(b"", is_finished=False)
    bench.run(40)
    bench.plan(bench.sent, switch_to=3, cut_fade=CrossfadeOrder(0, AT + SPAN - 40 * FRAME_SAMPLES, "equalPower"))
    sound = channels(bench.run())
    kinds = [(mark.kind, mark.source) for mark in bench.marks[1:4]]
    if is_ready:
        result = faded("equalPower", 40 * FRAME_SAMPLES, THIRD)
        assert np.abs(sound[: len(result)] - result).max() <= 0.51
        assert kinds == [(MarkKind.FADING, 1), (MarkKind.BEGIN, 3), (MarkKind.FADED, 1)]
    else:
        assert (bench.end_frame, bench.audios[-1].source, kinds) == (41, 0, [])


def test_a_crossfade_right_behind_another_leaves_the_end_of_that_one_as_it_is() -> None:
    bench = bench_with(LINEAR)
    behind = CrossfadeOrder(SPAN, SPAN, "linear")
    bench.plan(0, after=2, following=3, crossfade=behind, base_epoch=bench.epoch)
    sound = channels(bench.run())
    assert np.abs(sound[: AT + SPAN] - faded("linear", AT)[: AT + SPAN]).max() <= 0.51


def test_a_rest_begins_a_frame_behind_a_cut_and_ends_where_the_whole_would() -> None:
    begin = AT + 5 * FRAME_SAMPLES
    bench = playing(StoredSource(SOUNDS[0][4 * begin :], start=begin), *map(StoredSource, SOUNDS[1:]))
    bench.play(3)
    bench.run(10)
    bench.plan(bench.sent, switch_to=1, following=2, crossfade=REST)
    sound = channels(bench.run())[10 * FRAME_SAMPLES :]
    result = faded("linear", begin + FRAME_SAMPLES)[begin:]
    glide = 5 * 48  # samples of the cut, before which nothing is bit for bit
    assert np.abs(sound[glide : len(result)] - result[glide:]).max() <= 0.51
    assert [(mark.kind, mark.frame - 10, mark.source) for mark in bench.marks[1:4]] == [
        (MarkKind.BEGIN, 0, 1),
        (MarkKind.FADING, 1, 1),
        (MarkKind.BEGIN, 1, 2),
    ]
