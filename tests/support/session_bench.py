"""A decoder session without a process: sources in memory, and what the node would send of what is rendered."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from msgspec import structs

from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, PCM, PCM_ONLY, Output, Outputs
from tonearm.decoder.messages import (
    GRANT_FRAMES,
    PASSED_GRANT_FRAMES,
    SHORT_GRANT_FRAMES,
    Audio,
    CrossfadeOrder,
    Grant,
    Mark,
    MarkKind,
    OpenSession,
    OverlayOrder,
    Plan,
)
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.rendering.block_packets import BLOCK_FRAMES, PASSED_BLOCK_FRAMES
from tonearm.worker.rendering.render_session import RenderSession
from tonearm.worker.rendering.session_sources import SessionSource
from tonearm.worker.sources.pcm_store import PcmStore

# What fades in within 5 ms does so by half a cosine: the gain of each sample block.
RISE: Final = (0.5 - 0.5 * np.cos(np.pi * (np.arange(240) + 0.5) / 240))[:, np.newaxis]


class StoredSource:
    """A source of given PCM, decoded already."""

    def __init__(
        self, pcm: bytes = b"", *, start: int = 0, is_finished: bool = True, is_interrupted: bool = False
    ) -> None:
        self.store = PcmStore(start)
        self.loudness = SourceLoudness()
        self.has_failed = False
        if pcm:
            self.store.append(pcm)
        if is_finished:
            self.store.finish(is_interrupted=is_interrupted)

    def arrive(self, pcm: bytes) -> None:
        """The rest of its sound."""
        self.store.append(pcm)
        self.store.finish(is_interrupted=False)


class MemorySource(StoredSource):
    """A source whose PCM the test appends. Each sample is different from those near it and of other sources."""

    def __init__(self, number: int, samples: int = 0, *, start_sample: int = 0, ends: bool = False) -> None:
        super().__init__(start=start_sample, is_finished=False)
        self._number = number
        self.append(samples)
        if ends:
            self.store.finish(is_interrupted=False)

    def append(self, samples: int) -> None:
        if samples:
            self.store.append(self.pcm(self.store.end, samples))

    def pcm(self, start: int, samples: int) -> bytes:
        """What this source holds there."""
        index = np.arange(start, start + samples, dtype=np.int64)
        left = (index * 7919 + self._number * 104_729) % 20_011 - 10_000
        right = (index * 6101 + self._number * 15_485_863) % 19_997 - 10_000
        return np.stack([left, right], axis=1).astype("<i2").tobytes()


def render_all(session: RenderSession) -> list[Audio]:
    """All blocks that can be rendered now."""
    return list(iter(session.render, None))


class SessionBench:
    """Drives a session as the node does. `frames` and `marks` are what would be sent: only the newest plan counts.
    Marks of an end are without the silence behind it."""

    def __init__(
        self,
        sources: Mapping[int, SessionSource],
        filters: Filters | None = None,
        first_frame: int = 0,
        lag_samples: int | None = None,
    ) -> None:
        self.sources: Any = sources
        self.filters = filters or Filters()
        self.first_frame = first_frame
        self.session = RenderSession(OpenSession(1, 1, first_frame, self.filters, lag_samples=lag_samples), sources)
        self.frames: dict[int, bytes] = {}
        self.passed: dict[int, bool] = {}  # whether these frames' packets are the source's
        self.packets: dict[Output, dict[int, bytes]] = {}  # by output and frame
        self.outputs: Outputs = PCM_ONLY
        self.marks: list[Mark] = []
        self.audios: list[Audio] = []
        self.sent = first_frame
        self.granted = first_frame + SHORT_GRANT_FRAMES
        self.only_passes = False  # so the node grants more
        self.crossfade: CrossfadeOrder | None = None  # so it grants less
        self.epoch = 1
        self.sent_epoch = 1
        self.overlays: tuple[OverlayOrder, ...] = ()
        self.pauses = False
        self.due_before = 0
        self.keeps_burst = True
        self.has_memory = True

    @property
    def end_frame(self) -> int:
        return max(self.frames, default=self.first_frame - 1) + 1

    @property
    def pcm(self) -> bytes:
        """All frames so far, sent or not."""
        return b"".join(self.frames[frame] for frame in range(self.first_frame, self.end_frame))

    def plan(
        self,
        at_frame: int,
        *,
        switch_to: int | None = None,
        after: int = 0,
        following: int | None = None,
        filters: Filters | None = None,
        base_epoch: int | None = None,
        crossfade: CrossfadeOrder | None = None,
        cut_fade: CrossfadeOrder | None = None,
        outputs: Outputs | None = None,
    ) -> None:
        """Sends a plan based on the epoch that is being sent; its frames come with `render`."""
        self.epoch += 1
        self.filters = filters or self.filters
        epochs = self.epoch, self.sent_epoch if base_epoch is None else base_epoch
        plan = Plan(1, *epochs, at_frame, switch_to, switch_to or after, following, self.filters, crossfade, cut_fade)
        self.session.plan(structs.replace(plan, outputs=outputs, overlays=self.overlays, pauses=self.pauses))
        self.only_passes = False
        self.crossfade = crossfade
        self.granted = min(self.granted, max(at_frame, self.sent) + SHORT_GRANT_FRAMES)

    def change(self, *steps: tuple[int, Filters]) -> None:
        """Sends the frames before each step and changes the filters of source 1 there."""
        for frame, filters in steps:
            self.run(frame)
            self.plan(self.sent, after=1, filters=filters)

    def play(self, source: int, following: int | None = None) -> None:
        """Cuts to a source at the next frame that would be sent."""
        self.plan(self.sent, switch_to=source, following=following)

    def listen(self, *outputs: Output) -> None:
        """From the next frame that would be sent on, frames are wanted in these forms."""
        gains = not self.outputs >= set(outputs)
        self.outputs = frozenset(outputs)
        if gains and self.end_frame > self.sent:
            self.plan(self.sent, after=1, outputs=self.outputs)
        self.grant()

    def render(self) -> list[Audio]:
        """Takes what the session renders."""
        audios = render_all(self.session)
        for audio in audios:
            self.take(audio)
        return audios

    def take(self, audio: Audio) -> None:
        """Checks what must hold for every message."""
        assert audio.epoch == self.epoch
        assert len(audio.pcm) == (audio.frames * FRAME_BYTES if PCM in self.outputs else 0)
        assert audio.frames or audio.marks, "an empty message"
        self.only_passes = audio.is_passed and all(form.passes_through for form in self.outputs)
        assert audio.frames <= (PASSED_BLOCK_FRAMES if self.only_passes else BLOCK_FRAMES)
        assert audio.first_frame + audio.frames <= self.granted, "more than was granted"
        assert audio.first_frame <= self.end_frame, "frames are missing"
        if audio.epoch != self.sent_epoch:
            self.sent_epoch = audio.epoch
            self.void_from(audio.first_frame)
        assert audio.first_frame == self.end_frame
        pcm = bytes(audio.pcm)
        for index in range(audio.frames):
            self.frames[audio.first_frame + index] = pcm[index * FRAME_BYTES : (index + 1) * FRAME_BYTES]
            self.passed[audio.first_frame + index] = audio.is_passed
        for output, packets in audio.packets:
            assert output in self.outputs
            assert len(packets) == audio.frames
            of_output = self.packets.setdefault(output, {})
            of_output.update(zip(range(audio.first_frame, self.end_frame), packets, strict=True))
        for mark in audio.marks:
            assert audio.first_frame <= mark.frame <= audio.first_frame + audio.frames
            is_end = mark.kind in (MarkKind.END, MarkKind.INTERRUPTED)
            self.marks.append(replace(mark, offset_samples=0) if is_end else mark)
        self.audios.append(audio)

    def void_from(self, frame: int) -> None:
        self.frames = {number: pcm for number, pcm in self.frames.items() if number < frame}
        # As in the node's buffer: a source that has faded out before is not reported again.
        self.marks = [
            mark for mark in self.marks if mark.frame < frame or (mark.frame == frame and mark.kind is MarkKind.FADED)
        ]

    def send(self, frames: int = 1) -> None:
        """Sends as many frames as are there, up to `frames`, and grants as many again."""
        self.sent = max(self.sent, min(self.sent + frames, self.end_frame))
        ahead = GRANT_FRAMES if self.crossfade is None else SHORT_GRANT_FRAMES
        ahead = PASSED_GRANT_FRAMES if self.only_passes else ahead
        self.granted = max(self.granted, self.sent + ahead)
        self.grant()

    def grant(self) -> None:
        order = Grant(1, self.sent_epoch, self.sent, self.granted, self.outputs, self.due_before, self.keeps_burst)
        self.session.grant(order, has_memory=self.has_memory)

    def run(self, frames: int | None = None) -> bytes:
        """Renders and sends until nothing more comes, or `frames` were sent and what is granted then is rendered. The
        PCM of all frames."""
        while frames is None or self.sent < self.first_frame + frames:
            before = self.sent, self.end_frame
            self.render()
            self.send(5 if frames is None else min(5, self.first_frame + frames - self.sent))
            if (self.sent, self.end_frame) == before:
                break
        if frames is not None:
            self.render()
        return self.pcm


def playing(
    *sources: SessionSource,
    filters: Filters | None = None,
    outputs: Iterable[Output] = PCM_ONLY,
    crossfade: CrossfadeOrder | None = None,
) -> SessionBench:
    """Sources 1, 2, …, of which the first one plays, and the second after it."""
    bench = SessionBench(dict(enumerate(sources, 1)), filters)
    bench.listen(*outputs)
    bench.plan(0, switch_to=1, following=2 if len(sources) > 1 else None, crossfade=crossfade)
    return bench


def padded(pcm: bytes) -> bytes:
    """Filled up to whole frames."""
    return pcm + bytes(-len(pcm) % FRAME_BYTES)


def with_tail(frame: bytes, tail: bytes) -> bytes:
    """A frame, filled up with silence, over which `tail` fades out within 5 ms: half a cosine."""
    mixed = np.zeros((FRAME_SAMPLES, 2))
    for samples, gain in ((frame, np.ones(FRAME_SAMPLES)), (tail, 1.0 - RISE[:, 0])):
        values = np.frombuffer(samples, dtype="<i2").reshape(-1, 2)
        mixed[: len(values)] += values * gain[: len(values), np.newaxis]
    return np.rint(mixed).astype("<i2").tobytes()


def risen(pcm: bytes) -> bytes:
    """A sound that fades in within 5 ms: half a cosine."""
    samples = np.frombuffer(pcm, dtype="<i2").reshape(-1, 2).astype(np.float64)
    samples[:240] *= RISE[: len(samples)]
    return np.rint(samples).astype("<i2").tobytes()


def frame_count(samples: int) -> int:
    return -(-samples // FRAME_SAMPLES)
