"""Rendered frames on their way to be sent."""

from collections.abc import Sequence
from typing import TypeAlias

import pytest

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, Payloads
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


def message(payloads: Payloads | None) -> bytes:
    """That of a frame in one form."""
    assert isinstance(payloads, bytes)
    return payloads


def plain(buffer: FrameBuffer, most: int) -> int:
    """How many frames are plain ones after the first."""
    buffer.pop()
    buffer.allow_plain(most)
    count = 0
    while (payloads := buffer.pop_plain()) is not None:
        count += 1
        assert message(payloads)[-2:] == bytes((buffer.next_frame - 1, 0))
    return count


def test_frames_are_plain_up_to_the_tick_in_which_something_happens() -> None:
    """The end is reported in the tick of the last frame."""
    assert plain(filled(audio(0, 10)), 100) == 9
    assert plain(filled(audio(0, 10)), 4) == 4
    assert plain(filled(audio(0, 10, marks=[(END, 10, 1)])), 100) == 8
    assert plain(filled(audio(0, 10, marks=[(END, 6, 1), (BEGIN, 6, 2)])), 100) == 4
    assert plain(filled(audio(0, 5), audio(5, 5, source=2, position=0)), 100) == 4


def test_plain_frames_go_on_in_those_that_come_later() -> None:
    buffer = filled(audio(0, 5))
    buffer.pop()
    buffer.allow_plain(100)
    buffer.append(audio(5, 5))
    taken = [buffer.pop_plain() for _ in range(9)]
    assert [message(payloads)[-2] for payloads in taken if payloads] == list(range(1, 10))
    assert buffer.end_position() == (1, 10 * FRAME_SAMPLES)
    assert buffer.pop_plain() is None


@pytest.mark.parametrize(
    "part", [audio(5, 5, marks=[(END, 8, 1)]), audio(5, 0, marks=[(END, 5, 1)]), audio(5, 5, source=2, position=0)]
)
def test_frames_are_not_plain_any_more_when_something_is_to_happen(part: Audio) -> None:
    buffer = filled(audio(0, 5))
    buffer.pop()
    buffer.allow_plain(100)
    buffer.append(part)
    assert buffer.pop_plain() is None


def test_a_source_that_has_faded_ends_nothing() -> None:
    marks = [(MarkKind.FADING, 2, 1), (BEGIN, 2, 2), (MarkKind.FADED, 4, 1)]
    buffer = filled(audio(0, 6, marks=marks))
    assert not buffer.holds_end
    buffer.append(audio(6, 2, source=2, marks=[(END, 8, 2), (MarkKind.FADED, 8, 3)]))
    assert buffer.holds_end


def test_a_source_that_faded_before_the_frames_that_are_void_is_still_reported() -> None:
    buffer = filled(audio(0, 6, marks=[(MarkKind.FADED, 3, 1), (END, 3, 2), (MarkKind.FADED, 5, 4)]))
    for _ in range(3):
        buffer.pop()
    buffer.void_from(3)
    assert buffer.take_complete_end() == Mark(MarkKind.FADED, 3, 1)
    assert buffer.take_complete_end() is None


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
    buffer = filled(audio(0, 5), audio(5, 5, at(A, 0)), audio(10, 10, at(A, 5, ends=True)))
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
    buffer = filled(audio(0, 1), audio(1, 1, at(A, 0), rate=0.0))
    assert not buffer.begins_with_overlays_alone
    buffer.pop()
    assert buffer.begins_with_overlays_alone
    assert buffer.pop().end_samples == FRAME_SAMPLES


def test_overlays_alone_leave_the_position_where_it_was() -> None:
    buffer = filled(audio(0, 5), audio(5, 5, source=0, position=0, rate=0.0))
    positions = []
    for _ in range(10):
        buffer.pop()
        positions.append(buffer.sent_position_samples // FRAME_SAMPLES)
    assert positions == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5]
