"""Overlays over a session's music: sample for sample, over cuts, fades, pauses and what is missing."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.pcm import channels, noise, tone
from tests.support.session_bench import RISE, SessionBench, StoredSource
from tonearm.core.filters import Effects, Filters, Limiter
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.decoder.messages import FIRST_OVERLAY_SOURCE, CrossfadeOrder, OverlayOrder

FIRST = FIRST_OVERLAY_SOURCE
PLAIN = Filters(effects=Effects(limiter=Limiter(enabled=False)))


MUSIC = noise(frames=100, peak=9_000, seed=1)
OTHER = noise(frames=100, peak=9_000, seed=2)
CLIP = tone(440.0, frames=21, peak=6_000)[: 4 * (20 * FRAME_SAMPLES + 333)]


def bench_with(*overlays: bytes, filters: Filters = PLAIN, music: bool = True) -> SessionBench:
    sources = {1: StoredSource(MUSIC), 2: StoredSource(OTHER)}
    sources |= {FIRST + number: StoredSource(pcm) for number, pcm in enumerate(overlays)}
    bench = SessionBench(sources, filters)
    if music:
        bench.plan(0, switch_to=1, following=2)
    return bench


def begun(*overlays: bytes, order: OverlayOrder | None = None, **more: Any) -> SessionBench:
    """Music in which an overlay, the first one, begins with this frame."""
    bench = bench_with(*overlays, **more)
    begin(bench, order or overlay())
    return bench


def overlay(number: int = 0, *, volume: float = 1.0, duck_db: float = 0.0, fade: int = 0, **rest: int) -> OverlayOrder:
    return OverlayOrder(FIRST + number, volume, duck_db, fade, **rest)  # type: ignore[arg-type]


def begin(bench: SessionBench, *overlays: OverlayOrder, pauses: bool = False) -> None:
    """From the next frame that would be sent on, exactly these sound."""
    bench.overlays, bench.pauses = overlays, pauses
    begins = not bench.sent and bench.epoch > 1  # a cut that did not arrive yet belongs to every plan after it
    bench.plan(bench.sent, switch_to=1 if begins else None, after=1, following=2)


def sound(pcm: bytes) -> NDArray[np.float64]:
    return channels(pcm).astype(np.float64)


def under(music: bytes, frame: int) -> NDArray[np.float64]:
    """Music with the clip in it from this frame on."""
    mixed = sound(music)
    rest = mixed[frame * FRAME_SAMPLES :]
    rest[: len(sound(CLIP))] += sound(CLIP)[: len(rest)]
    return mixed


def heard_as(bench: SessionBench, expected: NDArray[np.float64]) -> None:
    heard = sound(bench.pcm)
    assert len(heard) >= len(expected)
    assert np.abs(heard[: len(expected)] - expected).max() <= 0.51


def test_it_sounds_over_the_music_from_its_first_sample_to_its_last_and_where_it_is_is_reported() -> None:
    bench = bench_with(CLIP)
    failed = bench.sources[FIRST + 1] = StoredSource(is_finished=False)
    failed.has_failed = True  # so nobody waits for it
    bench.run(12)
    begin(bench, overlay(), overlay(1))
    bench.run()
    heard_as(bench, under(MUSIC + OTHER, 12))
    reported = [audio for audio in bench.audios if audio.overlays]
    assert reported[0].first_frame == 12
    for audio in reported:
        (at,) = audio.overlays
        assert (at.source, at.moves) == (FIRST, True)
        assert at.sample == (audio.first_frame - 12) * FRAME_SAMPLES
        assert at.ends == (audio.first_frame + audio.frames == 12 + 21)
    assert bench.audios[-1].overlays == ()


def test_the_volume_is_its_own_and_loud_music_glides_down_and_back_meanwhile_and_clips_where_it_is_too_loud() -> None:
    loud = noise(frames=100, peak=32_767, seed=3)
    bench = bench_with(CLIP, filters=Filters(volume=1.2, effects=PLAIN.effects))
    bench.sources[1] = StoredSource(loud)
    bench.run(10)
    begin(bench, overlay(volume=0.25, duck_db=-12.0, fade=4_800))
    bench.run()
    gains = np.full(len(sound(loud)), 1.2)
    at, end = 10 * FRAME_SAMPLES, 31 * FRAME_SAMPLES
    slope = 10 ** (-12 * np.arange(4_800) / 4_800 / 20)
    gains[at : at + 4_800] *= slope
    gains[at + 4_800 : end] *= 10 ** (-12 / 20)
    gains[end : end + 4_800] *= 10 ** (-12 / 20) / slope
    expected = sound(loud) * gains[:, np.newaxis]
    expected[at : at + len(sound(CLIP))] += sound(CLIP) / 4
    heard_as(bench, expected.clip(-32_768, 32_767))


def test_it_sounds_alone_where_no_music_is_planned_and_music_that_comes_then_is_not_lowered() -> None:
    bench = begun(CLIP, music=False, order=overlay(duck_db=-20.0, fade=9_600))
    bench.run()
    assert len(bench.frames) == 21  # then nothing is sent, as long as it may be
    assert all(audio.position_rate == 0 for audio in bench.audios)
    begin(bench)
    bench.play(1, following=2)
    bench.run(80)
    heard_as(bench, np.concatenate([sound(CLIP + bytes(-len(CLIP) % (4 * FRAME_SAMPLES))), sound(MUSIC)[: 59 * 960]]))


def test_music_that_ends_while_it_comes_back_leaves_nothing_of_that_to_the_next_track() -> None:
    bench = bench_with(CLIP, music=False)
    bench.plan(0, switch_to=1)
    bench.run(76)
    bench.overlays = (overlay(duck_db=-20.0, fade=9_600),)
    bench.plan(bench.sent, after=1)
    bench.run()
    assert len(bench.frames) == 100  # the overlay was over with frame 97, ten frames before the music were back
    bench.overlays = ()
    bench.play(2)
    bench.run(150)
    assert bench.pcm[100 * 3_840 : 150 * 3_840] == OTHER[: 50 * 3_840]


def test_the_deepest_of_several_says_how_low_the_music_is() -> None:
    bench = bench_with(bytes(len(CLIP)), bytes(2 * len(CLIP)))
    begin(bench, overlay(duck_db=-20.0), overlay(1, duck_db=-6.0))
    bench.run()
    heard, music = sound(bench.pcm), sound(MUSIC)
    for first, last, db in ((1, 20, -20.0), (22, 41, -6.0), (44, 90, 0.0)):
        part = slice(first * FRAME_SAMPLES, last * FRAME_SAMPLES)
        assert np.abs(heard[part] - music[part] * 10 ** (db / 20)).max() <= 0.51


@pytest.mark.parametrize(("at_frame", "cut_at"), [(5, 8), (5, 25), (90, None)])
def test_a_cut_and_the_end_of_the_music_leave_it_as_it_is(at_frame: int, cut_at: int | None) -> None:
    bench = bench_with(CLIP)
    bench.plan(0, switch_to=1)
    bench.run(at_frame)
    bench.overlays = (overlay(),)
    bench.plan(at_frame, after=1)
    if cut_at is not None:
        bench.run(cut_at)
        bench.plan(cut_at, switch_to=2)
    bench.run()
    cut = FRAME_SAMPLES * (cut_at or 100)
    expected = under(MUSIC[: 4 * cut] + (OTHER if cut_at else bytes(11 * 4 * FRAME_SAMPLES)), at_frame)
    heard = sound(bench.pcm)
    assert len(heard) == len(expected)
    assert np.abs(heard[:cut] - expected[:cut]).max() <= 0.51
    assert np.abs(heard[cut + 240 :] - expected[cut + 240 :]).max() <= 0.51


@pytest.mark.parametrize(("duck_db", "fades"), [(0.0, False), (-20.0, False), (0.0, True)])
def test_held_music_stands_still_and_goes_on_where_it_stood_not_lowered_any_more(duck_db: float, fades: bool) -> None:
    plain, bench = (bench_with(CLIP) for _ in range(2))
    for each in (plain, bench):
        crossfade = CrossfadeOrder(5 * FRAME_SAMPLES, 20 * FRAME_SAMPLES, "linear") if fades else None
        each.plan(0, switch_to=1, following=2, crossfade=crossfade)
    music = sound(plain.run())
    bench.run(10)
    begin(bench, overlay(duck_db=duck_db, fade=9_600), pauses=True)
    bench.run()
    assert len(bench.frames) == 31  # nothing more than the overlay
    alone = [audio for audio in bench.audios if audio.position_rate == 0]
    assert sum(audio.frames for audio in alone) == 21
    place = (2, 5 * FRAME_SAMPLES) if fades else (1, 10 * FRAME_SAMPLES)
    assert {(audio.source, audio.position_samples) for audio in alone} == {place}
    begin(bench)
    bench.run()
    heard, clip = sound(bench.pcm), sound(CLIP)
    at, end = 10 * FRAME_SAMPLES, 31 * FRAME_SAMPLES
    assert np.array_equal(heard[:at], music[:at])
    assert np.abs(heard[at + 240 : at + len(clip)] - clip[240:]).max() <= 0.51
    tail = heard[at : at + 240] - clip[:240] - music[at : at + 240] * (1 - RISE)
    assert np.abs(tail).max() <= (1.01 if not duck_db else 500)  # it begins to be lowered
    assert np.abs(heard[end : end + 240] - music[at : at + 240] * RISE).max() <= 1.01
    assert np.array_equal(heard[end + 240 : end + 25_000], music[at + 240 : at + 25_000])


def test_one_that_is_stopped_fades_out_within_5_ms() -> None:
    bench = begun(CLIP)
    bench.run(8)
    begin(bench)
    bench.run()
    at = 8 * FRAME_SAMPLES
    expected = sound(MUSIC)
    expected[:at] += sound(CLIP)[:at]
    expected[at : at + 240] += sound(CLIP)[at : at + 240] * (1 - RISE)
    heard_as(bench, expected)


@pytest.mark.parametrize("is_interrupted", [False, True], ids=["cut", "interrupted"])
def test_one_that_is_cut_fades_in_and_out(is_interrupted: bool) -> None:
    bench = bench_with(music=False)
    pcm = tone(440.0, frames=5, peak=6_000)
    bench.sources[FIRST] = StoredSource(pcm, start=777, is_interrupted=is_interrupted)
    begin(bench, overlay(**({} if is_interrupted else {"end_sample": 777 + 4_800})))
    bench.run()
    expected = sound(pcm)
    expected[:240] *= RISE
    expected[-240:] *= RISE[::-1]
    heard_as(bench, expected)


def test_one_without_samples_in_time_stands_still_and_the_music_goes_on() -> None:
    bench = bench_with()
    late = StoredSource(CLIP[: 4 * (5 * FRAME_SAMPLES + 500)], is_finished=False)
    bench.sources[FIRST] = late
    begin(bench, overlay())
    bench.run()
    assert bench.end_frame == 5  # it is waited for as long as there is time
    bench.due_before = 12
    bench.grant()
    bench.run()
    assert bench.end_frame == 12
    late.arrive(CLIP[4 * (5 * FRAME_SAMPLES + 500) :])
    bench.run()
    clip, at = sound(CLIP), 5 * FRAME_SAMPLES
    expected = sound(MUSIC)
    expected[:at] += clip[:at]
    expected[at : at + 240] += clip[at : at + 240] * (1 - RISE)
    rest = clip[at:].copy()
    rest[:240] *= RISE
    expected[12 * FRAME_SAMPLES :][: len(rest)] += rest
    heard_as(bench, expected)


def test_it_goes_on_without_music_that_is_late_and_that_comes_in_with_200_ms() -> None:
    bench = bench_with(CLIP)
    bench.sources[3] = StoredSource(b"", is_finished=False)
    begin(bench, overlay())
    bench.run(5)
    bench.plan(5, switch_to=3)
    bench.render()
    assert bench.end_frame == 6  # the end of the music before
    bench.due_before = 8
    bench.grant()
    bench.run()
    assert bench.end_frame == 8
    store = bench.sources[3].store
    store.append(OTHER[: 4 * 9_000])
    bench.due_before = 10
    bench.grant()
    bench.run()
    assert bench.end_frame == 10
    store.append(OTHER[4 * 9_000 :])
    bench.run()
    assert [mark.frame for mark in bench.marks if mark.source == 3] == [10]
    expected = under(bytes(10 * 3_840) + OTHER, 0)
    heard = sound(bench.pcm)
    at = 5 * FRAME_SAMPLES + 240
    assert np.abs(heard[at : len(expected)] - expected[at : len(heard)]).max() <= 0.51


@pytest.mark.parametrize("is_limited", [True, False])
def test_eight_at_once_stay_below_the_ceiling_and_without_limiter_clip_and_do_not_wrap(is_limited: bool) -> None:
    loud = tone(300.0, frames=50, peak=32_000)
    bench = bench_with(*[loud] * 8, music=False, filters=Filters() if is_limited else PLAIN)
    begin(bench, *(overlay(number) for number in range(8)))
    bench.run()
    heard = sound(bench.pcm)
    if is_limited:
        assert np.abs(heard).max() <= 32_768 * 10 ** (-1 / 20) * 1.001
        assert np.abs(heard[5 * FRAME_SAMPLES : 30 * FRAME_SAMPLES]).max() > 28_000
    else:
        assert np.array_equal(heard, np.clip(8 * sound(loud), -32_768, 32_767))


def test_one_that_has_begun_goes_on_in_another_session() -> None:
    before = bench_with(CLIP)
    begin(before, overlay(duck_db=-12.0, fade=960))
    before.run(10)
    sources = {1: StoredSource(MUSIC[10 * 3_840 :], start=9_600)}
    sources[FIRST] = StoredSource(CLIP[10 * 3_840 :], start=9_600)
    after = SessionBench(sources, PLAIN, first_frame=10)
    after.overlays = (overlay(duck_db=-12.0, fade=960, has_begun=True),)
    after.plan(10, switch_to=1)
    before.run()
    after.run(20)
    assert after.pcm[: 20 * 3_840] == before.pcm[10 * 3_840 : 30 * 3_840]
