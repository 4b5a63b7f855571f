"""Rendered frames that wait to be sent, and what happens to the sources in them."""

from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.core.outcome import SourceId
from tonearm.decoder.messages import Audio, Mark, MarkKind


@dataclass(slots=True)
class _Block:
    """Frames of one source. `position_samples` is where the first one stands in it: before 0 where it joins later."""

    first_frame: int
    end_frame: int
    source: SourceId
    position_samples: int
    pcm: bytes


class SentFrame(NamedTuple):
    """A frame that leaves: its PCM, and the source and sample (48 kHz) that it begins with."""

    pcm: bytes
    source: SourceId
    position_samples: int


class FrameBuffer:
    """Frames `next_frame` … `end_frame`, without gaps; marks are told when their frame's turn comes."""

    def __init__(self, first_frame: int = 0) -> None:
        self._blocks: deque[_Block] = deque()
        self._marks: deque[Mark] = deque()
        self.next_frame = first_frame
        self.end_frame = first_frame

    @property
    def frames_ahead(self) -> int:
        return self.end_frame - self.next_frame

    @property
    def holds_end(self) -> bool:
        """True when the sound ends in here: nothing more comes until something else is planned."""
        return bool(self._marks) and self._marks[-1].kind is not MarkKind.BEGIN

    def append(self, audio: Audio) -> None:
        """Takes rendered frames; those that were sent already in another form are left out."""
        self._marks.extend(audio.marks)
        end_frame = audio.first_frame + audio.frames
        if not audio.frames or end_frame <= self.next_frame:
            return
        if not self._blocks:
            self.next_frame = max(self.next_frame, audio.first_frame)
        block = _Block(audio.first_frame, end_frame, audio.source, audio.position_samples, audio.pcm)
        for mark in audio.marks:
            if mark.kind is MarkKind.BEGIN:
                block = self._split(block, mark)
        self._blocks.append(block)
        self.end_frame = end_frame

    def void_from(self, frame: int) -> None:
        """Forgets the frames from `frame` on, and what was to happen in them."""
        while self._blocks and self._blocks[-1].first_frame >= frame:
            self._blocks.pop()
        if self._blocks and self._blocks[-1].end_frame > frame:
            self._blocks[-1].end_frame = frame
            if frame <= self.next_frame:
                self._blocks.pop()  # what is left of it was sent
        self.end_frame = max(self.next_frame, min(self.end_frame, frame))
        self._marks = deque(mark for mark in self._marks if mark.frame < frame)

    def void_joins_except(self, *sources: SourceId | None) -> None:
        """Forgets the frames from where another source than one of `sources` begins."""
        for mark in self._marks:
            if mark.kind is MarkKind.BEGIN and mark.source not in sources and mark.frame >= self.next_frame:
                self.void_from(mark.frame)
                return

    def next_mark(self) -> Mark | None:
        """Takes a mark of the frame that is to be sent next, or one of an end before it."""
        if not self._marks or self._marks[0].frame > self.next_frame:
            return None
        return self._marks.popleft()

    def next_end(self) -> Mark | None:
        """Takes the mark of an end that is complete: all its frames were sent, and no other source joins in."""
        if not self._marks or self._marks[0].frame > self.next_frame or self._marks[0].kind is MarkKind.BEGIN:
            return None
        if self.joining() is not None:
            return None
        return self._marks.popleft()

    def begins_now(self) -> SourceId | None:
        """The source that begins in the frame to be sent next, as far as that is rendered."""
        if self._marks and self._marks[0].kind is MarkKind.BEGIN and self._marks[0].frame <= self.next_frame:
            return self._marks[0].source
        return None

    def joining(self) -> SourceId | None:
        """The source that begins where the next marked end is."""
        if len(self._marks) < 2 or self._marks[1].kind is not MarkKind.BEGIN:
            return None
        return self._marks[1].source if self._marks[1].frame == self._marks[0].frame else None

    def pop(self) -> SentFrame:
        block = self._blocks[0]
        index = self.next_frame - block.first_frame
        self.next_frame += 1
        if self.next_frame >= block.end_frame:
            self._blocks.popleft()
        start = index * FRAME_BYTES
        pcm = block.pcm[start : start + FRAME_BYTES]
        return SentFrame(pcm, block.source, block.position_samples + index * FRAME_SAMPLES)

    def end_place(self) -> tuple[SourceId, int] | None:
        """The source and sample that the frame after the last one here would begin with. None when empty."""
        if not self.frames_ahead:
            return None
        block = self._blocks[-1]
        return block.source, block.position_samples + (block.end_frame - block.first_frame) * FRAME_SAMPLES

    def _split(self, block: _Block, begin: Mark) -> _Block:
        """Puts the part of a block before a source's begin away, and returns the part that is the source's."""
        frames = begin.frame - block.first_frame
        if frames <= 0 and block.source == begin.source:
            return block
        if begin.frame > max(block.first_frame, self.next_frame):
            self._blocks.append(replace(block, end_frame=begin.frame, pcm=block.pcm[: frames * FRAME_BYTES]))
        pcm = block.pcm[frames * FRAME_BYTES :]
        return _Block(begin.frame, block.end_frame, begin.source, -begin.offset_samples, pcm)
