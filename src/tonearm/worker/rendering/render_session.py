"""One player's audio in a decoder process: renders the numbered frames of its plans, and keeps the data to render them
again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, PCM, SILENT_FRAME, Outputs
from tonearm.decoder.messages import (
    BURST_FRAMES,
    FIRST_OVERLAY_SOURCE,
    SHORT_GRANT_FRAMES,
    Audio,
    Burst,
    Grant,
    Mark,
    Measured,
    OpenSession,
    OverlayPosition,
    Plan,
)
from tonearm.worker.filters.chain import HISTORY_FRAMES, ChainState
from tonearm.worker.filters.limiter import LOOKAHEAD_SAMPLES, Limits
from tonearm.worker.packets.mp3 import Mp3Job, SentFrames
from tonearm.worker.packets.opus_encoder import NO_POINTS
from tonearm.worker.packets.passthrough import NOTHING_PASSED, Before, PacketRun, Passthrough
from tonearm.worker.rendering.block_packets import (
    FIRST_BLOCK_FRAMES,
    BlockPackets,
    Packets,
    history_before,
)
from tonearm.worker.rendering.block_pcm import BlockPcm
from tonearm.worker.rendering.joined_music import JoinedMusic, begins_with_tail
from tonearm.worker.rendering.session_sources import SessionSource, SessionSources
from tonearm.worker.rendering.timeline import NO_SOURCE, Block, Gathered, RenderState, Timeline, position_after
from tonearm.worker.sources.pcm_store import Segment


@dataclass(frozen=True, slots=True)
class _Continuation:
    """The frames from `frame` on continue those of an earlier session, whose process died: the first cut is no new
    beginning. `source`: the source after this cut. `is_due`: no frame of it was rendered yet."""

    frame: int
    source: int = 0
    is_due: bool = True

    def with_cut(self, frame: int, source: int) -> "_Continuation":
        """The continuation after a plan that cuts to a source. A plan for the same source may come again before the
        node has received any of the frames."""
        if self.is_due or (frame, source) == (self.frame, self.source):
            return _Continuation(self.frame, source)
        return self


_BEGINNING: Final = _Continuation(-1, is_due=False)


class RenderSession:
    """Renders granted frames according to the newest plan. Its owner opens and drops the sources in `sources`."""

    def __init__(self, order: OpenSession, sources: Mapping[int, SessionSource]) -> None:
        self._id = order.session
        self._first_frame = order.first_frame
        self._is_for_nobody = not order.is_heard
        self._epoch = order.epoch
        self._sent = order.first_frame
        self._granted = order.first_frame + SHORT_GRANT_FRAMES
        self._sources = SessionSources(sources, order.filters)
        self._music = JoinedMusic(self._sources)
        self._block_pcm = BlockPcm(self._sources, self._music)
        self._packets = BlockPackets(self._sources)
        passthrough = NOTHING_PASSED
        if order.lag_samples is not None:
            passthrough = Passthrough(Before.ENCODED, order.lag_samples)
        begin = RenderState(order.first_frame, NO_SOURCE, ChainState.steady(order.filters), passthrough=passthrough)
        self._timeline = Timeline(begin)
        # By epoch: the newest plan's timeline, and the timeline that the node still sends from.
        self._timelines = {order.epoch: self._timeline}
        self._mp3 = SentFrames(order.session, order.mp3_from)
        self._mp3_jobs: list[Mp3Job] = []
        self.is_changed = False  # the next frame differs from the frame rendered under that number
        self._due_before = 0  # frames before it are made without missing music, while overlays play
        self._is_rebuffering = False  # music was missing under overlays: it continues when some is decoded ahead
        self._continuation = _Continuation(order.first_frame) if order.first_frame > 0 else _BEGINNING

    # Questions of its owner

    @property
    def current_source(self) -> int:
        """The source that plays where the rendered frames end; 0 for none."""
        return self._sources.file_of(self._music.position.source)

    @property
    def position_rate(self) -> float:
        return self._sources.position_rate

    @property
    def reads_ahead(self) -> int:
        return self._sources.reads_ahead

    @property
    def is_heard(self) -> bool:
        return bool(self._packets.outputs) and not self._is_for_nobody

    @property
    def has_begun(self) -> bool:
        """Whether frames of its player were rendered, in this session or an earlier session."""
        return self._timeline.end.frame > 0

    @property
    def has_rendered(self) -> bool:
        return self._timeline.end.frame > self._first_frame

    @property
    def has_overlays(self) -> bool:
        """Whether overlays add to or change the music in the next frames."""
        return not self._timeline.end.overlays.change_nothing

    @property
    def has_frames_to_render(self) -> bool:
        return self._timeline.end.frame < self._granted

    @property
    def frames_ahead(self) -> int:
        return self._timeline.end.frame - self._sent

    def is_current(self, source: int) -> bool:
        """True for a source that is being rendered; false for a source that comes next or is over."""
        if source >= FIRST_OVERLAY_SOURCE:
            return True
        is_music = source == self._sources.file_of(self._music.position.source)
        return is_music or source in self._music.fading_samples(self._timeline.end)

    def used_up_to(self, source: int) -> int:
        """The first sample of a source that was not rendered yet. For a source that is not current, its start."""
        start, end, position = self._sources.start_of(source), self._timeline.end, self._music.position
        if source == self._sources.file_of(position.source):
            return max(start, self._sources.file_sample(position.source, position.sample))
        if source >= FIRST_OVERLAY_SOURCE:
            return dict(end.overlays.oldest_samples(end.time)).get(source, start)
        return self._music.fading_samples(end).get(source, start)

    def uses(self, source: int) -> bool:
        if source == self._sources.file_of(self._music.position.source) or self._music.comes_next(source):
            return True
        return any(source == self._sources.file_of(used) for used in self._rendered_sources())

    def take_mp3_jobs(self) -> list[Mp3Job]:
        """The jobs for frames that were reported as sent, in order."""
        jobs, self._mp3_jobs = self._mp3_jobs, []
        return jobs

    def take_measured(self) -> Iterator[Measured]:
        """New loudness measurements of sources, for the node to store."""
        return self._sources.take_measured(self._id)

    # Orders

    def plan(self, order: Plan) -> None:
        """Applies a plan: voids the frames and marks from `at_frame` on. `render` makes the new ones.

        When fewer frames were rendered, the plan begins at their end, since frames have no gaps. Only a cut begins
        exactly at `at_frame`: the frames before it are not needed any more.
        """
        base = self._timelines.get(order.base_epoch, self._timeline)
        self._timeline = base.cut_at(order.at_frame, self._rendered_again)
        end = self._timeline.end
        if order.switch_to is not None and end.frame < order.at_frame:
            voices = end.voices.at(order.at_frame * FRAME_SAMPLES)
            self._timeline = Timeline(end._replace(frame=order.at_frame, voices=voices))
        if order.from_silence and not self.has_overlays:
            # From here on filters, encoders and packets contain no earlier sound, whatever outputs or settings follow.
            end = self._timeline.end
            passthrough = replace(end.passthrough.cut(), last=SILENT_FRAME)
            self._timeline = Timeline(end._replace(encoders=NO_POINTS, passthrough=passthrough))
        self._timelines = {order.base_epoch: base, order.epoch: self._timeline}
        self._epoch = order.epoch
        self.is_changed = order.switch_to is None and bool(self._packets.outputs)
        self._granted = min(self._granted, max(order.at_frame, self._sent) + SHORT_GRANT_FRAMES)
        before = self._timeline.end
        overlays = before.overlays.ordered(
            order, before.time, music_sounds=order.switch_to is None and before.position.has_begun
        )
        cuts_off = False
        if order.switch_to is not None:
            self._is_rebuffering = True
            self._continuation = self._continuation.with_cut(before.frame, order.switch_to)
            cuts_off = not self._continuation.is_due
        is_silent = order.from_silence or overlays.is_paused
        voices = self._music.plan(order, before, self._rendered_sources(), is_silent=is_silent, begins_anew=cuts_off)
        if order.from_silence:
            filters = before.filters.anew(order.filters)
        elif before.frame == 0 or (cuts_off and voices.are_one):
            filters = before.filters.at_once(order.filters)
        elif order.filters == before.filters.filters:
            filters = before.filters
        else:  # audio that continues, if only to fade out, glides to the new settings
            filters = before.filters.changed(order.filters, history_before(self._timeline, self._sources))
        self._timeline.end = before._replace(
            position=self._music.position,
            filters=filters,
            voices=voices,
            overlays=overlays,
            passthrough=before.passthrough.cut() if cuts_off else before.passthrough,
        )
        if order.outputs is not None:
            self._render_for(order.outputs)
        self._warm_filters_up()

    def heard(self) -> None:
        self._is_for_nobody = False

    def grant(self, order: Grant, *, has_memory: bool = True) -> None:
        """Notes which frames were sent and which may be rendered, and releases data that no plan can need any more.
        Without a burst, which takes a quarter of the session's memory, a stream begins with half a second at most."""
        self._sent = max(self._sent, order.sent)
        self._granted = max(self._granted, order.granted)
        self._due_before = order.due_before
        overlays = self._timeline.end.overlays
        if overlays.over:
            overlays = overlays.without_those_over(self._sent * FRAME_SAMPLES)
            self._timeline.end = self._timeline.end._replace(overlays=overlays)
        if order.outputs is not self._packets.outputs:
            self._render_for(order.outputs)
            self._warm_filters_up()
        if self._packets.are_encoded:
            timeline = self._timelines.get(order.epoch, self._timeline)
            is_over = not self._music.position.source
            heard_before = partial(self._heard_before, timeline)
            self._mp3_jobs += self._mp3.hand_in(
                self._packets.outputs,
                self._sent,
                timeline.end.frame,
                lambda first_frame, end_frame: timeline.pcm_between(first_frame, end_frame, heard_before),
                lambda frame: heard_before(frame, BURST_FRAMES),
                is_over=is_over,
            )
        for epoch in [epoch for epoch in self._timelines if epoch < order.epoch and epoch != self._epoch]:
            del self._timelines[epoch]
        kept_frames = HISTORY_FRAMES + (BURST_FRAMES if order.keeps_burst and has_memory else 0)
        for timeline in self._timelines.values():
            # No plan begins before the sent frames. The PCM before them warms up new filters, and begins new streams.
            timeline.forget_before(self._sent - kept_frames)
            if self._packets.are_encoded:
                timeline.forget_pcm_before(self._sent)
        self._sources.release(self._timelines.values(), self._music.position.source)

    def burst(self, order: Burst) -> None:
        """Encodes frames that were sent before, for a new stream."""
        timeline = self._timeline.cut_at(order.before_frame, self._rendered_again)
        is_there = timeline.end.frame == order.before_frame
        pcm = self._packets.sent_before(timeline, order.frames) if is_there else b""
        first_frame = order.before_frame - len(pcm) // FRAME_BYTES
        self._mp3_jobs.append(Mp3Job(self._id, order.output, first_frame, order.before_frame, pcm, True))

    def flush(self) -> None:
        self._music.flush()

    # Rendering

    def render(self) -> Audio | None:
        """Renders the next block of granted frames, as far as their samples are decoded. None when no frames can be
        made."""
        start = self._timeline.end
        if start.frame >= self._granted:
            return None
        frames = self._packets.frames_of_block(start.passthrough)
        if self.is_changed and self.frames_ahead < FIRST_BLOCK_FRAMES:
            frames = FIRST_BLOCK_FRAMES
        frames = min(frames, self._granted - start.frame)
        if start.position != self._music.position:
            start = start._replace(position=self._music.position)
        if not self._packets.outputs and not start.filters_idle:
            start = start._replace(filters=ChainState.steady(start.filters.filters), filters_idle=True)
        if not start.overlays.is_empty:
            audio = self._render_with_overlays(start, frames)
        else:
            audio = self._render_music(start, frames)
        if audio is not None:
            self.is_changed = False
        return audio

    def _render_with_overlays(self, start: RenderState, frames: int) -> Audio | None:
        """Renders overlays also where the music is paused, is over, or is late."""
        due_frames = self._due_before - start.frame
        overlays, frames = start.overlays.fitted(start.time, frames, due_frames, self._sources.supply_of)
        if not frames:
            return None
        start = start._replace(overlays=overlays)
        if not overlays.is_paused:
            if not (self._is_rebuffering and overlays.sound) or self._music.has_enough():
                audio = self._render_music(start, frames)
                if audio is not None:
                    return audio
            elif begins_with_tail(start):
                return self._render_music(start, 1, is_tail=True)
            if due_frames <= 0:
                return None
            self._is_rebuffering = True
            frames = min(frames, due_frames)
        return self._render_overlays(start, frames) if overlays.sound else None

    def _render_music(self, start: RenderState, frames: int, *, is_tail: bool = False) -> Audio | None:
        """Renders up to `frames` frames of music. `is_tail`: only the tail of the sound before a cut, not yet the new
        source."""
        music, packets = self._music, self._packets
        limits = self._block_pcm.limits(start, frames) if packets.outputs else Limits(frames)
        frames, ahead = limits.frames, LOOKAHEAD_SAMPLES if limits.looks_ahead else 0
        if is_tail:
            gathered = Gathered(start.voices)
            gathered.samples = frames * FRAME_SAMPLES
        else:
            gathered = music.gather(start, frames * FRAME_SAMPLES + ahead)
        samples, marks = gathered.samples, gathered.marks
        if music.position.source and gathered.segments:  # otherwise no further samples will come
            samples -= ahead
        frames = min(frames, max(samples, 0) // FRAME_SAMPLES)
        run = packets.next_run(start, gathered, frames)
        if run is not None:
            frames = run.frames
        if gathered.samples > frames * FRAME_SAMPLES:
            # A partial frame waits for its other samples, and the look-ahead is rendered later. Both are gathered again
            # then.
            music.position = position_after(start.position, gathered.segments, frames * FRAME_SAMPLES)
            marks = [mark for mark in marks if mark.frame < start.frame + frames]
            gathered.forget_behind(frames * FRAME_SAMPLES + ahead)
        if not frames and not marks:
            return None
        if not start.overlays.is_empty and gathered.begins_anew(start):
            start = start._replace(overlays=start.overlays.before_music())
        history = packets.history_for(self._timeline, start, run)
        segments = gathered.segments if frames else []
        block = Block(start, frames, gathered)
        if packets.needs_no_pcm(run):
            packets.stop_reading_pcm(segments)
        elif packets.outputs:
            block = block._replace(limits=limits)
        if frames:
            marks = music.marks(block, marks)
            if self._continuation.is_due:
                self._continuation = replace(self._continuation, is_due=False)
        first = segments[0] if segments else Segment(0, 0, 0, 0)
        self._is_rebuffering &= not segments
        rate = self.position_rate if segments or not start.overlays.sound else 0.0
        return self._emit(block, first, rate, marks, run, history)

    def _render_overlays(self, start: RenderState, frames: int) -> Audio:
        """Renders frames of overlays alone; the music stands still, with its filters and fades."""
        if start.overlays.gate is not None and start.overlays.gate.falls:
            frames = 1  # the music fades out in this frame, and the frame cannot be made again from stored data
        limits = self._block_pcm.limits(start, frames) if self._packets.outputs else None
        position = start.position
        first = Segment(0, 0, 0, 0)
        if position.has_begun:
            first = Segment(0, position.source, position.sample, 0)
        run = self._packets.run_of_overlays(start, frames)
        history = self._packets.history_for(self._timeline, start, run)
        block = Block(start, frames, Gathered(start.voices), limits, is_paused=True)
        return self._emit(block, first, 0.0, [], run, history)

    def _emit(
        self,
        block: Block,
        first: Segment,
        rate: float,
        marks: list[Mark],
        run: PacketRun | None,
        history: bytes | None,
    ) -> Audio:
        """Renders and stores a block, if it has frames, and makes its message. `first` has the position of its first
        sample."""
        start, frames = block.start, block.frames
        pcm = b""
        packets: Packets = ()
        overlays: tuple[OverlayPosition, ...] = ()
        if frames:
            pcm, end = self._made(block, frames)
            block, end, packets = self._packets.encode(self._timeline, block, end, run, pcm, history)
            self._timeline.append(block, end)
            overlays = start.overlays.positions(start.time, frames)
        source = self._sources.file_of(first.source)
        sample = self._sources.file_sample(first.source, first.sample)
        sent_pcm = pcm if PCM in self._packets.outputs else b""
        return Audio(
            self._id,
            self._epoch,
            start.frame,
            frames,
            source,
            sample,
            tuple(marks),
            sent_pcm,
            rate,
            packets,
            overlays,
            is_passed=run is not None and bool(run.packets),
            lag_samples=block.passthrough.lag_samples,
        )

    def _made(self, block: Block, frames: int) -> tuple[bytes, RenderState]:
        """The PCM of the first frames of a block, and the state after them, without encoding."""
        start, pcm, filters = block.start, b"", block.start.filters
        if block.limits is not None and block.is_paused:
            before_pause = partial(self._music.frame_before_pause, start)
            pcm, filters = self._block_pcm.overlays_alone(start, frames, block.limits, before_pause)
        elif block.limits is not None:
            pcm, filters = self._block_pcm.music(start, frames, block.gathered, block.limits)
        end = block.after(frames, filters)
        return pcm, self._block_pcm.levelled_unheard(end) if block.limits is None else end

    def _rendered_again(self, block: Block, frames: int) -> RenderState:
        """The state after the first frames of a block, but not all of them. The frames are made again, and not sent."""
        encoders, passthrough = block.encoded_after(frames)
        return self._made(block, frames)[1]._replace(encoders=encoders, passthrough=passthrough)

    def _heard_before(self, timeline: Timeline, frame: int, frames: int) -> bytes:
        """Up to `frames` frames before `frame`, as listeners heard them, or would have heard them."""
        return self._packets.sent_before(timeline.cut_at(frame, self._rendered_again), frames)

    def _render_for(self, outputs: Outputs) -> None:
        self._packets.render_for(outputs)
        self._mp3.keep(outputs)

    def _warm_filters_up(self) -> None:
        """Gives the filters, when the first listener comes, the state as if they had run before."""
        end = self._timeline.end
        if end.filters_idle and self._packets.outputs:
            settled = ChainState.steady(end.filters.filters, history_before(self._timeline, self._sources))
            settled = settled.with_output(end.filters.level, settled.limiter)
            self._timeline.end = end._replace(filters=settled, filters_idle=False)

    def _rendered_sources(self) -> set[int]:
        """All sources that may be rendered again, by the session's own numbers."""
        return {source for timeline in self._timelines.values() for source in timeline.oldest_samples()}
