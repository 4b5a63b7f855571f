"""One player's audio in a decoder process: joins its sources, filters them and cuts them into numbered frames."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final, Protocol

import numpy as np

from tonearm.core.crossfade import SHORTEST_REST_MS
from tonearm.core.effects import NO_EFFECTS, Timescale
from tonearm.core.filters import Filters
from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES, samples_of_ms
from tonearm.core.outputs import NO_OUTPUTS, PCM, PCM_ONLY, Output, Outputs
from tonearm.decoding.messages import (
    FIRST_OVERLAY_SOURCE,
    GRANT_FRAMES,
    Audio,
    Crossfade,
    Grant,
    Mark,
    MarkKind,
    Measured,
    OpenSession,
    OverlayPosition,
    Plan,
)
from tonearm.decoding.worker.filters.blocks import Planes
from tonearm.decoding.worker.filters.chain import HISTORY_FRAMES, ChainState, apply, process
from tonearm.decoding.worker.filters.limiter import LOOKAHEAD_SAMPLES, QUIET
from tonearm.decoding.worker.gathered import Gathered
from tonearm.decoding.worker.joints import HISTORY_FRAMES as HISTORY_OF_JOINTS
from tonearm.decoding.worker.joints import NO_RUN, RunPackets, encoded, needs_history, passed_on
from tonearm.decoding.worker.mp3 import TAIL_PCM, Mp3Job
from tonearm.decoding.worker.normalization import Levels, SourceLoudness, levels
from tonearm.decoding.worker.output import AHEAD_FRAMES, CROSSFADING, levelled_again, output, wants_limiter
from tonearm.decoding.worker.overlays import ENOUGH_SAMPLES, NO_OVERLAYS, Overlays, Supply
from tonearm.decoding.worker.packet_encoding import PRIMING_FRAMES, PacketEncoders
from tonearm.decoding.worker.packet_store import PacketStore
from tonearm.decoding.worker.passing import Run, first_allowed, next_run
from tonearm.decoding.worker.passing_state import NOTHING_PASSED, Before, Passing
from tonearm.decoding.worker.stretched_source import MARGIN_SAMPLES, StretchedSource
from tonearm.decoding.worker.timeline import FROM_START, Block, Checkpoint, PcmStore, Segment, SourcePosition, Timeline
from tonearm.decoding.worker.voices import GLIDE_SAMPLES, ONE_VOICE, Curve, Fade, Ramp, Voices, falling, mixed, rising

# Filters cost a third as much for each sample in blocks of ten frames as in single frames; messages are cheaper, too.
BLOCK_FRAMES: Final = 10
_NO_SOURCE: Final = SourcePosition(0, 0, has_begun=False)
# Sources at a timescale are numbered from here on, behind all that the node numbers.
_FIRST_STRETCHED: Final = 1 << 32


class SessionSource(Protocol):
    """What a session reads of a source."""

    @property
    def store(self) -> PcmStore:
        """Its decoded PCM."""
        ...

    @property
    def loudness(self) -> SourceLoudness:
        """What is known of its loudness."""
        ...

    @property
    def has_failed(self) -> bool:
        """True when it failed before it gave a sample, so that none will come."""
        ...


class RenderSession:
    """Renders granted frames as the newest plan says. Its owner opens and drops the sources in `sources`.

    With a timescale, what is joined, mixed and kept are `StretchedSource`s, with numbers and samples of their own. Only
    at the borders (plans, messages, the release of PCM) they are the sources and samples of the file again.
    """

    def __init__(self, order: OpenSession, sources: Mapping[int, SessionSource]) -> None:
        self._id = order.session
        self._sources = sources
        self._epoch = order.epoch
        self._sent = order.first_frame
        self._granted = order.first_frame + GRANT_FRAMES
        # Where rendering goes on. At the end of a source it is already behind that end, while the timeline's end is
        # before it: a plan that begins there emits the END mark again.
        self._position = _NO_SOURCE
        passing = NOTHING_PASSED
        if order.lag_samples is not None:
            passing = Passing(Before.ENCODED, order.lag_samples)
        begin = Checkpoint(order.first_frame, _NO_SOURCE, ChainState.steady(order.filters), passing=passing)
        self._timeline = Timeline(begin)
        # By epoch: the newest plan's timeline, and the one that the node still sends from.
        self._timelines = {order.epoch: self._timeline}
        self._next_of: dict[int, int | None] = {}  # by source: the source that joins at its end
        self._crossfades: dict[int, Crossfade] = {}  # by source: how the next one joins instead, before its end
        self._timescale = _timescale_in(order.filters)
        self._stretched: dict[int, StretchedSource] = {}
        self._stretched_numbers = count(_FIRST_STRETCHED)
        self._must_flush = False
        self._has_measured = False
        self._outputs = PCM_ONLY
        self._is_encoded = False  # somebody listens to something else than PCM
        self._plain_outputs = self._passing_outputs = NO_OUTPUTS
        self._encoders = PacketEncoders()
        self._mp3_from: dict[Output, int] = {}  # by MP3 output: the first frame that was not encoded yet
        self._mp3_begins = order.mp3_from
        self._mp3_jobs: list[Mp3Job] = []
        self._due_before = 0  # frames before it are made without what is missing, as long as overlays sound
        self._is_starved = False  # overlays went on without the music: it goes on with some of it decoded ahead
        # The first frames continue those of an earlier session, whose process died: a cut is no new beginning. A plan
        # for the same source may come again before the node has got any of them.
        self._continues_from = order.first_frame if order.first_frame > 0 else None
        self._continues_audio = order.first_frame > 0
        self._continued_source = 0

    @property
    def position_rate(self) -> float:
        """How many samples of the current source pass in one that is heard."""
        return 1.0 if self._timescale is None else self._timescale.position_rate

    def is_current(self, source: int) -> bool:
        """True for a source that is being rendered; false for one that comes next or is over."""
        if source >= FIRST_OVERLAY_SOURCE:
            return True
        return source == self._file_of(self._position.source) or source in self._fading_samples()

    @property
    def has_overlays(self) -> bool:
        """Whether something else than the music alone is in the frames that are rendered next."""
        return not self._timeline.end.overlays.change_nothing

    def used_up_to(self, source: int) -> int:
        """The first sample of a source that was not rendered yet. For a source that is not current, its start."""
        start = self._sources[source].store.start
        if source == self._file_of(self._position.source):
            return max(start, self._file_sample(self._position.source, self._position.sample))
        if source >= FIRST_OVERLAY_SOURCE:
            end = self._timeline.end
            return dict(end.overlays.oldest_samples(end.time)).get(source, start)
        return self._fading_samples().get(source, start)

    def uses(self, source: int) -> bool:
        """Whether a source may still be rendered, or rendered again."""
        if source == self._file_of(self._position.source) or source in self._next_of.values():
            return True
        return any(source == self._file_of(used) for used in self._rendered_sources())

    def plan(self, order: Plan) -> None:
        """Applies a plan: voids the frames and marks from `at_frame` on. `render` makes the new ones.

        When fewer frames were rendered, the plan begins at the end of those, since frames have no gaps. Only a cut
        begins where it should: what the frames before it would have held has passed, and nobody wants it any more.
        """
        base = self._timelines.get(order.base_epoch, self._timeline)
        self._timeline = base.cut_at(order.at_frame)
        if order.switch_to is not None and self._timeline.end.frame < order.at_frame:
            self._timeline = Timeline(replace(self._timeline.end, frame=order.at_frame))
        self._timelines = {order.base_epoch: base, order.epoch: self._timeline}
        self._epoch = order.epoch
        before = self._timeline.end
        self._position = before.position
        voices = before.voices
        overlays = self._planned_overlays(before, order)
        self._is_starved |= order.switch_to is not None
        if order.switch_to is not None:
            if before.frame == self._continues_from and order.switch_to == self._continued_source:
                self._continues_audio = True
            if self._continues_audio:
                self._continued_source = order.switch_to
            if overlays.is_held:
                voices = ONE_VOICE  # what stood still is not heard any more
            elif not self._continues_audio:
                voices = self._cut_off(before, order)
            is_cut = not self._continues_audio and not voices.rises
            self._position = SourcePosition(order.switch_to, FROM_START, has_begun=False, is_cut=is_cut)
            self._next_of.clear()
            self._crossfades.clear()
        self._timescale = _timescale_in(order.filters)
        if order.switch_to is None:
            voices = self._retimed(before, voices)
        self._next_of[order.after] = order.following
        self._crossfades.pop(order.after, None)
        if order.crossfade is not None and order.following is not None:
            self._crossfades[order.after] = order.crossfade
        self._forget_unreachable(order.after)
        self._must_flush = False
        is_new_sound = order.switch_to is not None and not self._continues_audio and not voices.rises
        if before.frame == 0 or is_new_sound:
            filters = before.filters.at_once(order.filters)
        else:  # audio that continues glides to the new settings
            filters = self._changed_filters(order.filters)
        is_cut_off = order.switch_to is not None and not self._continues_audio
        self._timeline.end = replace(
            before,
            position=self._position,
            filters=filters,
            voices=voices,
            overlays=overlays,
            passing=before.passing.cut() if is_cut_off else before.passing,
        )
        if order.outputs is not None:
            self._render_for(order.outputs)
        self._warm_filters_up()

    def grant(self, order: Grant) -> None:
        """Notes which frames were sent and which may be rendered, and releases what no plan can need any more."""
        self._sent = max(self._sent, order.sent)
        self._granted = max(self._granted, order.granted)
        self._due_before = order.due_before
        overlays = self._timeline.end.overlays
        if overlays.over:
            overlays = overlays.without_those_over(self._sent * FRAME_SAMPLES)
            self._timeline.end = replace(self._timeline.end, overlays=overlays)
        if order.outputs is not self._outputs:
            self._render_for(order.outputs)
            self._warm_filters_up()
        if self._is_encoded:
            self._hand_in_sent_frames(self._timelines.get(order.epoch, self._timeline))
        for epoch in [epoch for epoch in self._timelines if epoch < order.epoch and epoch != self._epoch]:
            del self._timelines[epoch]
        for timeline in self._timelines.values():
            # No plan begins before the frames that were sent; new filters are warmed up on the PCM before them.
            timeline.forget_before(self._sent - HISTORY_FRAMES)
            if self._is_encoded:
                timeline.forget_pcm_before(self._sent)
        if self._stretched:
            for number in self._stretched.keys() - self._rendered_sources() - {self._position.source}:
                del self._stretched[number]
        self._release_samples()

    def flush(self) -> None:
        """The next source is no longer waited for: a last partial frame is filled up with silence."""
        self._must_flush = True

    def take_mp3_jobs(self) -> list[Mp3Job]:
        """What is to be encoded of the frames that were reported as sent, in order."""
        jobs, self._mp3_jobs = self._mp3_jobs, []
        return jobs

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
        end = self._timeline.end
        start = replace(end, position=self._position)
        if start.overlays is not NO_OVERLAYS:
            return self._render_with_overlays(start, frames)
        return self._render_music(start, frames)

    def _render_with_overlays(self, start: Checkpoint, frames: int) -> Audio | None:
        """Overlays go on where the music is held, is over, or is not there in time."""
        due_frames = self._due_before - start.frame
        overlays, frames = start.overlays.fitted(start.time, frames, due_frames, self._supply_of)
        if not frames:
            return None
        start = replace(start, overlays=overlays)
        if not overlays.is_held:
            if not (overlays.sound and self._is_starved) or self._has_enough_music():
                audio = self._render_music(start, frames)
                if audio is not None:
                    return audio
            elif _begins_with_tail(start):
                return self._render_music(start, 1, is_tail=True)
            if due_frames <= 0:
                return None
            self._is_starved = True
            frames = min(frames, due_frames)
        return self._render_frozen(start, frames) if overlays.sound else None

    def _render_music(self, start: Checkpoint, frames: int, *, is_tail: bool = False) -> Audio | None:
        """`is_tail`: only the end of what was cut off, not yet the source that was cut to."""
        limits, frames = self._limited(start, frames) if self._outputs else (False, frames)
        ahead = LOOKAHEAD_SAMPLES if limits else 0
        if is_tail:
            gathered = Gathered(start.voices.at(start.time))
            gathered.add_silence(frames * FRAME_SAMPLES)
        else:
            gathered = self._gather(start, frames * FRAME_SAMPLES + ahead)
        samples, marks = gathered.samples, gathered.marks
        if self._position.source and gathered.segments:  # else nothing follows that could be waited for
            samples -= ahead
        frames = min(frames, max(samples, 0) // FRAME_SAMPLES)
        run = self._next_run(start, gathered, frames) if frames and self._passing_outputs else None
        if run is not None:
            frames = run.frames
        end_frame = start.frame + frames
        whole = Block(start, frames, tuple(gathered.segments), (), gathered.voices)
        block = whole
        if gathered.samples > frames * FRAME_SAMPLES:
            # A partial frame waits for its other samples, and what was looked at ahead is rendered later. All of it is
            # gathered again then.
            self._position = block.position_at(end_frame)
            marks = [mark for mark in marks if mark.frame < end_frame]
            block = block.cut_at(end_frame)
            gathered.forget_behind(frames * FRAME_SAMPLES + ahead)
        if not frames and not marks:
            return None
        history = self._history_for(start, run)  # read before what comes after it, as it is decoded
        pcm = b""
        filters: tuple[ChainState, ...] = ()
        if run is not None and run.packets and self._passing_outputs == self._outputs:
            filters = (start.filters,) * frames
            self._rest_stores(block)
        elif frames and self._outputs:
            pcm, filters = self._filtered(whole, gathered, limits=limits)
        elif frames:
            filters = (ChainState.steady(start.filters.filters),) * frames
        if frames:
            marks = sorted([*self._cut_fades(start), *marks, *self._faded(block)], key=_frame_of)
            self._continues_audio = False
        first = block.segments[0] if block.segments else Segment(0, 0, 0, 0)
        self._is_starved &= not block.segments
        rate = self.position_rate if block.segments or not start.overlays.sound else 0.0
        is_cold = not pcm and (run is None or not run.packets)
        kept = Block(start, frames, block.segments, filters, block.voices, is_cold=is_cold)
        return self._emit(kept, pcm, first, rate, marks, run, history)

    def _render_frozen(self, start: Checkpoint, frames: int) -> Audio:
        """Frames of overlays alone; the music stands where it is, with its filters and all that fades in it."""
        overlays, filters = start.overlays, start.filters
        limits, _ = self._limited(start, frames) if self._outputs else (False, frames)
        whole_frames = frames + (AHEAD_FRAMES if limits else 0)
        pcm = b""
        states = (filters,) * frames
        if self._outputs:
            planes = np.zeros((whole_frames * FRAME_SAMPLES, CHANNELS), dtype=np.float32).T
            if overlays.gate is not None and overlays.gate.falls:
                planes[:, :FRAME_SAMPLES] = self._music_before_hold(start)
            unchanged = Levels(None, (filters.level,) * whole_frames)
            pcm, limited = output(
                filters,
                planes,
                (filters,) * whole_frames,
                unchanged,
                start.voices,
                frames=frames,
                limits=limits,
                begins_anew=False,
                mix_overlays=lambda planes: overlays.mix_into(planes, start.time, self._read),
                overlay_begins=overlays.begins,
            )
            states = tuple(filters.with_limiter(state.limiter) for state in limited)
        position = start.position
        first = Segment(0, 0, 0, 0)
        if position.has_begun:
            first = Segment(0, position.source, position.sample, 0)
        block = Block(start, frames, (), states, start.voices, is_cold=not pcm, is_frozen=True)
        run = Run(frames, start.passing.lag) if self._passing_outputs else None
        return self._emit(block, pcm, first, 0.0, [], run, self._history_for(start, run))

    def _music_before_hold(self, start: Checkpoint) -> Planes:
        """The frame that the music would have gone on with: it fades out in it, and begins with it again later."""
        gathered = self._gather(start, FRAME_SAMPLES)
        self._position = start.position
        gathered.fill_frame()
        if not gathered.samples:
            return np.zeros((CHANNELS, FRAME_SAMPLES), dtype=np.float32)
        block = Block(start, 1, tuple(gathered.segments), (), gathered.voices)
        planes, _, normalized, _ = self._levelled(block, gathered, 1)
        return planes if normalized.factors is None else planes * normalized.factors

    def _emit(
        self,
        block: Block,
        pcm: bytes,
        first: Segment,
        rate: float,
        marks: list[Mark],
        run: Run | None,
        history: bytes | None,
    ) -> Audio:
        """Keeps a rendered block, if it has frames, and makes its message. `first` is where its first sample lies."""
        start, frames = block.start, block.frames
        packets: tuple[tuple[Output, tuple[bytes, ...]], ...] = ()
        overlays: tuple[OverlayPosition, ...] = ()
        if frames:
            if self._is_encoded and (pcm or run is not None):
                plain = self._encoders.encode(pcm, self._plain_outputs, start.encoders, self._last_frames)
                joined = self._joined(start, run, pcm, history, is_silent=not block.segments)
                packets = plain.packets + joined.encoded.packets
                block = replace(
                    block,
                    start=replace(start, passing=joined.before),
                    pcm=pcm,
                    encoders_before=plain.before + joined.encoded.before,
                    encoders=plain.after + joined.encoded.after,
                    passing=joined.after,
                )
            self._timeline.append(block)
            overlays = start.overlays.positions(frames)
        source, sample = self._file_of(first.source), self._file_sample(first.source, first.sample)
        sent_pcm = pcm if PCM in self._outputs else b""
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
            lag_samples=block.passing.lag,
        )

    # Passing on

    def _next_run(self, start: Checkpoint, gathered: Gathered, frames: int) -> Run:
        """Which of the next frames are passed on, or encoded, together."""
        loudness = [self._loudness_of(self._file_of(segment.source)) for segment in gathered.segments]
        first = first_allowed(
            start.filters,
            gathered.voices,
            start.time,
            loudness,
            is_stretched=self._timescale is not None,
            has_overlays=not start.overlays.change_nothing,
        )
        return next_run(start.passing, frames, gathered.segments, first, self._store_of)

    def _history_for(self, start: Checkpoint, run: Run | None) -> bytes | None:
        """The frames before, when a run is encoded that begins anew."""
        if run is None or run.packets or not needs_history(start.passing, start.encoders, self._passing_outputs):
            return None
        return self._last_frames(HISTORY_OF_JOINTS)

    def _joined(
        self, start: Checkpoint, run: Run | None, pcm: bytes, history: bytes | None, *, is_silent: bool
    ) -> RunPackets:
        """The packets for outputs that get those of sources as they are."""
        if run is None:
            return NO_RUN
        passing, outputs = start.passing, self._passing_outputs
        if run.packets:
            return passed_on(self._encoders, passing, outputs, run)
        return encoded(self._encoders, passing, start.encoders, outputs, run, pcm, lambda: history, is_silent=is_silent)

    def _rest_stores(self, block: Block) -> None:
        """Nobody reads the PCM of these sources for now, so it need not be decoded."""
        for segment in block.segments:
            store = self._store_of(segment.source)
            if isinstance(store, PacketStore):
                store.rest()

    def _filtered(self, block: Block, gathered: Gathered, *, limits: bool) -> tuple[bytes, tuple[ChainState, ...]]:
        """The frames of the block as listeners get them, and the state of the filters after each one. `gathered` may
        hold more than the block: the limiter looks ahead in it."""
        start, frames, overlays = block.start.filters, block.frames, block.start.overlays
        mixes = not overlays.change_nothing
        if start.passes_by_filters_alone and not limits and block.voices.are_one and not mixes:
            return process(start, b"".join(gathered.pieces)[: frames * FRAME_BYTES])
        whole_frames = frames + (AHEAD_FRAMES if limits else 0)
        planes, states, normalized, begins_anew = self._levelled(block, gathered, whole_frames)
        return output(
            start,
            planes,
            states,
            normalized,
            block.voices,
            frames=frames,
            limits=limits,
            begins_anew=begins_anew,
            mix_overlays=(lambda planes: overlays.mix_into(planes, block.start.time, self._read)) if mixes else None,
            overlay_begins=overlays.begins,
        )

    def _levelled(
        self, block: Block, gathered: Gathered, whole_frames: int
    ) -> tuple[Planes, Sequence[ChainState], Levels, bool]:
        """`whole_frames` frames of music behind its filters, the states of these after each one, what normalization
        does to them, and whether a sound begins with them."""
        start = block.start.filters
        begins = gathered.begins(block.start.frame, whole_frames)
        normalized = self._levels(block, gathered, whole_frames, begins)
        pcm = b"".join(gathered.pieces)[: whole_frames * FRAME_BYTES].ljust(whole_frames * FRAME_BYTES, b"\0")
        begins_anew = bool(begins) and begins[0][0] == 0 and not block.voices.fades
        if start.is_volume_alone and block.voices.are_one:
            # Sample by sample, as the bytes are: turning them into two planes and back takes most of the time.
            planes = np.frombuffer(pcm, dtype="<i2").reshape(-1, CHANNELS).astype(np.float32).T
            if start.filters.volume != 1.0:
                planes *= np.float32(start.filters.volume)
            return planes, (start,) * whole_frames, normalized, begins_anew
        planes, states = apply(start, mixed(pcm, block.start.time, block.voices, self._read, normalized.factors))
        return planes, states, normalized, begins_anew

    def _levels(self, block: Block, gathered: Gathered, frames: int, begins: Sequence[tuple[int, int]]) -> Levels:
        """What normalization multiplies the block's frames by, and its level after each one."""
        filters, level = block.start.filters.filters, block.start.filters.level
        normalization = filters.effects.normalization
        if normalization is None or normalization.mode == "off":
            return levels(level, None, frames, 0, (), self._loudness_of)
        for segment, piece in zip(gathered.segments, gathered.pieces, strict=False):
            length = min(segment.length, block.frames * FRAME_SAMPLES - segment.offset)
            loudness = self._loudness_of(self._file_of(segment.source))
            if length > 0 and loudness.tagged_lufs is None:
                self._has_measured = True
                sample = self._file_sample(segment.source, segment.sample)
                loudness.measure(piece[: length * SAMPLE_BLOCK_BYTES], sample, self.position_rate)
        source = self._file_of(block.segments[0].source) if block.segments else 0
        return levels(level, normalization.target_lufs, frames, source, begins, self._loudness_of)

    def _loudness_of(self, source: int) -> SourceLoudness:
        known = self._sources.get(source)
        return SourceLoudness() if known is None else known.loudness

    def _limited(self, start: Checkpoint, frames: int) -> tuple[bool, int]:
        """Whether the limiter is on in the next frames, if only to let go, and for how many of them that holds."""
        state = start.filters
        if (
            state.limiter is QUIET
            and not self._crossfades
            and state.filters.effects is NO_EFFECTS
            and not start.voices.fades
            and start.overlays is NO_OVERLAYS
        ):
            return False, frames
        filters = state.filters
        voices, with_overlays = start.voices.at(start.time), not start.overlays.change_nothing
        if not state.limiter.is_at_rest or wants_limiter(filters, voices, with_overlays=with_overlays):
            return True, frames
        crossfade = self._crossfade_ahead(start.position) if self._crossfades else None
        if crossfade is None or not wants_limiter(filters, CROSSFADING):
            return False, frames
        frames_before = (crossfade.at_sample - start.position.sample) // FRAME_SAMPLES
        return frames_before <= 0, frames if frames_before <= 0 else min(frames, frames_before)

    def take_measured(self) -> Iterator[Measured]:
        """What was measured of sources and is worth keeping."""
        if not self._has_measured:
            return
        self._has_measured = False
        for number, source in self._sources.items():
            measured = source.loudness.take_measured()
            if measured is not None:
                yield Measured(self._id, number, measured.lufs, measured.measured_ms)

    def _gather(self, start: Checkpoint, samples: int) -> Gathered:
        """Takes up to `samples` samples from the sources, and moves the position on."""
        gathered = Gathered(voices=start.voices.at(start.time))
        samples = min(samples, self._fades_allow(gathered.voices, start.time))
        while gathered.samples < samples and self._position.source:
            store = self._store_of(self._position.source)
            if store is None:
                break  # planned, but not opened yet
            if self._position.sample == FROM_START:
                if store.end == store.oldest and not store.is_finished:
                    break  # where it starts is not certain before
                if self._position.is_cut and store.start > 0 and self._has_samples(self._position.source):
                    gathered.begin_rise(rising(start.time + gathered.samples))
                source, joins = self._position.source, self._position.joins
                self._position = self._position_in(source, store.oldest, has_begun=False, joins=joins)
            position = self._position
            store = self._made(position.source, position.sample + samples - gathered.samples) or store
            crossfade = self._crossfade_that_can_begin(position)
            end = store.end if crossfade is None else min(store.end, crossfade.at_sample)
            taken = min(samples - gathered.samples, end - position.sample)
            if taken > 0:
                if not position.has_begun:
                    frames, offset_samples = divmod(gathered.samples, FRAME_SAMPLES)
                    begin = Mark(MarkKind.BEGIN, start.frame + frames, self._file_of(position.source), offset_samples)
                    gathered.marks.append(begin)
                gathered.take(store, position.source, position.sample, taken)
                self._position = SourcePosition(position.source, position.sample + taken, has_begun=True)
                continue
            if crossfade is not None and position.sample == crossfade.at_sample:
                if self._begin_crossfade(crossfade, start, gathered):
                    samples = min(samples, self._fades_allow(gathered.voices, start.time))
                continue
            if not self._end_source(store, start.frame, gathered):
                break
        if not gathered.samples:
            gathered.add_silence(self._silence_for_others(start, gathered, samples))
        return gathered

    def _crossfade_ahead(self, position: SourcePosition) -> Crossfade | None:
        crossfade = self._crossfades.get(self._file_of(position.source))
        stretched = self._stretched.get(position.source)
        if crossfade is not None and stretched is not None:
            crossfade = replace(crossfade, at_sample=stretched.heard_sample(crossfade.at_sample))
        if crossfade is not None and crossfade.is_rest:
            return _rest(crossfade, position)
        return crossfade if crossfade is not None and position.sample <= crossfade.at_sample else None

    def _crossfade_that_can_begin(self, position: SourcePosition) -> Crossfade | None:
        """The crossfade ahead, but not while a rest, which may begin at any time, has to wait for the next source."""
        crossfade = self._crossfade_ahead(position)
        if crossfade is None or not crossfade.is_rest or position.sample < crossfade.at_sample:
            return crossfade
        next_source = self._next_of.get(self._file_of(position.source))
        return crossfade if next_source is not None and self._has_samples(next_source) else None

    def _begin_crossfade(self, crossfade: Crossfade, start: Checkpoint, gathered: Gathered) -> bool:
        """Begins the next source while the current one fades out. False when the next one has no samples: it is late,
        and joins at the end."""
        source = self._file_of(self._position.source)
        next_source = self._next_of.get(source)
        if next_source is None or not self._has_samples(next_source):
            del self._crossfades[source]
            return False
        time = start.time + gathered.samples
        curve = _curve(crossfade)
        level_db = start.filters.level.gain_db
        out = Ramp(time, crossfade.samples, curve, falls=True, level=gathered.voices.gain_at(time))
        fade = Fade(self._position.source, crossfade.at_sample, out, is_announced=True, level_db=level_db)
        gathered.begin_crossfade(fade, Ramp(time, crossfade.samples, curve, falls=False))
        gathered.marks.append(Mark(MarkKind.FADING, start.frame + gathered.samples // FRAME_SAMPLES, source))
        self._position = SourcePosition(next_source, FROM_START, has_begun=False)
        return True

    def _end_source(self, store: PcmStore, first_frame: int, gathered: Gathered) -> bool:
        """Ends the current source, of which all samples were taken. False when some are still to come, of this source
        or of the one that joins its last ones."""
        source = self._file_of(self._position.source)
        next_source = self._next_of.get(source)
        joins = next_source is not None and self._has_samples(next_source)
        if not store.is_finished or (next_source and not joins and self._may_give_samples(next_source)):
            return False
        if not joins:
            gathered.fill_frame()
        end = MarkKind.INTERRUPTED if store.is_interrupted else MarkKind.END
        gathered.marks.append(Mark(end, first_frame + gathered.samples // FRAME_SAMPLES, source))
        self._position = (
            SourcePosition(next_source, FROM_START, has_begun=False, joins=self._position.source)
            if next_source and joins
            else _NO_SOURCE
        )
        return True

    def _cut_off(self, end: Checkpoint, order: Plan) -> Voices:
        """The voices after a cut: those that faded out end within GLIDE_SAMPLES, and so does the current source, unless
        it fades out as the new one comes in."""
        fades = tuple(fade.cut_at(end.time) for fade in end.voices.at(end.time).fades)
        position = end.position
        store = self._made(position.source, position.sample + GLIDE_SAMPLES)
        if store is None or not position.has_begun or position.sample >= store.end:
            return Voices(fades)
        if order.cut_fade is not None and order.switch_to and self._has_samples(order.switch_to):
            samples, curve = order.cut_fade.samples, _curve(order.cut_fade)
            out = Ramp(end.time, samples, curve, falls=True, level=end.voices.gain_at(end.time))
            rise = Ramp(end.time, samples, curve, falls=False)
            level_db = end.filters.level.gain_db
            fade = Fade(position.source, position.sample, out, is_announced=True, level_db=level_db)
            return Voices((*fades, fade), (rise,))
        ramp = falling(end.time, end.voices.gain_at(end.time))
        tail = Fade(position.source, position.sample, ramp, end_sample=store.end, level_db=end.filters.level.gain_db)
        return Voices((*fades, tail))

    def _fades_allow(self, voices: Voices, time: int) -> int:
        """How many samples can be made from `time` on with what is decoded of the sources that fade out."""
        allowed = GRANT_FRAMES * FRAME_SAMPLES
        for fade in voices.fades:
            store = self._made(fade.source, fade.sample_at(time) + allowed)
            source = self._sources.get(self._file_of(fade.source))
            if store is not None and source is not None and not (store.is_finished or source.has_failed):
                available = store.end - fade.sample
                if available < fade.ramp.samples and fade.ramp.samples > GLIDE_SAMPLES:
                    allowed = min(allowed, max(fade.ramp.start + available - time, 0))
        return allowed

    def _has_enough_music(self) -> bool:
        """Whether the music, which the overlays went on without, may go on: with 200 ms, or all there is."""
        source, sample = self._position.source, self._position.sample
        store = None if not source else self._made(source, sample + ENOUGH_SAMPLES)
        if store is None:
            return not source
        return store.is_finished or store.end - max(sample, store.oldest) >= ENOUGH_SAMPLES

    def _planned_overlays(self, before: Checkpoint, order: Plan) -> Overlays:
        if not order.overlays and before.overlays is NO_OVERLAYS:
            return NO_OVERLAYS
        continues = order.switch_to is None and before.position.has_begun
        overlays = before.overlays.planned(order.overlays, before.time)
        if order.holds:
            return overlays.held(before.time, fades=continues)
        return overlays.let_go(before.time, fades=continues)

    def _supply_of(self, source_id: int) -> Supply | None:
        source = self._sources.get(source_id)
        if source is None:
            return None
        store = source.store
        is_finished = store.is_finished or source.has_failed  # asked for first, as it comes last
        return Supply(store.oldest, store.end, is_finished, store.is_interrupted)

    def _silence_for_others(self, start: Checkpoint, gathered: Gathered, samples: int) -> int:
        """How much silence is made of music that has no samples, because something else sounds."""
        if _begins_with_tail(start):
            return FRAME_SAMPLES  # if it waited for the sound that comes, it would click
        is_over = not self._position.source and not gathered.marks
        return samples if is_over and start.overlays.sound else 0

    def _read(self, source_id: int, sample: int, count: int) -> bytes:
        store = self._made(source_id, sample + count)
        if store is None:
            return b""
        count = min(count, store.end - sample)
        return store.read(sample, count) if count > 0 and sample >= store.oldest else b""

    def _fading_samples(self) -> dict[int, int]:
        """For each source that fades out the first sample of the file that was not rendered yet."""
        end = self._timeline.end
        return {
            self._file_of(fade.source): self._file_sample(fade.source, fade.sample_at(end.time))
            for fade in end.voices.at(end.time).fades
        }

    # Sources at a timescale

    def _retimed(self, before: Checkpoint, voices: Voices) -> Voices:
        """Goes on at the same place of the file at the newest timescale. Returns the voices after that: the sound
        before goes over into the new one as in a cut, for both may be anywhere in their waves."""
        position = self._position
        source = self._file_of(position.source)
        store = self._store_of(source)
        stretched = self._stretched.get(position.source)
        if store is None or (None if stretched is None else stretched.setting) == self._timescale:
            return voices
        if not position.has_begun:
            self._position = SourcePosition(source, FROM_START, has_begun=False, is_cut=position.is_cut)
            return voices
        sample = self._file_sample(position.source, position.sample)
        if store.is_finished and sample >= store.end:
            return voices
        self._position = self._position_in(source, sample, has_begun=True)
        ramp = falling(before.time, voices.gain_at(before.time))
        old = self._made(position.source, position.sample + GLIDE_SAMPLES)
        end_sample = None if old is None else old.end
        tail = Fade(
            position.source, position.sample, ramp, end_sample=end_sample, level_db=before.filters.level.gain_db
        )
        return voices.gliding(tail, rising(before.time))

    def _position_in(self, source: int, sample: int, *, has_begun: bool, joins: int = 0) -> SourcePosition:
        """The place in a source where this sample of the file is, at the newest timescale. `joins`: the source at whose
        end it begins."""
        if self._timescale is None:
            return SourcePosition(source, sample, has_begun)
        for number, stretched in self._stretched.items():
            known = stretched.source, stretched.setting, stretched.store.start
            if known == (source, self._timescale, sample) and stretched.store.oldest == sample:
                return SourcePosition(number, sample, has_begun)
        number = next(self._stretched_numbers)
        file, before = self._sources[source].store, self._stretched.get(joins)
        joined = before.begin_next(source, file) if before is not None and before.setting == self._timescale else None
        self._stretched[number] = joined or StretchedSource(source, file, self._timescale, sample)
        return SourcePosition(number, sample, has_begun)

    def _file_of(self, source: int) -> int:
        """The source as the node numbers it."""
        stretched = self._stretched.get(source)
        return source if stretched is None else stretched.source

    def _file_sample(self, source: int, sample: int) -> int:
        stretched = self._stretched.get(source)
        return sample if stretched is None else round(stretched.file_sample(sample))

    def _store_of(self, source: int) -> PcmStore | None:
        known = self._stretched.get(source) or self._sources.get(source)
        return None if known is None else known.store

    def _made(self, source: int, up_to: int) -> PcmStore | None:
        """The PCM of a source, made up to a sample as far as that is possible."""
        stretched = self._stretched.get(source)
        if stretched is not None:
            next_source = self._next_of.get(stretched.source)
            if next_source is not None and self._has_samples(next_source) and not stretched.store.is_finished:
                stretched.following = self._sources[next_source].store
            stretched.make(up_to)
        return self._store_of(source)

    def _rendered_sources(self) -> set[int]:
        """All that may be rendered again, by their own numbers."""
        return {source for timeline in self._timelines.values() for source in timeline.oldest_samples()}

    def _cut_fades(self, start: Checkpoint) -> Iterator[Mark]:
        """The marks of crossfades that a cut began."""
        for fade in start.voices.fades:
            if fade.is_announced and fade.ramp.start == start.time:
                yield Mark(MarkKind.FADING, start.frame, self._file_of(fade.source))

    def _faded(self, block: Block) -> Iterator[Mark]:
        """The marks of crossfades that end in a block."""
        end_time = block.end_frame * FRAME_SAMPLES
        for fade in block.voices.fades:
            if fade.is_announced and block.start.time < fade.ramp.end <= end_time:
                yield Mark(MarkKind.FADED, -(-fade.ramp.end // FRAME_SAMPLES), self._file_of(fade.source))

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

    def _render_for(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._is_encoded = any(form.format != "pcm" for form in outputs)
        self._passing_outputs = frozenset(form for form in outputs if form.passes_on)
        self._plain_outputs = outputs - self._passing_outputs
        self._encoders.forget_all_but(outputs)

    def _warm_filters_up(self) -> None:
        """When the first listener came: gives the filters the state they would have, had they run all the time."""
        end = self._timeline.end
        if end.is_cold and self._outputs:
            warm = ChainState.steady(end.filters.filters, self._history())
            self._timeline.end = replace(end, filters=warm, is_cold=False)

    def _last_frames(self, frames: int = PRIMING_FRAMES) -> bytes | None:
        """Up to so many frames before the next one, as listeners got them, or would have. None for the first."""
        end = self._timeline.end
        if not end.frame:
            return None
        state = end.filters
        history = self._history(frames if state.changes_nothing else HISTORY_FRAMES)
        size = min(frames, len(history) // FRAME_BYTES) * FRAME_BYTES
        if not size:
            return b""
        pcm = process(ChainState.steady(state.filters, history[:-size]), history[-size:])[0]
        return levelled_again(pcm, state, end.voices.at(end.time))

    def _hand_in_sent_frames(self, timeline: Timeline) -> None:
        """Makes jobs of the frames that were sent since the last time, for each MP3 output."""
        wanted = {form for form in self._outputs if form.format == "mp3"}
        # What an earlier process rendered and did not encode was sent before it is rendered once more.
        end_frame = self._sent if self._mp3_begins is None else min(self._sent, timeline.end.frame)
        self._mp3_from = {form: frame for form, frame in self._mp3_from.items() if form in wanted}
        for form in sorted(wanted):
            is_first = form not in self._mp3_from
            first_frame = self._mp3_from.get(form, end_frame if self._mp3_begins is None else self._mp3_begins)
            end_frame = max(first_frame, end_frame)
            pcm = timeline.pcm_between(first_frame, end_frame)
            if pcm and not self._position.source and self._sent >= timeline.end.frame:
                pcm += TAIL_PCM  # nothing follows that would bring the last samples out of the encoder
            self._mp3_from[form] = end_frame
            self._mp3_jobs.append(Mp3Job(self._id, form, first_frame, end_frame, pcm, is_first))
        if self._sent <= timeline.end.frame:
            self._mp3_begins = None

    def _history(self, frames: int = HISTORY_FRAMES) -> bytes:
        """The unfiltered PCM just before the next frame."""
        segments = self._timeline.segments_backwards(frames * FRAME_SAMPLES)
        return b"".join(
            store.read(segment.sample, segment.length)
            for segment in reversed(segments)
            if (store := self._store_of(segment.source)) is not None
        )

    def _forget_unreachable(self, after: int) -> None:
        """Forgets what joins at the end of sources that cannot be rendered any more."""
        reachable = {after, self._file_of(self._position.source)}
        reachable.update(map(self._file_of, self._rendered_sources()))
        for source in tuple(reachable):
            next_source = self._next_of.get(source)
            while next_source is not None and next_source not in reachable:
                reachable.add(next_source)
                next_source = self._next_of.get(next_source)
        self._next_of = {source: following for source, following in self._next_of.items() if source in reachable}
        self._crossfades = {source: fade for source, fade in self._crossfades.items() if source in reachable}

    def _release_samples(self) -> None:
        """Frees the PCM that lies before everything that may be rendered again."""
        oldest: dict[int, int] = {}
        for timeline in self._timelines.values():
            for source_id, sample in timeline.oldest_samples().items():
                oldest[source_id] = min(sample, oldest.get(source_id, sample))
        for number, stretched in self._stretched.items():
            if number in oldest:
                sample = oldest[number]
                stretched.store.release_before(sample)
                needed = int(stretched.file_sample(sample)) - MARGIN_SAMPLES
                oldest[stretched.source] = min(needed, oldest.get(stretched.source, needed))
        for source_id, source in self._sources.items():
            if source_id in oldest:
                source.store.release_before(oldest[source_id])


def _begins_with_tail(start: Checkpoint) -> bool:
    """Whether a sound was cut off right there, and still fades out."""
    return any(fade.ramp.start == start.time for fade in start.voices.fades)


def _rest(crossfade: Crossfade, position: SourcePosition) -> Crossfade | None:
    """What is left of a crossfade that begins as soon as it can. None when that is too little."""
    at_sample = max(crossfade.at_sample, position.sample + (0 if position.has_begun else FRAME_SAMPLES))
    samples = crossfade.at_sample + crossfade.samples - at_sample
    is_enough = samples >= samples_of_ms(SHORTEST_REST_MS) - FRAME_SAMPLES
    return replace(crossfade, at_sample=at_sample, samples=samples) if is_enough else None


def _curve(crossfade: Crossfade) -> Curve:
    return "linear" if crossfade.curve == "linear" else "equalPower"


def _frame_of(mark: Mark) -> int:
    return mark.frame


def _timescale_in(filters: Filters) -> Timescale | None:
    timescale = filters.effects.timescale
    return None if timescale is None or timescale.changes_nothing else timescale
