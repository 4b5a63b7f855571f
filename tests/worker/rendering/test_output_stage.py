"""Normalization and limiter in a session: what listeners get in the end, whatever is joined, mixed and changed."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.loudness_meter import measured_by_ffmpeg
from tests.support.pcm import bend, channels, true_peak_db
from tests.support.session_bench import StoredSource, playing, render_all
from tonearm.core.filters import (
    Compressor,
    Effect,
    Effects,
    Filters,
    Limiter,
    Normalization,
    Timescale,
)
from tonearm.core.frame import FRAME_BYTES, FRAME_MS, FRAME_SAMPLES, NO_OUTPUTS
from tonearm.core.track_info import MeasuredLoudness
from tonearm.decoder.messages import GRANT_FRAMES, CrossfadeOrder, Grant, MarkKind, Measured
from tonearm.worker.filters.blocks import FULL_SCALE
from tonearm.worker.filters.normalization import SourceLoudness

SECOND = 48_000


def pcm_of(sound: NDArray[np.float64]) -> bytes:
    """A mono sound, the same in both channels."""
    return np.repeat(np.clip(np.rint(sound * FULL_SCALE), -32_768, 32_767).astype("<i2"), 2).tobytes()


def source_of(sound: NDArray[np.float64], *, lufs: float | None = None) -> StoredSource:
    source = StoredSource(pcm_of(sound))
    source.loudness.tagged_lufs = lufs
    return source


def sine(frequency_hz: float, level_db: float, seconds: float = 2.0) -> NDArray[np.float64]:
    turns = frequency_hz / SECOND * np.arange(round(seconds * SECOND))
    return np.asarray(10 ** (level_db / 20) * np.sin(2 * np.pi * turns))


def music(level_db: float, seconds: float, seed: int = 1) -> NDArray[np.float64]:
    """Noise below 4 kHz that grows and fades every second, whose highest sample is at `level_db`."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).normal(size=round(seconds * SECOND)))
    spectrum[int(4_000 * seconds) :] = 0.0
    sound = np.fft.irfft(spectrum) * (1.0 + 0.3 * np.sin(2 * np.pi * np.arange(round(seconds * SECOND)) / SECOND))
    return np.asarray(sound / np.abs(sound).max() * 10 ** (level_db / 20))


def filters(*, volume: float = 1.0, **effects: Effect | None) -> Filters:
    given: dict[str, Any] = effects
    return Filters(volume=volume, effects=Effects(**given))


LIMITED = filters(volume=4.0, limiter=Limiter(enabled=True))


def peak_db(pcm: bytes) -> float:
    return true_peak_db(channels(pcm)[:, 0] / FULL_SCALE)


# The limiter


def test_volume_alone_clips_cleanly() -> None:
    bench = playing(source_of(sine(997, -2.0)), filters=filters(volume=5.0, limiter=Limiter()))
    wanted = np.clip(channels(pcm_of(sine(997, -2.0))) * 5, -32_768, 32_767)
    assert np.array_equal(channels(bench.run()), wanted)


def test_auto_limits_what_a_compressor_makes_loud() -> None:
    loud = filters(compressor=Compressor(threshold_db=0.0, makeup_db=12.0))
    assert peak_db(playing(source_of(sine(997, -2.0)), filters=loud).run()) < -0.9


def test_what_is_decoded_in_pieces_is_limited_as_what_is_there_at_once() -> None:
    sound = music(-0.1, 3.0)
    whole = playing(source_of(sound), filters=LIMITED).run()
    source = StoredSource(is_finished=False)
    bench = playing(source, filters=LIMITED)
    for first, last in itertools.pairwise((0, 700, 1_700, 6_700, 26_800, 3 * SECOND)):
        source.store.append(pcm_of(sound[first:last]))
        bench.run()
    source.store.finish(is_interrupted=False)
    assert np.abs(channels(bench.run()) - channels(whole)).max() <= 1


