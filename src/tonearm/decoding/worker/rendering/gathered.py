"""What a session takes from its sources for one block."""

from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.decoding.messages import Mark, MarkKind
from tonearm.decoding.worker.mixing.voices import Fade, Ramp, Voices
from tonearm.decoding.worker.sources.pcm_store import PcmStore, Segment, first_segments


class Gathered:
    """Samples for a block: where they come from, what happens in them, and the voices with them. Their PCM is read when
    somebody asks for it."""

    def __init__(self, voices: Voices) -> None:
        self._taken: list[tuple[PcmStore | None, int, int]] = []  # store, sample and length of each piece
        self._pieces: list[bytes] | None = None
        self.segments: list[Segment] = []
        self.marks: list[Mark] = []
        self.samples = 0
        self.voices = voices

    @property
    def pieces(self) -> list[bytes]:
        """The PCM: that of each segment, and silence after them."""
        if self._pieces is None:
            self._pieces = [
                bytes(length * SAMPLE_BLOCK_BYTES) if store is None else store.read(sample, length)
                for store, sample, length in self._taken
            ]
        return self._pieces

    def take(self, store: PcmStore, source: int, sample: int, length: int) -> None:
        self._taken.append((store, sample, length))
        self.segments.append(Segment(self.samples, source, sample, length))
        self.samples += length

    def begins(self, first_frame: int, frames: int) -> list[tuple[int, int]]:
        """With which sample after `first_frame` sources begin in these frames, and which."""
        if not self.marks:
            return []
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
            self._taken.append((None, 0, samples))
            self.samples += samples

    def forget_behind(self, samples: int) -> None:
        """Nothing is read of what lies behind the first `samples` samples."""
        if self.samples <= samples:
            return
        taken, offset = [], 0
        for store, sample, length in self._taken:
            kept = min(length, samples - offset)
            if kept <= 0:
                break
            taken.append((store, sample, kept))
            offset += kept
        self._taken = taken
        self.segments = list(first_segments(self.segments, samples))
        self.samples = offset

    def begin_crossfade(self, fade: Fade, rise: Ramp) -> None:
        """The next source begins with `rise`, and the one before goes on as `fade`."""
        self.voices = self.voices.giving_way(fade, rise)

    def begin_rise(self, rise: Ramp) -> None:
        """A source begins in the middle of its sound."""
        self.voices = Voices(self.voices.fades, (rise,))
