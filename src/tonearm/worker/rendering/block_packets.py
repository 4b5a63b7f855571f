"""The packets of a session's blocks, encoded or passed through from its sources."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, NO_OUTPUTS, PCM_ONLY, PRIMING_FRAMES, Output, Outputs
from tonearm.decoder.messages import GRANT_FRAMES, PASSED_GRANT_FRAMES
from tonearm.worker.filters.chain import HISTORY_FRAMES, ChainState, as_pcm, process
from tonearm.worker.mixing.voices import mixed
from tonearm.worker.packets.opus_encoder import NO_POINTS, NOTHING_ENCODED, PacketEncoders
from tonearm.worker.packets.passthrough import (
    NOTHING_PASSED,
    RUN_HISTORY_FRAMES,
    Before,
    PacketRun,
    Passthrough,
    first_allowed,
    needs_history,
    next_run,
    packets_of_run,
)
from tonearm.worker.rendering.block_pcm import levelled_again
from tonearm.worker.rendering.session_sources import SessionSources
from tonearm.worker.rendering.timeline import Block, Gathered, RenderState, Timeline
from tonearm.worker.sources.packet_store import PacketStore
from tonearm.worker.sources.pcm_store import Segment, segments_between

# Larger blocks cost less CPU time for each frame, in filters and messages. But a change waits until the current block
# is done.
BLOCK_FRAMES: Final = 20
ENCODED_BLOCK_FRAMES: Final = 10  # fewer, since encoding takes most of the time
PASSED_BLOCK_FRAMES: Final = PASSED_GRANT_FRAMES - GRANT_FRAMES  # as a grant allows: passing through is cheap
FIRST_BLOCK_FRAMES: Final = 4  # after a change, for whose first frame listeners wait

Packets: TypeAlias = tuple[tuple[Output, tuple[bytes, ...]], ...]


class BlockPackets:
    """Makes the packets of one block after the other, for the outputs that have listeners."""

    def __init__(self, sources: SessionSources) -> None:
        self._sources = sources
        self._encoders = PacketEncoders()
        self._encoded = self._joined = NO_OUTPUTS  # outputs without packets of sources, and with them
        self.outputs = PCM_ONLY
        self.are_encoded = False  # an output other than PCM has listeners

    def render_for(self, outputs: Outputs) -> None:
        """Sets the outputs that have listeners from now on."""
        self.outputs = outputs
        self.are_encoded = any(form.format != "pcm" for form in outputs)
        self._joined = frozenset(form for form in outputs if form.passes_through)
        self._encoded = outputs - self._joined
        self._encoders.forget_all_but(outputs)

    # Before a block is rendered

    def frames_of_block(self, passthrough: Passthrough) -> int:
        """The most frames of the next block, with this state of passthrough before it."""
        only_passes = passthrough.before is Before.PASSED and self._joined == self.outputs
        if only_passes:
            return PASSED_BLOCK_FRAMES
        return ENCODED_BLOCK_FRAMES if self.are_encoded else BLOCK_FRAMES

    def next_run(self, start: RenderState, gathered: Gathered, frames: int) -> PacketRun | None:
        """The next frames that are passed through, or encoded, together. None when no output receives packets of
        sources."""
        if not frames or not self._joined:
            return None
        sources = self._sources
        if not any(isinstance(sources.store_of(segment.source), PacketStore) for segment in gathered.segments):
            most = min(frames, ENCODED_BLOCK_FRAMES)
            return next_run(start.passthrough, most, gathered.segments, None, sources.store_of)
        first = first_allowed(
            start.filters,
            gathered.voices,
            start.time,
            [sources.loudness_of(sources.file_of(segment.source)) for segment in gathered.segments],
            is_stretched=sources.are_stretched,
            has_overlays=not start.overlays.change_nothing,
        )
        run = next_run(start.passthrough, frames, gathered.segments, first, sources.store_of)
        if frames > ENCODED_BLOCK_FRAMES and not run.packets:
            return next_run(start.passthrough, ENCODED_BLOCK_FRAMES, gathered.segments, first, sources.store_of)
        return run

    def run_of_overlays(self, start: RenderState, frames: int) -> PacketRun | None:
        """The run of frames with overlays alone: all are encoded."""
        return PacketRun(frames, start.passthrough.lag_samples) if self._joined else None

    def needs_no_pcm(self, run: PacketRun | None) -> bool:
        return run is not None and bool(run.packets) and self._joined == self.outputs

    def stop_reading_pcm(self, segments: Sequence[Segment]) -> None:
        """Marks the PCM of these sources as not read for now, so that it need not be decoded."""
        for segment in segments:
            store = self._sources.store_of(segment.source)
            if isinstance(store, PacketStore):
                store.stop_reading()

    def history_for(self, timeline: Timeline, start: RenderState, run: PacketRun | None) -> bytes | None:
        """The frames before a run, when its encoder restarts; otherwise None. Call this before the PCM of the run is
        read, since packets are decoded in order."""
        if run is None or run.packets or not needs_history(start.passthrough, start.encoders, self._joined):
            return None
        if start.passthrough.follows_passed:  # listeners heard the source unchanged, whatever settings apply now
            return history_before(timeline, self._sources, RUN_HISTORY_FRAMES)
        return self._last_frames(timeline, RUN_HISTORY_FRAMES)

    # After a block is rendered

    def encode(
        self,
        timeline: Timeline,
        block: Block,
        end: RenderState,
        run: PacketRun | None,
        pcm: bytes,
        history: bytes | None,
    ) -> tuple[Block, RenderState, Packets]:
        """The block that comes next in `timeline`, with the data to encode its frames again; the state after it; and
        its packets. `end` is the state after the block without encoding."""
        if not self.are_encoded or not (pcm or run is not None):
            return block, end._replace(encoders=NO_POINTS, passthrough=NOTHING_PASSED), ()
        start = block.start
        plain = self._encoders.encode(pcm, self._encoded, start.encoders, lambda: self._last_frames(timeline))
        joined, before, after = NOTHING_ENCODED, NOTHING_PASSED, NOTHING_PASSED
        if run is not None:
            joined, before, after = packets_of_run(
                self._encoders,
                start.passthrough,
                start.encoders,
                self._joined,
                run,
                pcm,
                history,
                is_silent=not block.gathered.segments,
            )
        start = start._replace(encoders=plain.before + joined.before, passthrough=before)
        block = block._replace(start=start, pcm=pcm, passthrough=after)
        end = end._replace(encoders=plain.after + joined.after, passthrough=after)
        return block, end, plain.packets + joined.packets

    def sent_before(self, timeline: Timeline, frames: int) -> bytes:
        """Up to `frames` of the last frames as listeners heard them, or would have heard them, without overlays."""
        return self._last_frames(timeline, frames) or b""

    def _last_frames(self, timeline: Timeline, frames: int = PRIMING_FRAMES) -> bytes | None:
        """As `sent_before`; None before the first frame."""
        end = timeline.end
        if not end.frame:
            return None
        filters = end.filters.filters_before
        is_flat = ChainState.steady(filters).changes_nothing
        history = history_before(timeline, self._sources, frames if is_flat else frames + HISTORY_FRAMES)
        size = min(frames, len(history) // FRAME_BYTES) * FRAME_BYTES
        if not size:
            return b""
        pcm = process(ChainState.steady(filters, history[:-size]), history[-size:])[0]
        return levelled_again(pcm, filters, end.filters.level.gain_db, end.voices)


def history_before(timeline: Timeline, sources: SessionSources, frames: int = HISTORY_FRAMES) -> bytes:
    """The music just before the next frame, with all its voices and without filters, as far as it is stored."""
    return b"".join([_unfiltered(block, last, sources) for block, last in timeline.last_blocks(frames)])


def _unfiltered(block: Block, frames: int, sources: SessionSources) -> bytes:
    """The last frames of a block."""
    end, voices = block.frames * FRAME_SAMPLES, block.gathered.voices
    first = end - frames * FRAME_SAMPLES
    segments = segments_between(block.gathered.segments, first, end)
    pcm = bytes(sources.pcm_of(segments)).ljust(frames * FRAME_BYTES, b"\0")
    return pcm if voices.are_one else as_pcm(mixed(pcm, block.start.time + first, voices, sources.view))
