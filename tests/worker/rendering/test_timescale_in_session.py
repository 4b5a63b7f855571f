"""A timescale in a session: lengths, places in the file, joins, and changes while it plays."""

import numpy as np
import pytest

from tests.support.pcm import bend, channels
from tests.support.session_bench import MemorySource, StoredSource, frame_count, playing
from tonearm.core.filters import Effects, Filters, Timescale
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.decoder.messages import CrossfadeOrder, Mark, MarkKind

SECOND = 48_000
PEAK = 8_000


class ToneSource(MemorySource):
    """A tone in both channels."""

    def __init__(self, samples: int, frequency_hz: float = 400.0, *, start_sample: int = 0, ends: bool = True) -> None:
        self._frequency_hz = frequency_hz
        super().__init__(1, samples, start_sample=start_sample, ends=ends)

    def pcm(self, start: int, samples: int) -> bytes:
        turns = self._frequency_hz / SECOND * np.arange(start, start + samples)
        return np.repeat(np.rint(PEAK * np.sin(2 * np.pi * turns)).astype("<i2"), 2).tobytes()


def at(**setting: float) -> Filters:
    return Filters(effects=Effects(timescale=Timescale(**setting)))


def frequency_of(pcm: bytes) -> float:
    left = channels(pcm)[:, 0].astype(float)
    spectrum = np.abs(np.fft.rfft(left * np.hanning(len(left)), 8 * len(left)))
    return float(np.argmax(spectrum) * SECOND / (8 * len(left)))


STEADY_BEND = bend(ToneSource(0).pcm(0, SECOND))


@pytest.mark.parametrize(
    ("setting", "frequency_hz"),
    [
        ({"speed": 1.5}, 400.0),
        ({"speed": 0.5}, 400.0),
        ({"pitch": 1.5}, 600.0),
        ({"rate": 1.25}, 500.0),
        ({"speed": 2.0, "pitch": 0.8, "rate": 1.1}, 352.0),
    ],
)
def test_length_pitch_and_places_are_as_the_setting_says(setting: dict[str, float], frequency_hz: float) -> None:
    filters = at(**setting)
    rate = filters.effects.position_rate
    bench = playing(ToneSource(3 * SECOND), filters=filters)
    heard = bench.run()
    frames = frame_count(int(np.ceil(3 * SECOND / rate)))
    assert bench.end_frame == frames
    assert bench.marks == [Mark(MarkKind.BEGIN, 0, 1), Mark(MarkKind.END, frames, 1)]
    assert frequency_of(heard[SECOND:-SECOND]) == pytest.approx(frequency_hz, rel=0.003)
    assert bend(heard[: -2 * FRAME_SAMPLES * 4]) < STEADY_BEND * max(1.0, (frequency_hz / 400) ** 2) * 2.5
    for audio in bench.audios:
        if audio.frames:
            assert (audio.source, audio.position_rate) == (1, rate)
            assert audio.position_samples == pytest.approx(audio.first_frame * FRAME_SAMPLES * rate, abs=1)


def test_samples_are_released_and_decoding_is_asked_for_by_the_file() -> None:
    bench = playing(ToneSource(10 * SECOND), filters=at(speed=2.0))
    bench.run(frames=200)
    assert bench.session.used_up_to(1) == pytest.approx(bench.end_frame * FRAME_SAMPLES * 2, abs=1)
    assert bench.session.is_current(1)
    assert bench.session.uses(1)


