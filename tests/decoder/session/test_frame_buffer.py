"""Rendered frames on their way to be sent."""

from collections.abc import Sequence
from typing import TypeAlias

import pytest

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, Payloads
from tonearm.decoder.messages import Audio, Mark, MarkKind
from tonearm.decoder.session.frame_buffer import FrameBuffer

BEGIN, END = MarkKind.BEGIN, MarkKind.END
Marks: TypeAlias = Sequence[tuple[MarkKind, int, int]]


def audio(first: int, frames: int, *, source: int = 1, position: int | None = None, marks: Marks = ()) -> Audio:
    """Frames that differ by their number. Without `position`, the source began in frame 0."""
    position_samples = first * FRAME_SAMPLES if position is None else position
    pcm = b"".join(bytes((number, 0)) * (FRAME_BYTES // 2) for number in range(first, first + frames))
    return Audio(1, 1, first, frames, source, position_samples, tuple(Mark(*mark) for mark in marks), pcm)


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
