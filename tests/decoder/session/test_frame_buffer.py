"""Rendered frames on their way to be sent."""

from collections.abc import Sequence
from typing import TypeAlias

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.decoder.messages import Audio, Mark, MarkKind, OverlayPosition
from tonearm.decoder.session.frame_buffer import FrameBuffer, OverlayPositions

BEGIN, END = MarkKind.BEGIN, MarkKind.END
Marks: TypeAlias = Sequence[tuple[MarkKind, int, int]]


def audio(
    first: int,
    frames: int,
    *overlays: OverlayPosition,
    source: int = 1,
    position: int | None = None,
    marks: Marks = (),
    rate: float = 1.0,
) -> Audio:
    """Frames that differ by their number. Without `position`, the source began in frame 0."""
    position_samples = first * FRAME_SAMPLES if position is None else position
    pcm = b"".join(bytes((number, 0)) * (FRAME_BYTES // 2) for number in range(first, first + frames))
    told = tuple(Mark(*mark) for mark in marks)
    return Audio(1, 1, first, frames, source, position_samples, told, pcm, rate, (), overlays)


def filled(*parts: Audio) -> FrameBuffer:
    buffer = FrameBuffer()
    for part in parts:
        buffer.append(part)
    return buffer


def plain(buffer: FrameBuffer, most: int) -> int:
    """How many frames are plain ones after the first."""
    buffer.pop()
    buffer.allow_plain(most)
    count = 0
    while (payloads := buffer.pop_plain()) is not None:
        count += 1
        assert isinstance(payloads, bytes)
        assert payloads[-2:] == bytes((buffer.next_frame - 1, 0))
    return count


def test_frames_are_plain_up_to_the_tick_in_which_something_happens() -> None:
    """The end is reported in the tick of the last frame."""
    assert plain(filled(audio(0, 10)), 100) == 9
    assert plain(filled(audio(0, 10)), 4) == 4
    assert plain(filled(audio(0, 10, marks=[(END, 10, 1)])), 100) == 8
    assert plain(filled(audio(0, 10, marks=[(END, 6, 1), (BEGIN, 6, 2)])), 100) == 4
    assert plain(filled(audio(0, 5), audio(5, 5, source=2, position=0)), 100) == 4


def test_a_source_that_has_faded_ends_nothing() -> None:
    marks = [(MarkKind.FADING, 2, 1), (BEGIN, 2, 2), (MarkKind.FADED, 4, 1)]
    buffer = filled(audio(0, 6, marks=marks))
    assert not buffer.holds_end
    buffer.append(audio(6, 2, source=2, marks=[(END, 8, 2), (MarkKind.FADED, 8, 3)]))
    assert buffer.holds_end


def test_the_end_of_a_cut_sound_is_known_by_its_source() -> None:
    buffer = filled(audio(0, 2))
    assert not buffer.begins_with_tail
    buffer.append(audio(2, 1, source=0, position=0))
    buffer.append(audio(3, 1, source=5, position=0))
    buffer.pop()
    buffer.pop()
    assert buffer.begins_with_tail
    assert buffer.pop().source == 0
    assert not buffer.begins_with_tail


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
    buffer = filled(audio(0, 5), audio(5, 5, source=0, position=0, rate=0.0))
    told = []
    for _ in range(10):
        alone = buffer.begins_with_overlays_alone
        assert buffer.pop().end_samples == (buffer.next_frame if not alone else 5) * FRAME_SAMPLES
        told.append((alone, buffer.sent_position_samples // FRAME_SAMPLES))
    assert told == [*((False, frame) for frame in range(5)), *((True, 5),) * 5]
