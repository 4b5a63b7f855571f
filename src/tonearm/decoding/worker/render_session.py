"""One player's sound in a decoder process: joins its sources, filters them and cuts them into numbered frames."""

from collections.abc import Mapping
from typing import Final, Protocol

from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.decoding.messages import GRANT_FRAMES, Audio, Grant, Mark, MarkKind, OpenSession, Plan
from tonearm.decoding.worker.filter_chain import HISTORY_FRAMES, ChainState, process
from tonearm.decoding.worker.timeline import FROM_START, Block, Checkpoint, PcmStore, Segment, SourcePosition, Timeline

# The equalizer costs a third a sample on blocks of ten frames of what it costs on single ones, and so do messages.
BLOCK_FRAMES: Final = 10
_NOWHERE: Final = SourcePosition(0, 0, has_begun=False)


class SessionSource(Protocol):
    """What a session knows of a source: its decoded PCM, and whether it can come to give any."""

    @property
    def store(self) -> PcmStore: ...

    @property
    def has_failed(self) -> bool:
        """Failed before it gave a sample."""
        ...


class RenderSession:
    """Renders what was granted, as planned. `sources` is looked up only; who owns it opens and drops them."""

    def __init__(self, order: OpenSession, sources: Mapping[int, SessionSource]) -> None:
        self._id = order.session
        self._sources = sources
        self._epoch = order.epoch
        self._sent = order.first_frame
        self._granted = order.first_frame + GRANT_FRAMES
        # Where rendering goes on. It differs from the timeline's end when a source has ended there: a plan begins
        # before that end, so that it is told again.
        self._place = _NOWHERE
        self._timeline = Timeline(Checkpoint(order.first_frame, _NOWHERE, ChainState.steady(order.filters)))
        self._timelines = {order.epoch: self._timeline}
        self._followers: dict[int, int | None] = {}
        self._must_flush = False
        self._has_listeners = True
        self._goes_on = order.first_frame > 0  # with what was heard of another session, until it has rendered itself

    def follows(self, source: int) -> bool:
        """True when `source` does not sound now: it waits behind another one, or is over."""
        return source != self._place.source

    def used_sample(self, source: int) -> int:
        """Up to which sample a source was rendered; what does not sound now counts as not begun."""
        start = self._sources[source].store.start
        return max(start, self._place.sample) if source == self._place.source else start

    def uses(self, source: int) -> bool:
        """Whether a source may still be rendered, or rendered again."""
        if source == self._place.source or source in self._followers.values():
            return True
        return any(source in timeline.oldest_samples() for timeline in self._timelines.values())

    def plan(self, order: Plan) -> None:
        """Takes up a plan: voids the frames and marks from `at_frame` on. `render` makes the new ones.

        When less was rendered than up to `at_frame`, the plan begins at once, since frames have no gaps.
        """
        base = self._timelines.get(order.base_epoch, self._timeline)
        self._timeline = base.cut_at(order.at_frame)
        self._timelines = {order.base_epoch: base, order.epoch: self._timeline}
        self._epoch = order.epoch
        before = self._timeline.end
        self._place = before.place
        if order.switch_to is not None:
            self._place = SourcePosition(order.switch_to, FROM_START, has_begun=False)
            self._followers.clear()
        self._followers[order.after] = order.following
        self._forget_followers(order.after)
        self._must_flush = False
        if before.frame == 0 or (order.switch_to is not None and not self._goes_on):
            filters = before.filters.at_once(order.filters)
        else:  # a sound that goes on glides
            filters = self._with_filters(order.filters)
        self._timeline.end = Checkpoint(before.frame, self._place, filters)

    def grant(self, order: Grant) -> None:
        """Takes up how far frames were sent and may be rendered, and forgets what is not needed any more."""
        self._sent = max(self._sent, order.sent)
        self._granted = max(self._granted, order.granted)
        if order.has_listeners and not self._has_listeners:
            self._warm_filters_up()
        self._has_listeners = order.has_listeners
        for epoch in [epoch for epoch in self._timelines if epoch < order.epoch and epoch != self._epoch]:
            del self._timelines[epoch]
        for timeline in self._timelines.values():
            # No plan reaches back beyond what was sent; new filters are warmed up on what came before it.
            timeline.forget_before(self._sent - HISTORY_FRAMES)
        self._release()

    def flush(self) -> None:
        """The following source is not waited for any more."""
        self._must_flush = True

    @property
    def is_hungry(self) -> bool:
        """Frames are granted that were not rendered yet."""
        return self._timeline.end.frame < self._granted

    def render(self) -> list[Audio]:
        """The frames that were granted and can be made of what is decoded."""
        rendered: list[Audio] = []
        while (frames := min(BLOCK_FRAMES, self._granted - self._timeline.end.frame)) > 0:
            audio = self._render_block(frames)
            if audio is None:
                break
            rendered.append(audio)
        return rendered

    def _render_block(self, frames: int) -> Audio | None:
        start = Checkpoint(self._timeline.end.frame, self._place, self._timeline.end.filters)
        pieces, segments, marks = self._gather(start.frame, frames * FRAME_SAMPLES)
        samples = sum(map(len, pieces)) // SAMPLE_BLOCK_BYTES
        frames = samples // FRAME_SAMPLES
        end_frame = start.frame + frames
        block = Block(start, frames, tuple(segments), ())
        if samples % FRAME_SAMPLES:
            # A frame that is not full yet waits for its other samples; they are gathered again then.
            self._place = block.place_at(end_frame)
            marks = [mark for mark in marks if mark.frame < end_frame]
            block = block.cut_at(end_frame)
        pcm = b""
        if frames:
            if self._has_listeners:
                pcm, filters = process(start.filters, b"".join(pieces)[: frames * FRAME_BYTES])
            else:
                filters = (ChainState.steady(start.filters.filters),) * frames
            self._timeline.append(Block(start, frames, block.segments, filters))
            self._goes_on = False
        elif not marks:
            return None
        first = segments[0] if segments else Segment(0, start.place.source, max(start.place.sample, 0), 0)
        return Audio(self._id, self._epoch, start.frame, frames, first.source, first.sample, tuple(marks), pcm)

    def _gather(self, first_frame: int, samples: int) -> tuple[list[bytes], list[Segment], list[Mark]]:
        """Takes up to `samples` samples from the sources, moving the place on."""
        pieces: list[bytes] = []
        segments: list[Segment] = []
        marks: list[Mark] = []
        have = 0
        while have < samples and self._place.source:
            known = self._sources.get(self._place.source)
            if known is None:
                break  # planned, but not opened yet
            store = known.store
            if self._place.sample == FROM_START:
                self._place = SourcePosition(self._place.source, store.oldest, has_begun=False)
            place = self._place
            taken = min(samples - have, store.end - place.sample)
            if taken > 0:
                if not place.has_begun:
                    frames, offset_samples = divmod(have, FRAME_SAMPLES)
                    marks.append(Mark(MarkKind.BEGIN, first_frame + frames, place.source, offset_samples))
                pieces.append(store.read(place.sample, taken))
                segments.append(Segment(have, place.source, place.sample, taken))
                have += taken
                self._place = SourcePosition(place.source, place.sample + taken, has_begun=True)
                continue
            follower = self._followers.get(place.source)
            joins = follower is not None and self._can_join(follower)
            if not store.is_finished or (follower and not joins and self._is_awaited(follower)):
                break  # more is to come: of this source, or the first samples of the one that joins its last ones
            if not joins:
                missing = -have % FRAME_SAMPLES
                if missing:
                    pieces.append(bytes(missing * SAMPLE_BLOCK_BYTES))
                    have += missing
            end = MarkKind.BROKE if store.is_broken else MarkKind.END
            marks.append(Mark(end, first_frame + have // FRAME_SAMPLES, place.source))
            self._place = SourcePosition(follower, FROM_START, has_begun=False) if follower and joins else _NOWHERE
        return pieces, segments, marks

    def _can_join(self, source: int) -> bool:
        known = self._sources.get(source)
        return known is not None and known.store.end > known.store.oldest

    def _is_awaited(self, source: int) -> bool:
        """Whether a source that has given nothing yet is waited for."""
        known = self._sources.get(source)
        return not self._must_flush and (known is None or not (known.has_failed or known.store.is_finished))

    def _with_filters(self, filters: Filters) -> ChainState:
        state = self._timeline.end.filters
        if filters == state.filters:
            return state
        return state.changed(filters, self._history())

    def _warm_filters_up(self) -> None:
        """Somebody listens again: the filters come in as if they had run on what was not heard."""
        end = self._timeline.end
        warm = ChainState.steady(end.filters.filters, self._history())
        self._timeline.end = Checkpoint(end.frame, end.place, warm)

    def _history(self) -> bytes:
        """The unfiltered PCM just before the next frame."""
        segments = self._timeline.segments_backwards(HISTORY_FRAMES * FRAME_SAMPLES)
        return b"".join(
            self._sources[segment.source].store.read(segment.sample, segment.length)
            for segment in reversed(segments)
            if segment.source in self._sources
        )

    def _forget_followers(self, after: int) -> None:
        """Forgets what follows sources that cannot come to sound any more."""
        reachable = {after, self._place.source}
        for timeline in self._timelines.values():
            reachable.update(timeline.oldest_samples())
        for source in tuple(reachable):
            follower = self._followers.get(source)
            while follower is not None and follower not in reachable:
                reachable.add(follower)
                follower = self._followers.get(follower)
        self._followers = {source: follower for source, follower in self._followers.items() if source in reachable}

    def _release(self) -> None:
        oldest: dict[int, int] = {}
        for timeline in self._timelines.values():
            for source, sample in timeline.oldest_samples().items():
                oldest[source] = min(sample, oldest.get(source, sample))
        for source, known in self._sources.items():
            if source in oldest:
                known.store.release_before(oldest[source])
