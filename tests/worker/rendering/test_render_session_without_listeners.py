"""A session without listeners counts frames; with a new listener its filters are as if they had always run."""

import numpy as np
import pytest

from tests.support.pcm import channels
from tests.support.session_bench import MemorySource, SessionBench
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, PCM, Output
from tonearm.decoder.messages import Mark, MarkKind

BASS_AND_TREBLE = Filters(0.7, (9.0, 6.0, *(0.0,) * 11, -6.0, 4.0))


def playing(frames: int, *outputs: Output, filters: Filters | None = None) -> SessionBench:
    bench = SessionBench({1: MemorySource(1, frames * FRAME_SAMPLES, ends=True)}, filters)
    bench.listen(*outputs)
    bench.play(1)
    return bench


def test_frames_and_marks_come_without_pcm() -> None:
    bench = playing(12)
    assert bench.run() == b""
    assert bench.end_frame == 12
    assert bench.marks == [Mark(MarkKind.BEGIN, 0, 1), Mark(MarkKind.END, 12, 1)]


@pytest.mark.parametrize("filters", [Filters(), Filters(volume=0.5), BASS_AND_TREBLE])
def test_with_a_new_listener_the_filters_are_as_if_they_had_always_run(filters: Filters) -> None:
    always, bench = playing(60, PCM, filters=filters), playing(60, filters=filters)
    bench.run(35)
    bench.listen(PCM)
    heard, expected = channels(bench.run()), channels(always.run())[35 * FRAME_SAMPLES :]
    # New filters are warmed up on half a second: the slowest band is within a few thousandths then.
    assert np.abs(heard - expected).max() <= (0 if filters.is_flat_equalizer else 150)


def test_filters_changed_without_listeners_are_in_force_without_a_ramp() -> None:
    bench = playing(40)
    bench.change((5, Filters(volume=0.0)))
    bench.run(10)
    bench.listen(PCM)
    assert bench.run(20)[: 10 * FRAME_BYTES] == bytes(10 * FRAME_BYTES)