@pytest.mark.parametrize("samples", [1, 100, 959, 960, 961, 10 * 960 - 100, 10 * 960, 10 * 960 + 100, 10 * 960 + 900])
def test_the_ends_of_tracks_are_where_they_are_without_it(samples: int) -> None:
    benches = []
    for limiter in (Limiter(enabled=True), Limiter()):
        sources = [source_of(sine(400, -3.0)[:samples]), source_of(sine(500, -3.0)[:samples])]
        benches.append(playing(*sources, filters=filters(limiter=limiter)))
    assert benches[0].run() == benches[1].run()
    assert benches[0].marks == benches[1].marks


def test_a_crossfade_of_loud_tracks_is_limited_and_the_rest_is_left_alone() -> None:
    sources = [source_of(sine(997, -0.5, 3.0)), source_of(sine(997, -0.5, 3.0))]
    bench = playing(*sources, filters=Filters(), crossfade=CrossfadeOrder(2 * SECOND, SECOND, "equalPower"))
    pcm = bench.run()
    assert peak_db(pcm[2 * SECOND * 4 : 3 * SECOND * 4]) < -0.4  # the tracks themselves are at -0.5
    alone = channels(pcm_of(sine(997, -0.5, 3.0)))
    assert np.array_equal(channels(pcm)[: SECOND * 2], alone[: SECOND * 2])
    assert np.array_equal(channels(pcm)[4 * SECOND :], alone[2 * SECOND :])


# Normalization

NORMALIZED = filters(normalization=Normalization(-16.0))


@pytest.mark.parametrize("level_db", [-3.0, -14.0])
def test_an_untagged_track_comes_to_the_target_as_it_is_measured(level_db: float) -> None:
    sound = music(level_db, 24.0)
    bench = playing(source_of(sound), filters=NORMALIZED)
    pcm = bench.run()
    gains_db = gains(pcm, sound)
    assert np.abs(gains_db[50:] - gains_db[:-50]).max() <= 1.01  # a decibel a second
    assert np.abs(np.diff(gains_db)).max() <= 0.03
    assert gains_db[: 3 * 50 - 20].max() <= 0.01  # never louder before three seconds are known
    loud, _ = measured_by_ffmpeg(pcm[12 * SECOND * 4 :])
    assert loud == pytest.approx(-16.0, abs=0.5)


