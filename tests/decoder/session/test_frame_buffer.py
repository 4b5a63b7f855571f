"""Rendered frames on their way to be sent."""

from collections.abc import Sequence

import pytest

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.core.outputs import PCM, Payloads
from tonearm.decoder.messages import Audio, Mark, MarkKind
from tonearm.decoder.session.frame_buffer import FrameBuffer, SentFrame
from tonearm.protocol.framing import payload_of

BEGIN, END, INTERRUPTED = MarkKind.BEGIN, MarkKind.END, MarkKind.INTERRUPTED


def frame(number: int, tone: int = 0) -> bytes:
    return bytes((number, tone)) * (FRAME_BYTES // 2)


def audio(
    first: int,
    frames: int,
    *,
    source: int = 1,
    position: int | None = None,
    marks: Sequence[tuple[MarkKind, int, int] | tuple[MarkKind, int, int, int]] = (),
    tone: int = 0,
) -> Audio:
    """Frames that differ by their number and `tone`. Without `position`, the source began in frame 0."""
    position_samples = first * FRAME_SAMPLES if position is None else position
    pcm = b"".join(frame(number, tone) for number in range(first, first + frames))
    return Audio(1, 1, first, frames, source, position_samples, tuple(Mark(*mark) for mark in marks), pcm)


def filled(*parts: Audio) -> FrameBuffer:
    buffer = FrameBuffer()
    for part in parts:
        buffer.append(part)
    return buffer


def pop(buffer: FrameBuffer, count: int) -> list[SentFrame]:
    return [buffer.pop() for _ in range(count)]


def pcm(frames: Sequence[SentFrame]) -> list[bytes]:
    assert all(sent.forms == (PCM,) for sent in frames)
    return [payload_of(message(sent.payloads)) for sent in frames]


def message(payloads: Payloads | None) -> bytes:
    """That of a frame in one form."""
    assert isinstance(payloads, bytes)
    return payloads


def test_a_mark_falls_due_when_its_frame_is_next() -> None:
    buffer = filled(audio(0, 3, marks=[(BEGIN, 0, 1)]))
    begin = buffer.take_mark()
    assert begin == Mark(BEGIN, 0, 1)
    assert buffer.take_mark() is None
    buffer.append(audio(3, 2, marks=[(END, 5, 1)]))
    for _ in range(5):
        assert buffer.take_mark() is None
        assert buffer.take_complete_end() is None
        buffer.pop()
    assert buffer.take_complete_end() == Mark(END, 5, 1)
    assert buffer.take_complete_end() is None


def test_an_end_without_frames() -> None:
    buffer = filled(audio(0, 2))
    pop(buffer, 2)
    assert not buffer.holds_end
    buffer.append(audio(2, 0, marks=[(INTERRUPTED, 2, 1)]))
    assert buffer.holds_end
    assert buffer.take_complete_end() == Mark(INTERRUPTED, 2, 1)


def test_an_end_at_which_another_source_joins_is_not_complete() -> None:
    buffer = filled(audio(0, 4, marks=[(END, 2, 1), (BEGIN, 2, 2)]))
    pop(buffer, 2)
    assert buffer.take_complete_end() is None
    assert not buffer.holds_end
    assert buffer.take_mark() == Mark(END, 2, 1)
    assert buffer.begins_now == 2
    assert buffer.take_mark() == Mark(BEGIN, 2, 2)
    assert buffer.begins_now is None
    assert buffer.take_mark() is None


def test_a_join_in_mid_block_changes_the_source_there() -> None:
    buffer = filled(
        audio(0, 5, marks=[(BEGIN, 0, 1)]),
        audio(5, 5, marks=[(END, 7, 1), (BEGIN, 7, 2, 860)]),
        audio(10, 5, source=2, position=2 * FRAME_SAMPLES + 100),
    )
    sent = pop(buffer, 15)
    assert pcm(sent) == [frame(number) for number in range(15)]
    assert [part.source for part in sent] == [1] * 7 + [2] * 8
    assert [part.position_samples for part in sent[:7]] == [number * FRAME_SAMPLES for number in range(7)]
    assert [part.position_samples for part in sent[7:]] == [n * FRAME_SAMPLES - 860 for n in range(8)]


def test_voiding_everything_in_the_middle_of_a_block() -> None:
    """As a skip does: what comes after it must not begin with a frame of what was before."""
    buffer = filled(audio(0, 5), audio(5, 5))
    pop(buffer, 2)
    buffer.void_from(2)
    assert buffer.frames_ahead == 0
    assert buffer.end_position() == (1, 2 * FRAME_SAMPLES)
    buffer.append(audio(2, 5, source=2, position=0, marks=[(BEGIN, 2, 2)], tone=9))
    assert buffer.take_mark() == Mark(BEGIN, 2, 2)
    sent = pop(buffer, 5)
    assert pcm(sent) == [frame(number, 9) for number in range(2, 7)]
    assert [part.source for part in sent] == [2] * 5
    assert [part.position_samples for part in sent] == [number * FRAME_SAMPLES for number in range(5)]


def test_another_join_than_the_wanted_one_is_voided_with_what_follows() -> None:
    parts = audio(0, 5), audio(5, 5, marks=[(END, 7, 1), (BEGIN, 7, 2)]), audio(10, 5, source=2, position=500)
    buffer = filled(*parts)
    buffer.void_joins_except(1, 2)
    assert buffer.end_frame == 15
    buffer.void_joins_except(1, 3)
    assert buffer.end_frame == 7
    assert buffer.take_complete_end() is None
    buffer = filled(*parts)
    buffer.void_joins_except(1, None)
    assert buffer.end_frame == 7
    assert buffer.end_position() == (1, 7 * FRAME_SAMPLES)


def test_the_begin_of_what_sounds_is_no_join_to_be_voided() -> None:
    buffer = filled(audio(0, 5, marks=[(BEGIN, 0, 1)]))
    buffer.void_joins_except(1, None)
    assert buffer.take_mark() is not None
    buffer.void_joins_except(1, 2)
    assert buffer.frames_ahead == 5


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
