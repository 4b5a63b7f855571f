"""Records what a session has rendered, and from which samples: enough to render any stored frame again.

A `Timeline` has the samples of each source in each block of frames, and the state in which each block begins. The state
at a frame within a block results from rendering the block's first frames again. The samples themselves are in the
sources' stores (`sources.pcm_store`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, SILENT_FRAME
from tonearm.decoder.messages import Mark
from tonearm.worker.filters.chain import ChainState
from tonearm.worker.filters.limiter import Limits
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.mixing.overlays import NO_OVERLAYS, OverlayMix
from tonearm.worker.mixing.voices import ONE_VOICE, Voices
from tonearm.worker.packets.opus_encoder import NO_POINTS, EncoderPoints
from tonearm.worker.packets.passthrough import NOTHING_PASSED, Before, Passthrough
from tonearm.worker.sources.pcm_store import Segment, segments_between

FROM_START: Final = -1


# Named tuples: some of each are made for every block, and frozen dataclasses take longer to make.


class SourcePosition(NamedTuple):
    """The next sample of a source (0: no source). `has_begun`: its BEGIN mark was emitted.

    `FROM_START` is the first sample of a source that may not be open yet. `is_cut`: the source comes after a cut, so it
    fades in if it begins in its middle. `joins`: the source at whose end it begins.
    """

    source: int
    sample: int
    has_begun: bool
    is_cut: bool = False
    joins: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether it continues earlier sound: its own, or that of the source that it joins."""
        return self.has_begun or self.joins != 0


NO_SOURCE: Final = SourcePosition(0, 0, has_begun=False)


class RenderState(NamedTuple):
    """The state from which rendering continues at `frame`: the source position, the filters' state, the other voices,
    the overlays, and the states of the encoders and of passthrough. `filters_idle`: the filters did not run in the
    frames before, since there were no listeners."""

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
        """The time in samples since frame 0."""
        return self.frame * FRAME_SAMPLES

    def other_sounds(self) -> Sequence[tuple[int, int]]:
        """The other sounds beside the current source: each source with the first sample that rendering needs from here
        on."""
        if not self.voices.fades:
            return () if self.overlays.is_empty else self.overlays.oldest_samples(self.time)
        fades = [(fade.source, fade.sample_at(self.time)) for fade in self.voices.fades]
        return fades + self.overlays.oldest_samples(self.time)


class Gathered:
    """A session's input from its sources for a block: segments with silence after them, marks in them, and the voices
    mixed to them. `loudness`: each source's loudness when the block was first rendered, its own samples included."""

    def __init__(self, voices: Voices) -> None:
        self.segments: list[Segment] = []
        self.marks: list[Mark] = []
        self.samples = 0
        self.voices = voices
        self.loudness: dict[int, SourceLoudness] | None = None

    def take(self, source: int, sample: int, length: int) -> None:
        self.segments.append(Segment(self.samples, source, sample, length))
        self.samples += length

    def fill_frame(self) -> int:
        """Fills the last frame up with silence. Returns the number of silent samples."""
        missing = -self.samples % FRAME_SAMPLES
        self.samples += missing
        return missing

    def begins(self, start: RenderState) -> list[tuple[int, int]]:
        """The sources that begin in it: the offset in samples after `start`, and the source."""
        before = start.position.source if start.position.has_begun else None
        begins = []
        for segment in self.segments:
            if segment.source != before:
                begins.append((segment.offset, segment.source))
            before = segment.source
        return begins

    def begins_anew(self, start: RenderState) -> bool:
        """Whether music begins with the first sample after `start` and continues no earlier sound."""
        return bool(self.segments) and not (start.position.goes_on or self.voices.fades)

    def forget_behind(self, samples: int) -> None:
        if self.samples > samples:
            self.segments = list(segments_between(self.segments, 0, samples))
            self.samples = samples


def position_after(start: SourcePosition, segments: Sequence[Segment], samples: int) -> SourcePosition:
    """The position `samples` samples after `start`, where these segments begin.

    Just after the last sample of a source, the position is the end of that source, not yet the source that joins it.
    """
    for segment in reversed(segments):
        if segment.offset < samples:
            taken = min(segment.length, samples - segment.offset)
            return SourcePosition(segment.source, segment.sample + taken, has_begun=True)
    return start