def gains(pcm: bytes, sound: NDArray[np.float64]) -> NDArray[np.float64]:
    """The gain of each frame in dB, for a sound that the limiter left alone."""
    before = sound[: len(sound) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    after = (channels(pcm)[:, 0] / FULL_SCALE)[: before.size].reshape(-1, FRAME_SAMPLES)
    return np.asarray(20 * np.log10((before * after).sum(axis=1) / np.square(before).sum(axis=1)))


@pytest.mark.parametrize("span", [0, SECOND])
def test_a_track_has_its_own_gain_from_its_beginning_on_in_a_crossfade_too(span: int) -> None:
    length = SECOND + 1_300
    at = length - span
    sources = [source_of(sine(997, -12.0)[:length], lufs=-10.0), source_of(sine(500, -20.0)[:length], lufs=-19.0)]
    fade = CrossfadeOrder(at, span, "linear") if span else None
    bench = playing(*sources, filters=filters(normalization=Normalization(-16.0), limiter=None), crossfade=fade)
    result = channels(bench.run())[:, 0] / FULL_SCALE
    first, second = sine(997, -18.0)[:length], sine(500, -17.0)[:length]
    share = (np.arange(span) + 0.5) / max(span, 1)
    first[at:] *= 1 - share
    second[:span] *= share
    wanted = np.zeros(at + length)
    wanted[:length] = first
    wanted[at:] += second
    if not span:
        wanted[at : at + 480] = result[at : at + 480]  # it glides over 10 ms
    assert np.abs(result[: len(wanted)] - wanted).max() * FULL_SCALE < (10 if span else 2)


def test_a_measurement_counts_each_sample_once_and_serves_the_next_source_of_the_track() -> None:
    sound = music(-3.0, 12.0)
    bench = playing(source_of(sound), filters=NORMALIZED)
    reports: list[Measured] = []
    for number in range(1, 11):
        bench.run(frames=50 * number)
        bench.plan(
            bench.sent + 1, after=1, filters=filters(volume=1.0 - number / 100, normalization=Normalization(-16.0))
        )
        reports += bench.session.take_measured()
    assert [report.measured_ms for report in reports] == sorted(report.measured_ms for report in reports)
    assert reports[-1].measured_ms <= 10_000 + GRANT_FRAMES * FRAME_MS
    lufs, _ = measured_by_ffmpeg(pcm_of(sound[: 10 * SECOND]))
    assert reports[-1].lufs == pytest.approx(lufs, abs=0.5)

    again = source_of(sound)
    again.loudness = SourceLoudness(MeasuredLoudness(reports[-1].lufs, reports[-1].measured_ms))
    assert gains(playing(again, filters=NORMALIZED).run(), sound)[5] == pytest.approx(-16.0 - lufs, abs=0.5)


def test_nothing_is_measured_while_nobody_listens() -> None:
    source = source_of(music(-3.0, 12.0))
    bench = playing(source, filters=NORMALIZED)
    bench.session.grant(Grant(1, bench.sent_epoch, 0, 500, NO_OUTPUTS))
    render_all(bench.session)
    assert list(bench.session.take_measured()) == []
    assert source.loudness.first_gain_db(0.0, -16.0) == 0.0


@pytest.mark.parametrize("seed", range(12))
def test_any_changes_in_any_order_leave_a_tone_without_gaps_and_clicks(seed: int) -> None:
    random = np.random.default_rng(seed)
    # They join every 1.1 seconds, and the tone goes on from one to the next: 220 periods.
    loudness = (None, -11.0, -9.0, None, -10.0)
    tones = [source_of(sine(200, -12.0, 1.1 if number < 4 else 4.0), lufs=lufs) for number, lufs in enumerate(loudness)]
    bench = playing(*tones)
    choices: list[dict[str, Effect | None]] = [
        {"timescale": Timescale(speed=1.3)},
        {"timescale": Timescale(speed=0.7, pitch=1.1)},
        {"timescale": Timescale(rate=1.21)},
        {"normalization": Normalization(-14.0)},
        {"normalization": Normalization(-8.0), "timescale": Timescale(pitch=0.9)},
        {"limiter": Limiter(-6.0, enabled=True), "compressor": Compressor(threshold_db=0.0, makeup_db=7.0)},
        {"compressor": Compressor(makeup_db=3.0)},
        {},
    ]
    for _ in range(16):
        bench.run(frames=bench.sent + int(random.integers(1, 12)))
        changed = filters(volume=float(random.uniform(0.8, 1.0)), **choices[random.integers(len(choices))])
        begins = [mark for mark in bench.marks if mark.kind is MarkKind.BEGIN]
        joint = begins[-1].frame + int(random.integers(2))  # where two sounds meet already, a third is the most trouble
        at_frame = int(random.integers(bench.sent, bench.end_frame + 1))
        if bench.sent <= joint <= bench.end_frame and random.random() < 0.5:
            at_frame = joint
        after = [mark.source for mark in begins if mark.frame < at_frame][-1]
        bench.plan(at_frame, after=after, following=after + 1 if after < len(tones) else None, filters=changed)
    pcm = bench.run(frames=bench.sent + 20)[: bench.sent * FRAME_BYTES]
    loud = np.abs(channels(pcm)[:, 0]).reshape(-1, 480).max(axis=1)
    assert loud[2:].min() > 1_000  # half a period is in each of these
    # The tone goes up to 242 Hz, and 3 dB up to a target of -8 LUFS. Where a timescale changes, it goes over into
    # itself at another place of its waves, within 5 ms: 16 at most. Twice as much for a gain that changes, too.
    assert bend(pcm) < 2 * 16
