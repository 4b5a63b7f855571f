"""Rendered frames on their way to be sent."""

from typing import Any

from msgspec import structs

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.decoder.messages import Audio, Mark, MarkKind, OverlayPosition
from tonearm.decoder.session.frame_buffer import FrameBuffer, OverlayPositions


def audio(first: int, frames: int, *overlays: OverlayPosition, **others: Any) -> Audio:
    pcm = bytes(frames * FRAME_BYTES)
    plain = Audio(1, 1, first, frames, 1, first * FRAME_SAMPLES, (), pcm, overlays=overlays)
    return structs.replace(plain, **others)


def filled(*parts: Audio) -> FrameBuffer:
    buffer = FrameBuffer()
    for part in parts:
        buffer.append(part)
    return buffer


def test_frames_are_plain_up_to_the_tick_in_which_something_happens() -> None:
    buffer = filled(audio(0, 10, marks=(Mark(MarkKind.END, 10, 1),)))
    buffer.pop()
    buffer.allow_plain(100)
    assert sum(buffer.pop_plain() is not None for _ in range(10)) == 8


def test_a_source_that_has_faded_ends_nothing() -> None:
    marks = Mark(MarkKind.FADING, 2, 1), Mark(MarkKind.BEGIN, 2, 2), Mark(MarkKind.FADED, 4, 1)
    buffer = filled(audio(0, 6, marks=marks))
    assert not buffer.holds_end
    buffer.append(audio(6, 2, source=2, marks=(Mark(MarkKind.END, 8, 2), Mark(MarkKind.FADED, 8, 3))))
    assert buffer.holds_end


def test_the_end_of_a_cut_sound_is_known_by_its_source() -> None:
    buffer = filled(audio(0, 2))
    assert not buffer.begins_with_tail
    buffer.append(audio(2, 1, source=0))
    buffer.append(audio(3, 1, source=5))
    buffer.pop()
    buffer.pop()
    assert buffer.begins_with_tail
    assert buffer.pop().source == 0
    assert not buffer.begins_with_tail


def test_behind_overlays_alone_the_earlier_source_goes_on_as_a_cut_and_behind_a_tail_it_does_not() -> None:
    buffer = filled(audio(0, 5), audio(5, 1, source=0))
    assert buffer.end_position() == (0, 6 * FRAME_SAMPLES)
    buffer = filled(audio(0, 5))
    buffer.cut()
    buffer.append(audio(5, 3, source=0, position_rate=0.0))
    assert buffer.end_position() == (1, 5 * FRAME_SAMPLES)
    buffer.append(audio(8, 2, position_samples=5 * FRAME_SAMPLES))
    assert [buffer.pop().is_cut for _ in range(10)] == [False] * 8 + [True, False]


# Which overlays are in the buffered frames: beginnings, ends, and where they are

A, B = 7, 8


def at(source: int, frame: int, *, moves: bool = True, ends: bool = False) -> OverlayPosition:
    return OverlayPosition(source, frame * FRAME_SAMPLES, moves, ends)


def followed(*audios: Audio) -> OverlayPositions:
    positions = OverlayPositions()
    for one in audios:
        positions.append(one)
    return positions


def test_each_begins_and_ends_once_and_is_where_it_is_until_it_is_forgotten() -> None:
    positions = followed(
        audio(0, 5),
        audio(5, 5, at(A, 0)),
        audio(10, 5, at(A, 5, moves=False), at(B, 0)),
        audio(15, 3, at(A, 5, ends=True), at(B, 5)),
    )
    assert positions.samples_at(5) == {}
    begun = {frame: found for frame in range(20) if (found := positions.take_begun(frame))}
    assert begun == {5: [A], 10: [B]}
    assert positions.samples_at(10) == {A: 5 * FRAME_SAMPLES}
    assert positions.samples_at(12) == {A: 5 * FRAME_SAMPLES, B: 2 * FRAME_SAMPLES}
    assert positions.standing_at(12) == {A}
    ended = {frame: found for frame in range(20) if (found := positions.take_ended(frame))}
    assert ended == {18: [A]}
    positions.forget(B)
    assert not positions


def test_frames_that_are_void_end_nothing() -> None:
    positions = followed(audio(0, 5, at(A, 0)), audio(5, 5, at(A, 5, ends=True)))
    assert positions.ending == {A}
    positions.void_from(7)
    assert positions.ending == frozenset()
    positions.take_begun(0)
    assert positions.take_ended(7) == []
    positions.append(audio(7, 3, at(A, 7, ends=True)))
    assert positions.take_ended(10) == [A]


def test_overlays_alone_are_known_and_leave_the_position_where_it_was() -> None:
    buffer = filled(audio(0, 5), audio(5, 5, source=0, position_rate=0.0))
    told = []
    for _ in range(10):
        alone = buffer.begins_with_overlays_alone
        assert buffer.pop().end_samples == (buffer.next_frame if not alone else 5) * FRAME_SAMPLES
        told.append((alone, buffer.sent_position_samples // FRAME_SAMPLES))
    assert told == [*((False, frame) for frame in range(5)), *((True, 5),) * 5]