def test_what_is_not_decoded_yet_is_waited_for() -> None:
    source = ToneSource(SECOND // 2, ends=False)
    bench = playing(source, filters=at(speed=1.5))
    bench.run()
    before = bench.end_frame
    assert 0 < before < frame_count(SECOND // 3)
    source.append(SECOND // 2)
    source.store.finish(is_interrupted=False)
    assert bend(bench.run()[: (SECOND * 2 // 3 - 480) * 4]) < STEADY_BEND * 1.5
    assert bench.end_frame == frame_count(SECOND * 2 // 3)


def test_tracks_join_without_a_gap() -> None:
    bench = playing(ToneSource(SECOND), ToneSource(SECOND, 500.0), filters=at(speed=1.25))
    heard = channels(bench.run())[:, 0]
    length = SECOND * 4 // 5
    frame, offset = divmod(length, FRAME_SAMPLES)
    assert bench.marks[:3] == [
        Mark(MarkKind.BEGIN, 0, 1),
        Mark(MarkKind.END, frame, 1),
        Mark(MarkKind.BEGIN, frame, 2, offset),
    ]
    loud = np.abs(heard[: 2 * length]).reshape(-1, 240).max(axis=1)
    assert loud.min() > PEAK * 0.9
    assert not heard[2 * length :].any()


@pytest.mark.parametrize(
    "settings", [({}, {"speed": 1.5}), ({"pitch": 1.3}, {"speed": 0.7}), ({"speed": 2.0}, {}), ({"rate": 1.2}, {})]
)
def test_a_change_goes_on_at_the_same_place_of_the_file(settings: tuple[dict[str, float], dict[str, float]]) -> None:
    before, after = (at(**setting) for setting in settings)
    bench = playing(ToneSource(10 * SECOND), filters=before)
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


@pytest.mark.parametrize("setting", [{"speed": 1.37}, {"speed": 0.8, "pitch": 1.3}, {"rate": 1.21}, {"pitch": 0.8}])
def test_a_sound_that_goes_on_in_the_next_file_goes_on_at_a_timescale(setting: dict[str, float]) -> None:
    sources = [ToneSource(SECOND + 77), ToneSource(2 * SECOND, start_sample=SECOND + 77), ToneSource(SECOND)]
    sources[1].store.start = sources[1].store.oldest  # numbered on only for its phase
    bench = playing(*sources, filters=at(**setting))
    pcm = bench.run()
    rate = bench.filters.effects.position_rate
    assert bench.end_frame == frame_count(int(np.ceil((3 * SECOND + 77) / rate)) + 1)
    assert bend(pcm[: -2 * FRAME_SAMPLES * 4]) < STEADY_BEND * 3


@pytest.mark.parametrize("frame", [44, 45, 47])
def test_files_join_behind_a_timescale_that_was_set_again_from_an_earlier_frame_on(frame: int) -> None:
    # The first setting reaches behind the joint, and what the second one plays before it lies elsewhere in its waves.
    sources = [ToneSource(SECOND), ToneSource(2 * SECOND)]
    bench = playing(*sources)
    bench.run(frames=40)
    bench.plan(48, after=1, following=2, filters=at(pitch=0.9))
    bench.render()
    bench.plan(frame, after=1, following=2, filters=Filters(volume=0.9, effects=at(pitch=0.9).effects))
    pcm = bench.run(frames=80)
    assert [mark.frame for mark in bench.marks] == [0, 50, 50]
    assert bend(pcm) < STEADY_BEND * 3


@pytest.mark.parametrize("rest", [0, 1, 100, 239])
@pytest.mark.parametrize("settings", [({}, {"speed": 1.5}), ({"pitch": 1.3}, {"speed": 0.7}), ({"rate": 1.25}, {})])
def test_a_change_where_files_join_is_smooth(settings: tuple[dict[str, float], dict[str, float]], rest: int) -> None:
    before, after = (at(**setting) for setting in settings)
    length = round((42 * FRAME_SAMPLES + rest) * before.effects.position_rate)
    sources = [ToneSource(length), ToneSource(4 * SECOND, start_sample=length)]
    sources[1].store.start = sources[1].store.oldest  # numbered on only for its phase
    bench = playing(*sources, filters=before)
    bench.run(frames=40)
    bench.plan(42, after=1, following=2, filters=after)
    pcm = bench.run(frames=80)
    assert [(mark.kind, mark.source, mark.frame) for mark in bench.marks[1:3]] == [
        (MarkKind.END, 1, 42),
        (MarkKind.BEGIN, 2, 42),
    ]
    assert bend(pcm) < STEADY_BEND * 3


def test_a_change_that_is_taken_back_goes_on_from_an_earlier_frame() -> None:
    bench = playing(MemorySource(1, 10 * SECOND, ends=True))
    bench.run(frames=40)
    epoch = bench.sent_epoch
    bench.plan(50, after=1, filters=at(speed=2.0))
    bench.plan(44, after=1, filters=Filters(), base_epoch=epoch)
    assert bench.run(frames=100) == bench.sources[1].pcm(0, bench.end_frame * FRAME_SAMPLES)


def test_neutral_again_is_bit_for_bit_again() -> None:
    bench = playing(MemorySource(1, 10 * SECOND, ends=True), filters=at(speed=1.5))
    bench.run(frames=40)
    bench.plan(bench.end_frame, after=1, filters=Filters())
    start, end_frame = bench.session.used_up_to(1), bench.end_frame
    bench.run(frames=240)
    wanted = bench.sources[1].pcm(start, 20 * FRAME_SAMPLES)[FRAME_SAMPLES * 4 :]
    heard = bench.pcm[(end_frame + 1) * FRAME_SAMPLES * 4 : (end_frame + 20) * FRAME_SAMPLES * 4]
    assert heard == wanted


def test_a_skip_and_a_start_in_the_middle() -> None:
    bench = playing(ToneSource(5 * SECOND), ToneSource(SECOND, start_sample=3 * SECOND), filters=at(speed=1.5))
    bench.run(frames=20)
    bench.play(2)
    bench.run()
    begin = [mark for mark in bench.marks if mark.kind is MarkKind.BEGIN and mark.source == 2]
    first = next(audio for audio in bench.audios if audio.source == 2)
    assert [mark.frame for mark in begin] == [first.first_frame]
    assert first.position_samples == 3 * SECOND
    assert bench.end_frame - first.first_frame == frame_count(SECOND * 2 // 3)
    assert bend(bench.pcm[: -2 * FRAME_SAMPLES * 4]) < STEADY_BEND * 4


def test_a_crossfade_has_its_length_in_time_heard() -> None:
    fade = CrossfadeOrder(2 * SECOND - 2 * SECOND // 2, SECOND // 2, "equalPower")
    bench = playing(ToneSource(2 * SECOND), ToneSource(2 * SECOND, 500.0), filters=at(speed=2.0), crossfade=fade)
    bench.run()
    assert [(mark.kind, mark.frame, mark.source) for mark in bench.marks[1:]] == [
        (MarkKind.FADING, 25, 1),
        (MarkKind.BEGIN, 25, 2),
        (MarkKind.FADED, 50, 1),
        (MarkKind.END, 75, 2),
    ]
    loud = np.abs(channels(bench.pcm)[:, 0])[: 70 * FRAME_SAMPLES].reshape(-1, 960).max(axis=1)
    assert loud.min() > PEAK * 0.6


@pytest.mark.parametrize(("speed_before", "speed"), [(1.0, 2.0), (2.0, 1.0), (0.5, 1.5)])
def test_a_change_in_the_middle_of_a_crossfade_leaves_the_levels_as_they_are(speed_before: float, speed: float) -> None:
    fade = CrossfadeOrder(SECOND, SECOND, "linear")
    bench = playing(
        StoredSource(bytes(4 * 2 * SECOND)),
        ToneSource(4 * SECOND, 500.0),
        filters=at(speed=speed_before),
        crossfade=fade,
    )
    begins_at = round(50 / speed_before)
    bench.run(frames=begins_at + 25)
    bench.plan(bench.sent, after=2, filters=at(speed=speed))
    bench.run()
    levels = np.abs(channels(bench.pcm)[:, 0]).reshape(-1, FRAME_SAMPLES).max(axis=1) / PEAK
    during = levels[begins_at : begins_at + 50]
    share = (np.arange(50) + 1) / 50
    others = np.delete(np.arange(50), 25)  # where the sound goes over to the other pace
    assert np.abs(during - share)[others].max() < 0.08
    assert levels[begins_at + 50 : begins_at + 60].min() > 0.9
    faded = [mark.frame for mark in bench.marks if mark.kind is MarkKind.FADED]
    assert faded == [begins_at + 50]


def test_a_change_in_the_middle_of_a_crossfade_leaves_the_old_sound_its_pace() -> None:
    bench = playing(
        ToneSource(4 * SECOND),
        StoredSource(bytes(4 * 4 * SECOND)),
        crossfade=CrossfadeOrder(2 * SECOND, 2 * SECOND, "linear"),
    )
    bench.run(frames=125)
    bench.plan(bench.sent, after=2, filters=at(rate=2.0))
    bench.run()
    assert frequency_of(bench.pcm[126 * FRAME_SAMPLES * 4 : 185 * FRAME_SAMPLES * 4]) == pytest.approx(400, rel=0.02)
    levels = np.abs(channels(bench.pcm)[:, 0]).reshape(-1, FRAME_SAMPLES).max(axis=1) / PEAK
    assert np.abs(levels[100:200] - (1 - np.arange(100) / 100)).max() < 0.08
    assert not levels[200:].any()
