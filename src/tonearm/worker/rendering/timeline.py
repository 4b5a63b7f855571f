"""What a session has rendered, and from what: enough to render any kept frame again.

A `Timeline` says which samples of which source lie in which frame, and keeps the state of the filters after each frame.
The samples themselves are in the sources' stores (`sources.pcm_store`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, SILENT_FRAME
from tonearm.worker.filters.chain import ChainState
from tonearm.worker.mixing.overlays import NO_OVERLAYS, OverlayMix
from tonearm.worker.mixing.voices import ONE_VOICE, Voices
from tonearm.worker.packets.opus_encoder import NO_POINTS, EncoderPoints
from tonearm.worker.packets.passthrough import NOTHING_PASSED, Before, Passthrough
from tonearm.worker.sources.pcm_store import Segment, first_segments

FROM_START: Final = -1


# Named tuples, since some of each are made for every block, and frozen dataclasses take longer.


class SourcePosition(NamedTuple):
    """The next sample of a source (0: no source). `has_begun`: its BEGIN mark was emitted.

    `FROM_START` is the first sample of a source that may not be open yet. `is_cut`: the source was cut to, so that one
    that begins in the middle fades in. `joins`: the source at whose end it begins.
    """

    source: int
    sample: int
    has_begun: bool
    is_cut: bool = False
    joins: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether something sounded just before that it continues: itself, or the source that it joins."""
        return self.has_begun or self.joins != 0


NO_SOURCE: Final = SourcePosition(0, 0, has_begun=False)


class Checkpoint(NamedTuple):
    """All that is needed to render from `frame` on: the position in the source, the state of the filters, the other
    voices, which may be over, the overlays, and where the encoders and the passthrough of packets stand.
    `filters_idle`: the filters did not run in the frames before, since there were no listeners."""

    frame: int
    position: SourcePosition
    filters: ChainState
    voices: Voices = ONE_VOICE
    encoders: EncoderPoints = NO_POINTS
    filters_idle: bool = False
    overlays: OverlayMix = NO_OVERLAYS
    passthrough: Passthrough = NOTHING_PASSED

    @property
    def time(self) -> int:
        """In samples since frame 0."""
        return self.frame * FRAME_SAMPLES

    def other_sounds(self) -> Sequence[tuple[int, int]]:
        """What sounds beside the current source: by source, the first sample that is needed to render from here on."""
        if not self.voices.fades:
            return () if self.overlays.is_empty else self.overlays.oldest_samples(self.time)
        fades = [(fade.source, fade.sample_at(self.time)) for fade in self.voices.fades]
        return fades + self.overlays.oldest_samples(self.time)


def position_after(start: SourcePosition, segments: Sequence[Segment], samples: int) -> SourcePosition:
    """The position so many samples after `start`, from which these segments go on.

    Just after the last sample of a source, the position is the end of that source, not yet the one that joins.
    """
    for segment in reversed(segments):
        if segment.offset < samples:
            taken = min(segment.length, samples - segment.offset)
            return SourcePosition(segment.source, segment.sample + taken, has_begun=True)
    return start


class Block(NamedTuple):
    """Rendered frames: the segments and other voices that they were rendered from, and the state of the filters after
    each frame.

    `pcm` is what was rendered, kept only where it is encoded. `encoders_before` and `encoders` are where the encoders
    stand before and after the block, `passthrough` how that of packets stands after it. `filters_idle`: without
    listeners nothing was filtered. `is_paused`: the music stood still, and only overlays are in the block.
    """

    start: Checkpoint
    frames: int
    segments: tuple[Segment, ...]
    filters: Sequence[ChainState]
    voices: Voices = ONE_VOICE
    pcm: bytes = b""
    encoders_before: EncoderPoints = NO_POINTS
    encoders: EncoderPoints = NO_POINTS
    filters_idle: bool = False
    is_paused: bool = False
    passthrough: Passthrough = NOTHING_PASSED

    @property
    def end_frame(self) -> int:
        return self.start.frame + self.frames

    def checkpoint_at(self, frame: int) -> Checkpoint:
        """The checkpoint before `frame`, which lies in this block or just after it."""
        frames = frame - self.start.frame
        if not frames:
            return self.start
        time = frame * FRAME_SAMPLES
        if self.is_paused:
            voices = self.voices.later(frames * FRAME_SAMPLES)
        else:
            voices = self.voices.begun_before(time).at(time)
        return Checkpoint(
            frame=frame,
            position=position_after(self.start.position, self.segments, frames * FRAME_SAMPLES),
            filters=self.filters[frames - 1],
            voices=voices,
            encoders=self._encoders_at(frames),
            filters_idle=self.filters_idle,
            overlays=self.start.overlays.after(
                self.start.time, frames, was_paused=self.is_paused, has_music=bool(self.segments)
            ),
            passthrough=self._passthrough_at(frames),
        )

    def cut_at(self, frame: int) -> "Block":
        """This block without the frames from `frame` on."""
        frames = frame - self.start.frame
        end = frames * FRAME_SAMPLES
        segments = first_segments(self.segments, end)
        voices = self.voices if self.is_paused else self.voices.begun_before(frame * FRAME_SAMPLES)
        return self._replace(
            frames=frames,
            segments=segments,
            filters=self.filters[:frames],
            voices=voices,
            encoders=self._encoders_at(frames),
            passthrough=self._passthrough_at(frames),
        )

    def last_frames(self, frames: int) -> "BlockPart":
        first = (self.frames - frames) * FRAME_SAMPLES
        segments = []
        for segment in self.segments:
            left_out = max(first - segment.offset, 0)
            if left_out < segment.length:
                offset, length = segment.offset + left_out - first, segment.length - left_out
                segments.append(Segment(offset, segment.source, segment.sample + left_out, length))
        time = self.start.time + first
        return BlockPart(time, frames, tuple(segments), self.voices.at(time))

    def _encoders_at(self, frames: int) -> EncoderPoints:
        if frames == self.frames:
            return self.encoders
        pcm = self.pcm[: frames * FRAME_BYTES]
        # Of packets that were passed through nothing is known to delay, and they have no encoders.
        is_joined = any(output.passes_through for output, _ in self.encoders_before)
        delayed = self.start.passthrough.delayed(pcm) if is_joined else b""
        return tuple(
            (output, point.after(delayed if output.passes_through else pcm)) for output, point in self.encoders_before
        )

    def _passthrough_at(self, frames: int) -> Passthrough:
        after = self.passthrough
        if frames == self.frames or after.before in (Before.NOTHING, Before.PASSED):
            return after
        last = self.pcm[(frames - 1) * FRAME_BYTES : frames * FRAME_BYTES]
        return replace(after, before=Before.ENCODED, last=last, waited=0)


