"""What a session takes from its sources for one block."""

from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.decoding.messages import Mark, MarkKind
from tonearm.decoding.worker.timeline import Segment
from tonearm.decoding.worker.voices import Fade, Ramp, Voices


class Gathered:
    """Samples for a block: pieces of PCM, where they come from, what happens in them, and the voices with them."""

    def __init__(self, voices: Voices) -> None:
        self.pieces: list[bytes] = []
        self.segments: list[Segment] = []
        self.marks: list[Mark] = []
        self.samples = 0
        self.voices = voices

    def take(self, pcm: bytes, source: int, sample: int) -> None:
        length = len(pcm) // SAMPLE_BLOCK_BYTES
        self.pieces.append(pcm)
        self.segments.append(Segment(self.samples, source, sample, length))
        self.samples += length

    def begins(self, first_frame: int, frames: int) -> list[tuple[int, int]]:
        """With which sample after `first_frame` sources begin in these frames, and which."""
        return [
            ((mark.frame - first_frame) * FRAME_SAMPLES + mark.offset_samples, mark.source)
            for mark in self.marks
            if mark.kind is MarkKind.BEGIN and mark.frame < first_frame + frames
        ]

    def fill_frame(self) -> None:
        """Fills the last frame up with silence."""
        self.add_silence(-self.samples % FRAME_SAMPLES)

    def add_silence(self, samples: int) -> None:
        if samples:
            self.pieces.append(bytes(samples * SAMPLE_BLOCK_BYTES))
            self.samples += samples

    def begin_fade(self, fade: Fade) -> None:
        self.voices = Voices((*self.voices.fades, fade), self.voices.rise)

    def begin_rise(self, rise: Ramp) -> None:
        self.voices = Voices(self.voices.fades, rise)
