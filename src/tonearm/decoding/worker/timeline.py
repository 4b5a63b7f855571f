"""Which samples of which source stand in which frame: what was rendered, so that it can be rendered again.

Decoded, unfiltered PCM of one source, kept from the oldest sample that may be rendered again to the newest.
"""

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.decoding.worker.filter_chain import ChainState


class PcmStore:
    """Filled by the source's thread, read and ended by the rendering one. Samples count from the source's start.

    Of the public values only `end` is set by the thread that fills, after the samples are there to be read.
    """

    def __init__(self, start_sample: int) -> None:
        self._lock = threading.Lock()
        self._chunks: deque[tuple[int, bytes]] = deque()
        self.start = start_sample
        self.oldest = start_sample  # what lies before was forgotten
        self.end = start_sample
        self.is_finished = False  # nothing comes after `end`
        self.is_broken = False  # finished because the source broke off

    def append(self, pcm: bytes) -> None:
        """Adds whole sample blocks, s16le stereo at 48 kHz."""
        with self._lock:
            self._chunks.append((self.end, pcm))
            self.end += len(pcm) // SAMPLE_BLOCK_BYTES

    def finish(self, *, is_broken: bool) -> None:
        """Nothing will be appended any more. For the rendering thread, after the filling one has said so."""
        self.is_broken = is_broken
        self.is_finished = True

    def read(self, start: int, count: int) -> bytes:
        """`count` samples from `start`. Raises `LookupError` when they are not all here."""
        wanted_from, wanted_to = start, start + count
        pieces = []
        with self._lock:
            for chunk_start, chunk in self._chunks:
                chunk_end = chunk_start + len(chunk) // SAMPLE_BLOCK_BYTES
                if chunk_end <= start:
                    continue
                if chunk_start > start or start == wanted_to:
                    break
                taken_to = min(wanted_to, chunk_end)
                first_byte = (start - chunk_start) * SAMPLE_BLOCK_BYTES
                pieces.append(chunk[first_byte : (taken_to - chunk_start) * SAMPLE_BLOCK_BYTES])
                start = taken_to
        if start != wanted_to:
            raise LookupError(f"samples {wanted_from} to {wanted_to} of a store of {self.oldest} to {self.end}")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release_before(self, sample: int) -> None:
        """Forgets the chunks that lie wholly before `sample`."""
        with self._lock:
            chunks = self._chunks
            while chunks:
                chunk_start, chunk = chunks[0]
                chunk_end = chunk_start + len(chunk) // SAMPLE_BLOCK_BYTES
                if chunk_end > sample:
                    break
                self.oldest = chunk_end
                chunks.popleft()


FROM_START: Final = -1


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The next sample of a source (0: no source), and whether its begin was told.

    `FROM_START` stands for the first sample of a source that may not be opened yet.
    """

    source: int
    sample: int
    has_begun: bool


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where rendering stands before `frame`: at which place, and with which memory of the filters."""

    frame: int
    place: SourcePosition
    filters: ChainState


@dataclass(frozen=True, slots=True)
class Segment:
    """Samples of one source within a block, from `offset` samples after the block's start."""

    offset: int
    source: int
    sample: int
    length: int


@dataclass(frozen=True, slots=True)
class Block:
    """Rendered frames: what they were made of, and the filters' memory after each one."""

    start: Checkpoint
    frames: int
    segments: tuple[Segment, ...]
    filters: tuple[ChainState, ...]

    @property
    def end_frame(self) -> int:
        return self.start.frame + self.frames

    def place_at(self, frame: int) -> SourcePosition:
        """Where rendering stood before `frame`, which is in this block or just after it.

        Just after the last sample of a source that is its end, not yet what joins there.
        """
        offset = (frame - self.start.frame) * FRAME_SAMPLES
        for segment in reversed(self.segments):
            if segment.offset < offset:
                taken = min(segment.length, offset - segment.offset)
                return SourcePosition(segment.source, segment.sample + taken, has_begun=True)
        return self.start.place

    def stand_at(self, frame: int) -> Checkpoint:
        """As `place_at`, with the filters."""
        frames = frame - self.start.frame
        return Checkpoint(frame, self.place_at(frame), self.filters[frames - 1]) if frames else self.start

    def cut_at(self, frame: int) -> "Block":
        """This block without the frames from `frame` on."""
        frames = frame - self.start.frame
        end = frames * FRAME_SAMPLES
        segments = tuple(
            replace(segment, length=min(segment.length, end - segment.offset))
            for segment in self.segments
            if segment.offset < end
        )
        return Block(self.start, frames, segments, self.filters[:frames])


class Timeline:
    """The blocks of one epoch that are kept, oldest first and without gaps, and where it goes on."""

    def __init__(self, end: Checkpoint, blocks: list[Block] | None = None) -> None:
        self.end = end
        self._blocks = blocks or []

    def append(self, block: Block) -> None:
        """Adds a block that begins at the end."""
        self._blocks.append(block)
        self.end = block.stand_at(block.end_frame)

    def cut_at(self, frame: int) -> "Timeline":
        """The timeline up to `frame`; up to its end, or the oldest frame that is kept, where that is nearest."""
        if frame >= self.end.frame:
            return Timeline(self.end, list(self._blocks))
        for index in range(len(self._blocks) - 1, -1, -1):
            block = self._blocks[index]
            if block.start.frame < frame:
                return Timeline(block.stand_at(frame), [*self._blocks[:index], block.cut_at(frame)])
            if block.start.frame == frame:
                return Timeline(block.start, self._blocks[:index])
        return Timeline(self._blocks[0].start if self._blocks else self.end)

    def forget_before(self, frame: int) -> None:
        """Lets go of the blocks that lie wholly before `frame`."""
        while self._blocks and self._blocks[0].end_frame <= frame:
            del self._blocks[0]

    def segments_backwards(self, samples: int) -> list[Segment]:
        """What the last `samples` samples were made of, newest first. Silence that filled a frame is left out."""
        found: list[Segment] = []
        for block in reversed(self._blocks):
            for segment in reversed(block.segments):
                if samples <= 0:
                    return found
                taken = min(samples, segment.length)
                found.append(replace(segment, sample=segment.sample + segment.length - taken, length=taken))
                samples -= taken
        return found

    def oldest_samples(self) -> dict[int, int]:
        """For each source that stands in the timeline, or goes on at its end, the oldest sample that it needs."""
        oldest = {self.end.place.source: self.end.place.sample}
        for block in self._blocks:
            for segment in block.segments:
                if segment.sample < oldest.get(segment.source, segment.sample + 1):
                    oldest[segment.source] = segment.sample
        return oldest
