"""One player's sound in a decoder process: joins its sources, filters them and cuts them into numbered frames."""

from collections.abc import Mapping
from typing import Final, Protocol

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.decoder.filter_chain import ChainState, process
from tonearm.decoder.messages import GRANT_FRAMES, Audio, Grant, Mark, MarkKind, OpenSession, Plan
from tonearm.decoder.pcm_store import PcmStore
from tonearm.decoder.timeline import FROM_START, Block, Place, Segment, Timeline

BLOCK_FRAMES: Final = 5  # filters cost a third per sample on blocks of five frames of what they cost on single ones
HISTORY_FRAMES: Final = 25  # unfiltered frames kept behind what was sent: new filters are warmed up on half a second


class SessionSource(Protocol):
    """What a session knows of a source: its decoded PCM, and whether it can come to give any."""

    @property
    def store(self) -> PcmStore: ...

    @property
    def has_failed(self) -> bool:
        """Failed before it gave a sample."""
        ...


class Session:
    """Renders what was granted, as planned. `sources` is looked up only; who owns it opens and drops them."""

    def __init__(self, order: OpenSession, sources: Mapping[int, SessionSource]) -> None:
        self._id = order.session
        self._sources = sources
        self._epoch = order.epoch
        self._next_frame = order.first_frame
        self._sent = order.first_frame
        self._granted = order.first_frame + GRANT_FRAMES
        self._place = Place(0, 0, has_begun=False)
        self._state = ChainState.steady(order.filters)
        self._timelines: dict[int, Timeline] = {order.epoch: Timeline([])}
        self._followers: dict[int, int | None] = {}
        self._must_flush = False

    def follows(self, source: int) -> bool:
        """True when `source` waits behind another one."""
        return source != self._place.source

    def used_sample(self, source: int) -> int:
        """Up to which sample a source was rendered; what does not sound now counts as not begun."""
        start = self._sources[source].store.start
        return max(start, self._place.sample) if source == self._place.source else start

    def plan(self, order: Plan) -> None:
        """Takes up a plan: voids the frames from `at_frame` on. `render` makes the new ones."""
        base = self._timelines.get(order.base_epoch, Timeline([]))
        self._timelines = {order.base_epoch: base}
        cut = base.cut_at(order.at_frame)
        if cut is not None:
            timeline, self._place, self._state = cut
            self._next_frame = order.at_frame
        else:  # beyond what was rendered, or no longer kept
            timeline = base.copy()
            self._next_frame = min(self._next_frame, order.at_frame)
        self._timelines[order.epoch] = timeline
        self._epoch = order.epoch
        if order.switch_to is not None:
            self._place = Place(order.switch_to, FROM_START, has_begun=False)
            self._followers.clear()
        self._followers[order.after] = order.following
        self._must_flush = False
        self._change_filters(order, timeline)

    def grant(self, order: Grant) -> None:
        self._sent = max(self._sent, order.sent)
        self._granted = max(self._granted, order.granted)
        for epoch in [epoch for epoch in self._timelines if epoch < order.epoch and epoch != self._epoch]:
            del self._timelines[epoch]
        for timeline in self._timelines.values():
            timeline.forget_before(self._sent - HISTORY_FRAMES)
        self._release()

    def flush(self) -> None:
        self._must_flush = True

    def render(self) -> list[Audio]:
        """The frames that were granted and can be made of what is decoded."""
        rendered: list[Audio] = []
        while self._next_frame < self._granted:
            audio = self._render_block(min(BLOCK_FRAMES, self._granted - self._next_frame))
            if audio is None:
                break
            rendered.append(audio)
        return rendered

    def uses(self, source: int) -> bool:
        """Whether a source may still be rendered, or rendered again."""
        if source == self._place.source or source in self._followers.values():
            return True
        return any(source in timeline.oldest_samples() for timeline in self._timelines.values())

    def _render_block(self, frames: int) -> Audio | None:
        start, first_frame = self._place, self._next_frame
        pieces, segments, marks = self._gather(frames * FRAME_SAMPLES)
        samples = sum(map(len, pieces)) // SAMPLE_BLOCK_BYTES
        whole_frames = samples // FRAME_SAMPLES
        if samples % FRAME_SAMPLES:
            # A frame that is not full yet waits for its other samples; they are gathered again then.
            marks = [mark for mark in marks if mark.frame < first_frame + whole_frames]
            draft = Block(first_frame, whole_frames + 1, start, self._state, tuple(segments), ())
            self._place = draft.place_at(first_frame + whole_frames)
        if not whole_frames and not marks:
            return None
        pcm = b"".join(pieces)[: whole_frames * FRAME_BYTES]
        before = self._state
        filtered, states = process(before, pcm) if whole_frames else (b"", ())
        block = Block(first_frame, whole_frames, start, before, tuple(segments), states).cut_at(
            first_frame + whole_frames
        )
        if whole_frames:
            self._state = states[-1]
            self._timelines[self._epoch].append(block)
            self._next_frame = block.end_frame
        leading = segments[0] if segments else Segment(0, start.source, start.sample, 0)
        return Audio(
            self._id, self._epoch, first_frame, whole_frames, leading.source, leading.sample, tuple(marks), filtered
        )

    def _gather(self, samples: int) -> tuple[list[bytes], list[Segment], list[Mark]]:
        """Takes up to `samples` samples from the sources, moving the place on."""
        pieces: list[bytes] = []
        segments: list[Segment] = []
        marks: list[Mark] = []
        have = 0
        while have < samples and self._place.source:
            source = self._sources.get(self._place.source)
            if source is None:
                break  # planned, but not opened yet
            store = source.store
            if self._place.sample == FROM_START:
                self._place = Place(self._place.source, store.start, has_begun=False)
            place = self._place
            is_finished = store.is_finished  # read before `end`: samples are appended before the end is known
            available = store.end - place.sample
            if available > 0:
                taken = min(samples - have, available)
                if not place.has_begun:
                    marks.append(Mark(MarkKind.BEGIN, self._next_frame + have // FRAME_SAMPLES, place.source))
                pieces.append(store.read(place.sample, taken))
                segments.append(Segment(have, place.source, place.sample, taken))
                have += taken
                self._place = Place(place.source, place.sample + taken, has_begun=True)
                continue
            if not is_finished:
                break
            follower = self._followers.get(place.source)
            end = MarkKind.BROKE if store.is_broken else MarkKind.END
            if follower and self._can_join(follower):
                marks.append(Mark(end, self._next_frame + have // FRAME_SAMPLES, place.source))
                self._place = Place(follower, FROM_START, has_begun=False)
                continue
            if follower and not self._must_flush and not self._has_failed(follower):
                break  # the follower is being opened: its first samples join the last ones here
            missing = -have % FRAME_SAMPLES
            if missing:
                pieces.append(bytes(missing * SAMPLE_BLOCK_BYTES))
                have += missing
            marks.append(Mark(end, self._next_frame + have // FRAME_SAMPLES, place.source))
            self._place = Place(0, 0, has_begun=False)
        return pieces, segments, marks

    def _can_join(self, source: int) -> bool:
        known = self._sources.get(source)
        return known is not None and known.store.end > known.store.start

    def _has_failed(self, source: int) -> bool:
        known = self._sources.get(source)
        return known is not None and known.has_failed

    def _change_filters(self, order: Plan, timeline: Timeline) -> None:
        if order.filters != self._state.filters:
            segments = timeline.segments_backwards(HISTORY_FRAMES * FRAME_SAMPLES)
            history = b"".join(
                self._sources[segment.source].store.read(segment.sample, segment.length)
                for segment in reversed(segments)
                if segment.source in self._sources
            )
            self._state = self._state.changed(order.filters, history)

    def _release(self) -> None:
        oldest: dict[int, int] = {}
        for timeline in self._timelines.values():
            for source, sample in timeline.oldest_samples().items():
                oldest[source] = min(sample, oldest.get(source, sample))
        for source, known in self._sources.items():
            if source in oldest:
                known.store.release_before(oldest[source])
