"""A session without listeners counts frames; with a new listener its filters are as if they had always run."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.session_bench import MemorySource
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.core.outputs import NO_OUTPUTS, PCM_ONLY
from tonearm.decoder.messages import Audio, Grant, MarkKind, OpenSession, Plan
from tonearm.worker.rendering.render_session import RenderSession

BASS_AND_TREBLE = Filters(0.7, (9.0, 6.0, *(0.0,) * 11, -6.0, 4.0))


def session_of(source: MemorySource, filters: Filters) -> RenderSession:
    session = RenderSession(OpenSession(1, 1, 0, filters), {1: source})
    session.plan(Plan(1, 2, 1, 0, 1, 1, None, filters))
    return session


def rendered(
    session: RenderSession, upto: int, *, sent: int = 0, epoch: int = 2, has_listeners: bool = True
) -> list[Audio]:
    session.grant(Grant(1, epoch, sent, upto, PCM_ONLY if has_listeners else NO_OUTPUTS))
    return session.render()


def test_frames_and_marks_come_without_pcm() -> None:
    source = MemorySource(1, 12 * FRAME_SAMPLES, ends=True)
    session = session_of(source, Filters())
    audios = rendered(session, 20, has_listeners=False)
    assert sum(audio.frames for audio in audios) == 12
    assert all(audio.pcm == b"" for audio in audios)
    assert [(mark.kind, mark.frame) for audio in audios for mark in audio.marks] == [
        (MarkKind.BEGIN, 0),
        (MarkKind.END, 12),
    ]


@pytest.mark.parametrize("filters", [Filters(), replace(Filters(), volume=0.5), BASS_AND_TREBLE])
def test_with_a_new_listener_the_filters_are_as_if_they_had_always_run(filters: Filters) -> None:
    frames = 60
    always = session_of(MemorySource(1, frames * FRAME_SAMPLES), filters)
    whole = b"".join(audio.pcm for audio in rendered(always, frames))

    session = session_of(MemorySource(1, frames * FRAME_SAMPLES), filters)
    rendered(session, 40, has_listeners=False)
    session.plan(Plan(1, 3, 2, 35, None, 1, None, filters))
    audios = rendered(session, frames, sent=35, has_listeners=True)
    assert audios[0].first_frame == 35
    pcm = np.frombuffer(b"".join(audio.pcm for audio in audios), "<i2").astype(int)
    expected = np.frombuffer(whole[35 * FRAME_BYTES :], "<i2").astype(int)
    # New filters are warmed up on half a second: the slowest band is within a few thousandths then.
    assert np.abs(pcm - expected).max() <= (0 if filters.is_flat_equalizer else 150)


def test_filters_changed_without_listeners_are_in_force_without_a_ramp() -> None:
    session = session_of(MemorySource(1, 40 * FRAME_SAMPLES), Filters())
    rendered(session, 10, has_listeners=False)
    quiet = Filters(volume=0.0)
    session.plan(Plan(1, 3, 2, 5, None, 1, None, quiet))
    rendered(session, 15, sent=5, epoch=3, has_listeners=False)
    session.plan(Plan(1, 4, 3, 10, None, 1, None, quiet))
    audios = rendered(session, 20, sent=10, epoch=4, has_listeners=True)
    assert b"".join(audio.pcm for audio in audios) == bytes(10 * FRAME_BYTES)