class Block(NamedTuple):
    """Rendered frames: the state in which they begin, and their input, which may extend past their end.

    `limits` is the limiter's action; None when nothing was filtered: without listeners, or passed through. `is_paused`:
    the music stood still, and only overlays are in the block. `pcm` is the rendered PCM, stored only where it is
    encoded. `passthrough` is the state of passthrough after the block.
    """

    start: RenderState
    frames: int
    gathered: Gathered
    limits: Limits | None = None
    is_paused: bool = False
    pcm: bytes = b""
    passthrough: Passthrough = NOTHING_PASSED

    @property
    def end_frame(self) -> int:
        return self.start.frame + self.frames

    def after(self, frames: int, filters: ChainState) -> RenderState:
        """The state after its first frames, with `filters` after them, before encoding."""
        start, samples = self.start, frames * FRAME_SAMPLES
        voices, segments = self.gathered.voices, self.gathered.segments
        return start._replace(
            frame=start.frame + frames,
            position=position_after(start.position, segments, samples),
            filters=filters,
            voices=voices.later(samples) if self.is_paused else voices.at(start.time + samples),
            overlays=start.overlays.after(start.time, frames, was_paused=self.is_paused, has_music=bool(segments)),
        )

    def encoded_after(self, frames: int) -> tuple[EncoderPoints, Passthrough]:
        """The states of the encoders and of passthrough after its first frames, but not all of them."""
        start, after = self.start, self.passthrough
        pcm = self.pcm[: frames * FRAME_BYTES]
        # Passed packets have no PCM to delay, and no encoders.
        is_joined = any(output.passes_through for output, _ in start.encoders)
        delayed = start.passthrough.delayed(pcm) if is_joined else b""
        if after.before not in (Before.NOTHING, Before.PASSED):
            after = replace(after, before=Before.ENCODED, last=pcm[-FRAME_BYTES:], waited=0)
        points = tuple(
            (output, point.after(delayed if output.passes_through else pcm)) for output, point in start.encoders
        )
        return points, after


class Timeline:
    """The stored rendered blocks of one epoch, oldest first and without gaps. Rendering continues at `end`."""

    def __init__(self, end: RenderState, blocks: list[Block] | None = None) -> None:
        self.end = end
        self._blocks = blocks or []

    def append(self, block: Block, end: RenderState) -> None:
        """Adds a block that begins at the present `end`, and moves `end` after it."""
        self._blocks.append(block)
        self.end = end

    def cut_at(self, frame: int, state_after: Callable[[Block, int], RenderState]) -> "Timeline":
        """The timeline up to `frame`. A frame beyond the end counts as the end, a frame before the oldest stored frame
        as that frame. `state_after` renders the first frames of a block again."""
        if frame >= self.end.frame:
            return Timeline(self.end, list(self._blocks))
        for index in range(len(self._blocks) - 1, -1, -1):
            block = self._blocks[index]
            frames = frame - block.start.frame
            if frames > 0:
                return Timeline(state_after(block, frames), [*self._blocks[:index], block._replace(frames=frames)])
            if not frames:
                return Timeline(block.start, self._blocks[:index])
        return Timeline(self._blocks[0].start if self._blocks else self.end)

    def forget_before(self, frame: int) -> None:
        while self._blocks and self._blocks[0].end_frame <= frame:
            del self._blocks[0]

    def forget_pcm_before(self, frame: int) -> None:
        """Frees the PCM and the encoder states of the blocks that are wholly before `frame`."""
        for index, block in enumerate(self._blocks):
            if block.end_frame > frame:
                break
            if block.pcm:
                start = block.start._replace(encoders=NO_POINTS, passthrough=NOTHING_PASSED)
                self._blocks[index] = block._replace(start=start, pcm=b"", passthrough=NOTHING_PASSED)

    def pcm_between(self, first_frame: int, end_frame: int, heard_before: Callable[[int, int], bytes]) -> bytes:
        """The rendered PCM of these frames; silence where none is stored. `heard_before` returns up to a number of
        frames before a given frame: they were rendered before any encoded output had listeners."""
        pieces: list[bytes] = []
        frame = first_frame
        for block in self._blocks:
            start = max(frame, block.start.frame)
            end = min(end_frame, block.end_frame)
            if start < end and (block.pcm or not block.is_paused):
                pieces.append(SILENT_FRAME * (start - frame))
                offset = block.start.frame
                pcm = block.pcm[(start - offset) * FRAME_BYTES : (end - offset) * FRAME_BYTES]
                pieces.append(pcm or heard_before(end, end - start).rjust((end - start) * FRAME_BYTES, b"\0"))
                frame = end
        pieces.append(SILENT_FRAME * (end_frame - frame))
        return b"".join(pieces)

    def last_blocks(self, frames: int) -> list[tuple[Block, int]]:
        """The blocks of the last `frames` frames, or fewer, oldest first, each with the number of its last frames that
        count. Blocks in which the music stood still are left out."""
        blocks: list[tuple[Block, int]] = []
        for block in reversed(self._blocks):
            if frames <= 0:
                break
            if not block.is_paused:
                blocks.append((block, min(frames, block.frames)))
                frames -= block.frames
        return blocks[::-1]

    def oldest_samples(self) -> dict[int, int]:
        """For each source in the timeline and at its end, the oldest sample that rendering again needs."""
        oldest = {self.end.position.source: self.end.position.sample}
        for block in self._blocks:
            for _, source, sample, _ in block.gathered.segments:
                if sample < oldest.get(source, sample + 1):
                    oldest[source] = sample
        for state in (*(block.start for block in self._blocks), self.end):
            for source, sample in state.other_sounds():
                oldest[source] = min(sample, oldest.get(source, sample))
        return oldest
