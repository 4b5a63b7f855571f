"""Which overlays are in the buffered frames: beginnings, ends, and where they are."""

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.decoder.messages import Audio, OverlayPosition
from tonearm.decoder.session.frame_buffer import FrameBuffer, OverlayPositions

A, B = 7, 8


def audio(first: int, frames: int, *overlays: OverlayPosition, rate: float = 1.0) -> Audio:
    return Audio(1, 1, first, frames, 1, first * FRAME_SAMPLES, (), bytes(frames * FRAME_BYTES), rate, (), overlays)


def at(source: int, frame: int, *, moves: bool = True, ends: bool = False) -> OverlayPosition:
    return OverlayPosition(source, frame * FRAME_SAMPLES, moves, ends)


def followed(*audios: Audio) -> OverlayPositions:
    positions = OverlayPositions()
    for one in audios:
        positions.append(one)
    return positions


def test_each_begins_and_ends_once() -> None:
    positions = followed(
        audio(0, 5), audio(5, 5, at(A, 0)), audio(10, 5, at(A, 5), at(B, 0)), audio(15, 3, at(A, 10, ends=True))
    )
    begun = {frame: found for frame in range(20) if (found := positions.take_begun(frame))}
    assert begun == {5: [A], 10: [B]}
    ended = {frame: found for frame in range(20) if (found := positions.take_ended(frame))}
    assert ended == {18: [A]}
    assert not positions


def test_where_each_is() -> None:
    positions = followed(audio(0, 5, at(A, 0)), audio(5, 5, at(A, 5, moves=False), at(B, 0)))
    assert positions.samples_at(0) == {}
    assert positions.samples_at(5) == {A: 5 * FRAME_SAMPLES}
    assert positions.samples_at(7) == {A: 5 * FRAME_SAMPLES, B: 2 * FRAME_SAMPLES}
    assert positions.standing_at(7) == {A}
    positions.take_ended(10)
    assert positions.samples_at(10) == {A: 5 * FRAME_SAMPLES, B: 5 * FRAME_SAMPLES}


def test_frames_that_are_void_end_nothing() -> None:
    positions = followed(audio(0, 5, at(A, 0)), audio(5, 5, at(A, 5, ends=True)))
    assert positions.ending == {A}
    positions.void_from(7)
    assert positions.ending == frozenset()
    positions.take_begun(0)
    assert positions.take_ended(7) == []
    positions.append(audio(7, 3, at(A, 7, ends=True)))
    assert positions.take_ended(10) == [A]


def test_one_that_is_forgotten_is_not_reported() -> None:
    positions = followed(audio(0, 5, at(A, 0, ends=True), at(B, 0)))
    positions.take_begun(0)
    positions.forget(A)
    assert positions.take_ended(5) == []
    assert positions.samples_at(5) == {B: 5 * FRAME_SAMPLES}


def test_frames_in_which_something_changes_are_looked_at() -> None:
    buffer = FrameBuffer()
    buffer.append(audio(0, 5))
    buffer.append(audio(5, 5, at(A, 0)))
    buffer.append(audio(10, 10, at(A, 5, ends=True)))
    plain = []
    while buffer.frames_ahead:
        if buffer.pop_plain() is not None:
            plain.append(buffer.next_frame - 1)
            continue
        buffer.overlays.take_begun(buffer.next_frame)
        buffer.pop()
        buffer.overlays.take_ended(buffer.next_frame)
        buffer.allow_plain(100)
    assert [frame for frame in range(20) if frame not in plain] == [0, 5, 18, 19]


def test_frames_of_overlays_alone_are_known() -> None:
    buffer = FrameBuffer()
    buffer.append(audio(0, 1))
    buffer.append(audio(1, 1, at(A, 0), rate=0.0))
    assert not buffer.begins_with_overlays_alone
    buffer.pop()
    assert buffer.begins_with_overlays_alone
    assert buffer.pop().end_samples == FRAME_SAMPLES