class BlockPart(NamedTuple):
    """What lies in frames of a block from `time` on: segments that are counted from there, silence after them, and the
    other voices."""

    time: int
    frames: int
    segments: tuple[Segment, ...]
    voices: Voices


class Timeline:
    """The rendered blocks of one epoch that are kept, oldest first and without gaps. Rendering goes on at `end`."""

    def __init__(self, end: Checkpoint, blocks: list[Block] | None = None) -> None:
        self.end = end
        self._blocks = blocks or []

    def append(self, block: Block) -> None:
        """Adds a block that begins at `end`, and moves `end` behind it."""
        self._blocks.append(block)
        self.end = block.checkpoint_at(block.end_frame)

    def cut_at(self, frame: int) -> "Timeline":
        """The timeline up to `frame`. A frame beyond its end, or before the oldest kept frame, counts as that one."""
        if frame >= self.end.frame:
            return Timeline(self.end, list(self._blocks))
        for index in range(len(self._blocks) - 1, -1, -1):
            block = self._blocks[index]
            if block.start.frame < frame:
                return Timeline(block.checkpoint_at(frame), [*self._blocks[:index], block.cut_at(frame)])
            if block.start.frame == frame:
                return Timeline(block.start, self._blocks[:index])
        return Timeline(self._blocks[0].start if self._blocks else self.end)

    def forget_before(self, frame: int) -> None:
        while self._blocks and self._blocks[0].end_frame <= frame:
            del self._blocks[0]

    def forget_pcm_before(self, frame: int) -> None:
        """Frees what was rendered in the blocks that lie wholly before `frame`."""
        for index, block in enumerate(self._blocks):
            if block.end_frame > frame:
                break
            if block.pcm:
                self._blocks[index] = block._replace(
                    pcm=b"", encoders_before=NO_POINTS, encoders=NO_POINTS, passthrough=NOTHING_PASSED
                )

    def pcm_between(self, first_frame: int, end_frame: int, made_again: Callable[["Timeline", int], bytes]) -> bytes:
        """What was rendered in these frames; silence where nothing is kept. `made_again` gives that of the last frames
        of a timeline, or fewer: they were rendered before anybody wanted it encoded."""
        pieces: list[bytes] = []
        frame = first_frame
        for block in self._blocks:
            start = max(frame, block.start.frame)
            end = min(end_frame, block.end_frame)
            if start < end and (block.pcm or not block.is_paused):
                pieces.append(SILENT_FRAME * (start - frame))
                offset = block.start.frame
                pcm = block.pcm[(start - offset) * FRAME_BYTES : (end - offset) * FRAME_BYTES]
                pieces.append(
                    pcm or made_again(self.cut_at(end), end - start).rjust((end - start) * FRAME_BYTES, b"\0")
                )
                frame = end
        pieces.append(SILENT_FRAME * (end_frame - frame))
        return b"".join(pieces)

    def last_parts(self, frames: int) -> list[BlockPart]:
        """The last `frames` frames, or fewer, oldest first. Those in which the music stood still are left out."""
        parts: list[BlockPart] = []
        for block in reversed(self._blocks):
            if frames <= 0:
                break
            if not block.is_paused:
                parts.append(block.last_frames(min(frames, block.frames)))
                frames -= block.frames
        return parts[::-1]

    def oldest_samples(self) -> dict[int, int]:
        """For each source in the timeline, and the one at its end, the oldest sample that is needed to render again."""
        oldest = {self.end.position.source: self.end.position.sample}
        for block in self._blocks:
            for segment in block.segments:
                if segment.sample < oldest.get(segment.source, segment.sample + 1):
                    oldest[segment.source] = segment.sample
        for checkpoint in (*(block.start for block in self._blocks), self.end):
            for source, sample in checkpoint.other_sounds():
                oldest[source] = min(sample, oldest.get(source, sample))
        return oldest

    def begins_with(self) -> dict[int, int]:
        """As `oldest_samples`, but only for the sources that sound where the kept blocks begin. Of other sources
        nothing may be released."""
        if not self._blocks:
            return self.oldest_samples()
        first = self._blocks[0]
        oldest = {segment.source: segment.sample for segment in first.segments[:1]}
        for source, sample in first.start.other_sounds():
            oldest[source] = min(sample, oldest.get(source, sample))
        return oldest
