"""Which samples of which source stand in which frame: what was rendered, so that it can be rendered again."""

from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.frame import FRAME_SAMPLES
from tonearm.decoder.filter_chain import ChainState

FROM_START: Final = -1


@dataclass(frozen=True, slots=True)
class Place:
    """Where rendering stands: the next sample of a source (0: no source), and whether its begin was told.

    `FROM_START` stands for the first sample of a source that may not be opened yet.
    """

    source: int
    sample: int
    has_begun: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """Samples of one source within a block, from `offset` samples after the block's start."""

    offset: int
    source: int
    sample: int
    length: int


@dataclass(frozen=True, slots=True)
class Block:
    """Rendered frames: what they were made of, and the filters' memory before the first and after each one."""

    first_frame: int
    frames: int
    start: Place
    start_state: ChainState
    segments: tuple[Segment, ...]
    states: tuple[ChainState, ...]

    @property
    def end_frame(self) -> int:
        return self.first_frame + self.frames

    def place_at(self, frame: int) -> Place:
        """Where rendering stood before `frame`, which is in this block or just after it."""
        offset = (frame - self.first_frame) * FRAME_SAMPLES
        place = self.start
        for segment in self.segments:
            if segment.offset >= offset:
                break
            taken = min(segment.length, offset - segment.offset)
            place = Place(segment.source, segment.sample + taken, has_begun=True)
        return place

    def state_at(self, frame: int) -> ChainState:
        return self.states[frame - self.first_frame - 1] if frame > self.first_frame else self.start_state

    def cut_at(self, frame: int) -> "Block":
        """This block without the frames from `frame` on."""
        frames = frame - self.first_frame
        end = frames * FRAME_SAMPLES
        segments = tuple(
            replace(segment, length=min(segment.length, end - segment.offset))
            for segment in self.segments
            if segment.offset < end
        )
        return replace(self, frames=frames, segments=segments, states=self.states[:frames])


class Timeline:
    """The blocks of one epoch, oldest first, without gaps."""

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks

    def copy(self) -> "Timeline":
        return Timeline(list(self._blocks))

    def append(self, block: Block) -> None:
        self._blocks.append(block)

    def cut_at(self, frame: int) -> "tuple[Timeline, Place, ChainState] | None":
        """The timeline up to `frame` and what rendering stood at there. None when `frame` was not kept."""
        for index in range(len(self._blocks) - 1, -1, -1):
            block = self._blocks[index]
            if block.first_frame <= frame <= block.end_frame:
                kept = self._blocks[:index]
                if frame > block.first_frame:
                    kept.append(block.cut_at(frame))
                return Timeline(kept), block.place_at(frame), block.state_at(frame)
        return None

    def forget_before(self, frame: int) -> None:
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
        """For each source that stands in the timeline, its oldest sample there."""
        oldest: dict[int, int] = {}
        for block in self._blocks:
            for segment in block.segments:
                oldest.setdefault(segment.source, segment.sample)
        return oldest
