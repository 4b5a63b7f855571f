"""One player's audio in a decoder process: joins its sources, filters them and cuts them into numbered frames."""

from collections.abc import Mapping
from typing import Final, Protocol

from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.decoding.messages import GRANT_FRAMES, Audio, Grant, Mark, MarkKind, OpenSession, Plan
from tonearm.decoding.worker.filters.chain import HISTORY_FRAMES, ChainState, process
from tonearm.decoding.worker.timeline import FROM_START, Block, Checkpoint, PcmStore, Segment, SourcePosition, Timeline

# Filters cost a third as much for each sample in blocks of ten frames as in single frames; messages are cheaper, too.
BLOCK_FRAMES: Final = 10
_NO_SOURCE: Final = SourcePosition(0, 0, has_begun=False)


class SessionSource(Protocol):
    """What a session reads of a source."""

    @property
    def store(self) -> PcmStore:
        """Its decoded PCM."""
        ...

    @property
    def has_failed(self) -> bool:
        """True when it failed before it gave a sample, so that none will come."""
        ...


class RenderSession:
    """Renders granted frames as the newest plan says. Its owner opens and drops the sources in `sources`."""

    def __init__(self, order: OpenSession, sources: Mapping[int, SessionSource]) -> None:
        self._id = order.session
        self._sources = sources
        self._epoch = order.epoch
        self._sent = order.first_frame
        self._granted = order.first_frame + GRANT_FRAMES
        # Where rendering goes on. At the end of a source it is already behind that end, while the timeline's end is
        # before it: a plan that begins there emits the END mark again.
        self._position = _NO_SOURCE
        self._timeline = Timeline(Checkpoint(order.first_frame, _NO_SOURCE, ChainState.steady(order.filters)))
        # By epoch: the newest plan's timeline, and the one that the node still sends from.
        self._timelines = {order.epoch: self._timeline}
        self._next_of: dict[int, int | None] = {}  # by source: the source that joins at its end
        self._must_flush = False
        self._has_listeners = True
        # The first frames continue those of an earlier session, whose process died: a cut is no new beginning.
        self._continues_audio = order.first_frame > 0

    def is_current(self, source: int) -> bool:
        """True for the source that is being rendered; false for one that comes next or is over."""
        return source == self._position.source

    def used_up_to(self, source: int) -> int:
        """The first sample of a source that was not rendered yet. For a source that is not current, its start."""
        start = self._sources[source].store.start
        return max(start, self._position.sample) if source == self._position.source else start

    def uses(self, source: int) -> bool:
        """Whether a source may still be rendered, or rendered again."""
        if source == self._position.source or source in self._next_of.values():
            return True
        return any(source in timeline.oldest_samples() for timeline in self._timelines.values())

    def plan(self, order: Plan) -> None:
        """Applies a plan: voids the frames and marks from `at_frame` on. `render` makes the new ones.

        When fewer frames were rendered, the plan begins at the end of those, since frames have no gaps.
        """
        base = self._timelines.get(order.base_epoch, self._timeline)
        self._timeline = base.cut_at(order.at_frame)
        self._timelines = {order.base_epoch: base, order.epoch: self._timeline}
        self._epoch = order.epoch
        before = self._timeline.end
        self._position = before.position
        if order.switch_to is not None:
            self._position = SourcePosition(order.switch_to, FROM_START, has_begun=False)
            self._next_of.clear()
        self._next_of[order.after] = order.following
        self._forget_unreachable(order.after)
        self._must_flush = False
        if before.frame == 0 or (order.switch_to is not None and not self._continues_audio):
            filters = before.filters.at_once(order.filters)
        else:  # audio that continues glides to the new settings
            filters = self._changed_filters(order.filters)
        self._timeline.end = Checkpoint(before.frame, self._position, filters)

    def grant(self, order: Grant) -> None:
        """Notes which frames were sent and which may be rendered, and releases what no plan can need any more."""
        self._sent = max(self._sent, order.sent)
        self._granted = max(self._granted, order.granted)
        if order.has_listeners and not self._has_listeners:
            self._warm_filters_up()
        self._has_listeners = order.has_listeners
        for epoch in [epoch for epoch in self._timelines if epoch < order.epoch and epoch != self._epoch]:
            del self._timelines[epoch]
        for timeline in self._timelines.values():
            # No plan begins before the frames that were sent; new filters are warmed up on the PCM before them.
            timeline.forget_before(self._sent - HISTORY_FRAMES)
        self._release_samples()

    def flush(self) -> None:
        """The next source is no longer waited for: a last partial frame is filled up with silence."""
        self._must_flush = True

    @property
    def has_frames_to_render(self) -> bool:
        """True when frames are granted that were not rendered yet."""
        return self._timeline.end.frame < self._granted

    def render(self) -> list[Audio]:
        """Renders the granted frames, as far as their samples are decoded."""
        rendered: list[Audio] = []
        while (frames := min(BLOCK_FRAMES, self._granted - self._timeline.end.frame)) > 0:
            audio = self._render_block(frames)
            if audio is None:
                break
            rendered.append(audio)
        return rendered

    def _render_block(self, frames: int) -> Audio | None:
        start = Checkpoint(self._timeline.end.frame, self._position, self._timeline.end.filters)
        pieces, segments, marks = self._gather(start.frame, frames * FRAME_SAMPLES)
        samples = sum(map(len, pieces)) // SAMPLE_BLOCK_BYTES
        frames = samples // FRAME_SAMPLES
        end_frame = start.frame + frames
        block = Block(start, frames, tuple(segments), ())
        if samples % FRAME_SAMPLES:
            # A partial frame waits for its other samples. They are gathered again then.
            self._position = block.position_at(end_frame)
            marks = [mark for mark in marks if mark.frame < end_frame]
            block = block.cut_at(end_frame)
        pcm = b""
        if frames:
            if self._has_listeners:
                pcm, filters = process(start.filters, b"".join(pieces)[: frames * FRAME_BYTES])
            else:
                filters = (ChainState.steady(start.filters.filters),) * frames
            self._timeline.append(Block(start, frames, block.segments, filters))
            self._continues_audio = False
        elif not marks:
            return None
        first = segments[0] if segments else Segment(0, start.position.source, max(start.position.sample, 0), 0)
        return Audio(self._id, self._epoch, start.frame, frames, first.source, first.sample, tuple(marks), pcm)

    def _gather(self, first_frame: int, samples: int) -> tuple[list[bytes], list[Segment], list[Mark]]:
        """Takes up to `samples` samples from the sources, and moves the position on."""
        pieces: list[bytes] = []
        segments: list[Segment] = []
        marks: list[Mark] = []
        gathered = 0
        while gathered < samples and self._position.source:
            source = self._sources.get(self._position.source)
            if source is None:
                break  # planned, but not opened yet
            store = source.store
            if self._position.sample == FROM_START:
                self._position = SourcePosition(self._position.source, store.oldest, has_begun=False)
            position = self._position
            taken = min(samples - gathered, store.end - position.sample)
            if taken > 0:
                if not position.has_begun:
                    frames, offset_samples = divmod(gathered, FRAME_SAMPLES)
                    marks.append(Mark(MarkKind.BEGIN, first_frame + frames, position.source, offset_samples))
                pieces.append(store.read(position.sample, taken))
                segments.append(Segment(gathered, position.source, position.sample, taken))
                gathered += taken
                self._position = SourcePosition(position.source, position.sample + taken, has_begun=True)
                continue
            next_source = self._next_of.get(position.source)
            joins = next_source is not None and self._has_samples(next_source)
            if not store.is_finished or (next_source and not joins and self._may_give_samples(next_source)):
                break  # samples are still to come, of this source or of the one that joins its last ones
            if not joins:
                missing = -gathered % FRAME_SAMPLES
                if missing:
                    pieces.append(bytes(missing * SAMPLE_BLOCK_BYTES))
                    gathered += missing
            end = MarkKind.INTERRUPTED if store.is_interrupted else MarkKind.END
            marks.append(Mark(end, first_frame + gathered // FRAME_SAMPLES, position.source))
            self._position = (
                SourcePosition(next_source, FROM_START, has_begun=False) if next_source and joins else _NO_SOURCE
            )
        return pieces, segments, marks

    def _has_samples(self, source_id: int) -> bool:
        source = self._sources.get(source_id)
        return source is not None and source.store.end > source.store.oldest

    def _may_give_samples(self, source_id: int) -> bool:
        """Whether the first samples of a source are worth waiting for."""
        source = self._sources.get(source_id)
        return not self._must_flush and (source is None or not (source.has_failed or source.store.is_finished))

    def _changed_filters(self, filters: Filters) -> ChainState:
        state = self._timeline.end.filters
        if filters == state.filters:
            return state
        return state.changed(filters, self._history())

    def _warm_filters_up(self) -> None:
        """The first listener came: gives the filters the state they would have, had they run all the time."""
        end = self._timeline.end
        warm = ChainState.steady(end.filters.filters, self._history())
        self._timeline.end = Checkpoint(end.frame, end.position, warm)

    def _history(self) -> bytes:
        """The unfiltered PCM just before the next frame."""
        segments = self._timeline.segments_backwards(HISTORY_FRAMES * FRAME_SAMPLES)
        return b"".join(
            self._sources[segment.source].store.read(segment.sample, segment.length)
            for segment in reversed(segments)
            if segment.source in self._sources
        )

    def _forget_unreachable(self, after: int) -> None:
        """Forgets what joins at the end of sources that cannot be rendered any more."""
        reachable = {after, self._position.source}
        for timeline in self._timelines.values():
            reachable.update(timeline.oldest_samples())
        for source in tuple(reachable):
            next_source = self._next_of.get(source)
            while next_source is not None and next_source not in reachable:
                reachable.add(next_source)
                next_source = self._next_of.get(next_source)
        self._next_of = {source: following for source, following in self._next_of.items() if source in reachable}

    def _release_samples(self) -> None:
        """Frees the PCM that lies before everything that may be rendered again."""
        oldest: dict[int, int] = {}
        for timeline in self._timelines.values():
            for source_id, sample in timeline.oldest_samples().items():
                oldest[source_id] = min(sample, oldest.get(source_id, sample))
        for source_id, source in self._sources.items():
            if source_id in oldest:
                source.store.release_before(oldest[source_id])
