"""A timescale in a session: lengths, places in the file, joins, and changes while it plays."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.pcm import bend, channels
from tests.support.session_bench import MemorySource, StoredSource, frame_count, playing
from tonearm.core.filters import Effects, Filters, Timescale
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.decoder.messages import CrossfadeOrder, Mark, MarkKind

SECOND = 48_000
PEAK = 8_000


def tone(samples: int, *, start: int = 0) -> bytes:
    """A tone of 400 Hz in both channels, from a sample of it on."""
    turns = 400 / SECOND * np.arange(start, start + samples)
    return np.repeat(np.rint(PEAK * np.sin(2 * np.pi * turns)).astype("<i2"), 2).tobytes()


def at(**setting: float) -> Filters:
    return Filters(effects=Effects(timescale=Timescale(**setting)))


def levels(pcm: bytes) -> NDArray[np.float64]:
    """Of each frame, as a part of the tone's own."""
    return np.asarray(np.abs(channels(pcm)[:, 0]).reshape(-1, FRAME_SAMPLES).max(axis=1) / PEAK)


STEADY_BEND = bend(tone(SECOND))


@pytest.mark.parametrize("setting", [{"speed": 0.5}, {"speed": 2.0, "pitch": 0.8, "rate": 1.1}])
def test_a_track_has_its_length_and_places_and_waits_for_what_is_not_decoded(setting: dict[str, float]) -> None:
    filters = at(**setting)
    rate = filters.effects.position_rate
    source = StoredSource(tone(SECOND), is_finished=False)
    bench = playing(source, filters=filters)
    bench.run()
    assert 0 < bench.end_frame < frame_count(int(SECOND / rate))
    assert bench.session.used_up_to(1) == pytest.approx(bench.end_frame * FRAME_SAMPLES * rate, abs=1)
    assert bench.session.is_current(1)
    source.arrive(tone(2 * SECOND, start=SECOND))
    heard = bench.run()
    frames = frame_count(int(np.ceil(3 * SECOND / rate)))
    assert bench.end_frame == frames
    assert bench.marks == [Mark(MarkKind.BEGIN, 0, 1), Mark(MarkKind.END, frames, 1)]
    assert bend(heard[: -2 * FRAME_SAMPLES * 4]) < STEADY_BEND * 2.5
    for audio in bench.audios:
        if audio.frames:
            assert (audio.source, audio.position_rate) == (1, rate)
            assert audio.position_samples == pytest.approx(audio.first_frame * FRAME_SAMPLES * rate, abs=1)


@pytest.mark.parametrize("setting", [{"speed": 1.37}, {"speed": 0.8, "pitch": 1.3}, {"rate": 1.21}])
def test_a_sound_that_goes_on_in_the_next_file_goes_on_without_a_gap(setting: dict[str, float]) -> None:
    length = SECOND + 77
    parts = tone(length), tone(2 * SECOND, start=length), tone(SECOND)
    bench = playing(*map(StoredSource, parts), filters=at(**setting))
    pcm = bench.run()
    rate = bench.filters.effects.position_rate
    frame, offset = divmod(round(length / rate), FRAME_SAMPLES)
    assert bench.marks[:2] == [Mark(MarkKind.BEGIN, 0, 1), Mark(MarkKind.END, frame, 1)]
    assert bench.marks[2].offset_samples == pytest.approx(offset, abs=1)
    assert bench.end_frame == frame_count(int(np.ceil((3 * SECOND + 77) / rate)) + 1)
    assert bend(pcm[: -2 * FRAME_SAMPLES * 4]) < STEADY_BEND * 3
    assert levels(pcm)[:-2].min() > 0.9


@pytest.mark.parametrize("settings", [({}, {"speed": 1.5}), ({"pitch": 1.3}, {"speed": 0.7}), ({"rate": 1.2}, {})])
def test_a_change_goes_on_at_the_same_place_of_the_file(settings: tuple[dict[str, float], dict[str, float]]) -> None:
    before, after = (at(**setting) for setting in settings)
    bench = playing(StoredSource(tone(10 * SECOND)), filters=before)
    bench.run(frames=40)
    bench.plan(42, after=1, filters=after)  # 20 frames are rendered ahead
    bench.run(frames=100)
    change = next(audio for audio in bench.audios if audio.epoch == bench.epoch)
    assert (change.first_frame, change.position_rate) == (42, after.effects.position_rate)
    place = 42 * FRAME_SAMPLES * before.effects.position_rate
    assert change.position_samples == pytest.approx(place, abs=1)
    last = bench.audios[-1]
    place += (last.first_frame - 42) * FRAME_SAMPLES * after.effects.position_rate
    assert last.position_samples == pytest.approx(place, abs=2)
    assert bend(bench.pcm) < STEADY_BEND * 3


def test_neutral_again_is_bit_for_bit_again() -> None:
    bench = playing(MemorySource(1, 10 * SECOND, ends=True), filters=at(speed=1.5))
    bench.run(frames=40)
    bench.plan(bench.end_frame, after=1, filters=Filters())
    start, end_frame = bench.session.used_up_to(1), bench.end_frame
    bench.run(frames=240)
    wanted = bench.sources[1].pcm(start, 20 * FRAME_SAMPLES)[FRAME_SAMPLES * 4 :]
    heard = bench.pcm[(end_frame + 1) * FRAME_SAMPLES * 4 : (end_frame + 20) * FRAME_SAMPLES * 4]
    assert heard == wanted


def test_a_skip_to_the_middle_of_a_file() -> None:
    second = StoredSource(tone(SECOND), start=3 * SECOND)
    bench = playing(StoredSource(tone(5 * SECOND)), second, filters=at(speed=1.5))
    bench.run(frames=20)
    bench.play(2)
    bench.run()
    first = next(audio for audio in bench.audios if audio.source == 2)
    assert next(mark.frame for mark in bench.marks if mark.source == 2) == first.first_frame
    assert first.position_samples == 3 * SECOND
    assert bench.end_frame - first.first_frame == frame_count(SECOND * 2 // 3)
    assert bend(bench.pcm[: -2 * FRAME_SAMPLES * 4]) < STEADY_BEND * 4


@pytest.mark.parametrize(("speed_before", "speed"), [(2.0, 2.0), (1.0, 2.0), (0.5, 1.5)])
def test_a_crossfade_has_its_length_in_time_heard_though_the_timescale_changes(
    speed_before: float, speed: float
) -> None:
    silence, fade = StoredSource(bytes(4 * 2 * SECOND)), CrossfadeOrder(SECOND, SECOND, "linear")
    bench = playing(silence, StoredSource(tone(4 * SECOND)), filters=at(speed=speed_before), crossfade=fade)
    begins_at = round(50 / speed_before)
    bench.run(frames=begins_at + 25)
    bench.plan(bench.sent, after=2, filters=at(speed=speed))
    heard = levels(bench.run())
    others = np.delete(np.arange(50), 25)  # where the sound goes over to the other pace
    share = (np.arange(50) + 1) / 50
    assert np.abs(heard[begins_at : begins_at + 50] - share)[others].max() < 0.08
    assert heard[begins_at + 50 : begins_at + 60].min() > 0.9
    assert [(mark.kind, mark.frame, mark.source) for mark in bench.marks[1:4]] == [
        (MarkKind.FADING, begins_at, 1),
        (MarkKind.BEGIN, begins_at, 2),
        (MarkKind.FADED, begins_at + 50, 1),
    ]
