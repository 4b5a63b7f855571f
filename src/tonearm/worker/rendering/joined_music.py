"""The music of a session: plays sources one after the other, joined without a gap, crossfaded or cut.

The orders of a plan are stored here until they are rendered. Rendered frames are in blocks (`timeline`), so that they
can be rendered again.
"""

import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from tonearm.core.crossfade import SHORTEST_LATE_MS
from tonearm.core.frame import FRAME_SAMPLES, samples_of_ms
from tonearm.decoder.messages import GRANT_FRAMES, CrossfadeOrder, Mark, MarkKind, Plan
from tonearm.worker.mixing.overlays import ENOUGH_SAMPLES
from tonearm.worker.mixing.voices import GLIDE_SAMPLES, ONE_VOICE, Curve, Fade, Ramp, Voices, falling, rising
from tonearm.worker.rendering.session_sources import SessionSources
from tonearm.worker.rendering.timeline import FROM_START, NO_SOURCE, Block, Gathered, RenderState, SourcePosition
from tonearm.worker.sources.pcm_store import PcmStore

_MOST_SAMPLES: Final = GRANT_FRAMES * FRAME_SAMPLES  # the most samples gathered at once during a fade
_UNLIMITED: Final = sys.maxsize


class JoinedMusic:
    """Gathers the samples of the music for one block after the other.

    Rendering continues at `position`. At the end of a source it is already after this end, while the timeline's end is
    before it: a plan that begins there emits the END mark again.
    """

    def __init__(self, sources: SessionSources) -> None:
        self.position = NO_SOURCE
        self._sources = sources
        self._crossfades: dict[int, CrossfadeOrder] = {}  # by source: the crossfade to the next source before the end
        self._must_flush = False

    # Plans

    def plan(
        self, order: Plan, before: RenderState, rendered: Collection[int], *, is_silent: bool, begins_anew: bool
    ) -> Voices:
        """Follows a plan from `before` on. Returns the voices from there on.

        `rendered` are the sources that may be rendered again. `is_silent`: silence came just before a cut, so nothing
        fades out. `begins_anew`: the source after the cut does not continue an earlier session.
        """
        self.position, voices = before.position, before.voices
        if order.switch_to is not None:
            if is_silent:
                voices = ONE_VOICE
            elif begins_anew:
                voices = self._cut_off(before, order)
            is_cut = begins_anew and not voices.rises
            self.position = SourcePosition(order.switch_to, FROM_START, has_begun=False, is_cut=is_cut)
            self._sources.next_of.clear()
            self._crossfades.clear()
        self._sources.use_timescale(order.filters)
        self._sources.next_of[order.after] = order.following
        if order.switch_to is None:
            voices = self._retimed(before, voices)
        self._crossfades.pop(order.after, None)
        if order.crossfade is not None and order.following is not None:
            self._crossfades[order.after] = order.crossfade
        self._forget_unreachable(order.after, rendered)
        self._must_flush = False
        return voices

    def flush(self) -> None:
        """Stops waiting for the next source: a last partial frame is filled up with silence."""
        self._must_flush = True

    def comes_next(self, source: int) -> bool:
        return source in self._sources.next_of.values()

    def _forget_unreachable(self, after: int, rendered: Collection[int]) -> None:
        """Forgets the successors of sources that cannot be rendered any more."""
        sources = self._sources
        reachable = {after, sources.file_of(self.position.source)}
        reachable.update(map(sources.file_of, rendered))
        for source in tuple(reachable):
            next_source = sources.next_of.get(source)
            while next_source is not None and next_source not in reachable:
                reachable.add(next_source)
                next_source = sources.next_of.get(next_source)
        sources.next_of = {source: following for source, following in sources.next_of.items() if source in reachable}
        self._crossfades = {source: fade for source, fade in self._crossfades.items() if source in reachable}

    def _cut_off(self, end: RenderState, order: Plan) -> Voices:
        """The voices after a cut: fading voices end within GLIDE_SAMPLES, and so does the current source, unless it
        fades out while the new source fades in."""
        fades = tuple(fade.cut_at(end.time) for fade in end.voices.fades)
        position = end.position
        tails = self._tails(end, end.voices)
        if not tails or tails[0].source != position.source:
            return Voices(fades)  # the source was at its end
        if order.cut_fade is not None and order.switch_to and self._sources.has_samples(order.switch_to):
            samples, curve = order.cut_fade.samples, _curve(order.cut_fade)
            out = Ramp(end.time, samples, curve, falls=True, level=end.voices.gain_at(end.time))
            rise = Ramp(end.time, samples, curve, falls=False)
            level_db = end.filters.level.now_db
            fade = Fade(position.source, position.sample, out, is_announced=True, level_db=level_db)
            return Voices((*fades, fade), (rise,))
        return Voices((*fades, *tails))

    def _retimed(self, before: RenderState, voices: Voices) -> Voices:
        """Continues at the same position of the file at the newest timescale. Returns the voices after that. The old
        sound glides into the new sound as in a cut, because their waves do not match."""
        position, sources = self.position, self._sources
        source = sources.file_of(position.source)
        store = sources.store_of(source)
        if store is None or sources.is_at_newest_timescale(position.source):
            return voices
        if not position.has_begun:
            self.position = SourcePosition(source, FROM_START, has_begun=False, is_cut=position.is_cut)
            return voices
        tails = self._tails(before, voices)
        sample = sources.file_sample(position.source, position.sample)
        if not store.is_finished or sample < store.end:
            self.position = sources.position_in(source, sample, has_begun=True)
        elif not tails:
            return voices
        return Voices((*voices.fades, *tails), (*voices.rises, rising(before.time)))

    def _tails(self, end: RenderState, voices: Voices) -> tuple[Fade, ...]:
        """The current source after `end`, fading out within GLIDE_SAMPLES. Where it ends within these samples, the
        source that joins it continues: otherwise it would click."""
        sources, position = self._sources, end.position
        if not position.has_begun:
            return ()
        ramp = falling(end.time, voices.gain_at(end.time))
        tails: list[Fade] = []
        after, source, sample = 0, position.source, position.sample
        while (store := sources.made(source, sample + GLIDE_SAMPLES - after)) is not None:
            length = min(GLIDE_SAMPLES - after, store.end - sample)
            if length > 0:
                level_db = end.filters.level.now_db
                tails.append(Fade(source, sample, ramp, end_sample=store.end, level_db=level_db, after=after))
                after += length
            joined = sources.joined_to(source) if after < GLIDE_SAMPLES and store.is_finished else None
            if joined is None:
                break
            source, sample = joined.source, joined.sample
        return tuple(tails)

    # Gathering

    def gather(self, start: RenderState, samples: int) -> Gathered:
        """Takes up to `samples` samples from the sources, and advances the position."""
        sources = self._sources
        gathered = Gathered(start.voices)
        samples = min(samples, self._fades_allow(gathered.voices, start.time))
        while gathered.samples < samples and self.position.source:
            store = sources.store_of(self.position.source)
            if store is None:
                break  # planned, but not opened yet
            if self.position.sample == FROM_START:
                begin = sources.first_of(self.position)
                if begin is None:
                    break
                if self.position.is_cut and store.start > 0 and sources.has_samples(self.position.source):
                    rise = rising(start.time + gathered.samples)
                    gathered.voices = Voices(gathered.voices.fades, (rise,))
                self.position = begin
            position = self.position
            store = sources.made(position.source, position.sample + samples - gathered.samples) or store
            crossfade = self._crossfade_that_can_begin(position)
            end = store.end if crossfade is None else min(store.end, crossfade.at_sample)
            taken = min(samples - gathered.samples, end - position.sample)
            if taken > 0:
                if not position.has_begun:
                    frames, offset_samples = divmod(gathered.samples, FRAME_SAMPLES)
                    source = sources.file_of(position.source)
                    gathered.marks.append(Mark(MarkKind.BEGIN, start.frame + frames, source, offset_samples))
                gathered.take(position.source, position.sample, taken)
                self.position = SourcePosition(position.source, position.sample + taken, has_begun=True)
                continue
            if crossfade is not None and position.sample == crossfade.at_sample:
                if self._begin_crossfade(crossfade, start, gathered):
                    samples = min(samples, self._fades_allow(gathered.voices, start.time))
                continue
            if not self._end_source(store, start.frame, gathered):
                break
        if not gathered.samples:
            gathered.samples = self._silence_for_others(start, gathered, samples)
        return gathered

    def frame_before_pause(self, start: RenderState) -> Gathered:
        """The next frame of the music if it were not paused at `start`. The position stays there."""
        gathered = self.gather(start, FRAME_SAMPLES)
        self.position = start.position
        gathered.fill_frame()
        return gathered

    def has_enough(self) -> bool:
        """Whether the music, which was missing under the overlays, may continue: with 200 ms decoded, or all up to its
        end."""
        source, sample = self.position.source, self.position.sample
        store = None if not source else self._sources.made(source, sample + ENOUGH_SAMPLES)
        if store is None:
            return not source
        return store.is_finished or store.end - max(sample, store.oldest) >= ENOUGH_SAMPLES

    def _end_source(self, store: PcmStore, first_frame: int, gathered: Gathered) -> bool:
        """Ends the current source, whose decoded samples were all taken. False when more samples may come, of this
        source or of the source that joins it."""
        sources = self._sources
        source = sources.file_of(self.position.source)
        next_source = sources.next_of.get(source)
        joins = next_source is not None and sources.has_samples(next_source)
        waits = next_source and not joins and not self._must_flush and sources.may_give_samples(next_source)
        if not store.is_finished or waits:
            return False
        filled = 0 if joins else gathered.fill_frame()
        end = MarkKind.INTERRUPTED if store.is_interrupted else MarkKind.END
        gathered.marks.append(Mark(end, first_frame + gathered.samples // FRAME_SAMPLES, source, filled))
        self.position = (
            SourcePosition(next_source, FROM_START, has_begun=False, joins=self.position.source)
            if next_source and joins
            else NO_SOURCE
        )
        return True

    def _silence_for_others(self, start: RenderState, gathered: Gathered, samples: int) -> int:
        """The number of silent samples for music without samples, while another sound plays."""
        if begins_with_tail(start):
            return FRAME_SAMPLES  # waiting for the next sound would click
        is_over = not self.position.source and not gathered.marks
        return samples if is_over and start.overlays.sound else 0

    # Crossfades

    @property
    def has_crossfades(self) -> bool:
        return bool(self._crossfades)

    def samples_before_crossfade(self, position: SourcePosition) -> int | None:
        """The heard samples from a position to the crossfade that ends its source. None when it is past."""
        begin = self._sources.first_of(position) if position.sample == FROM_START else position
        crossfade = None if begin is None else self._crossfade_ahead(begin)
        return None if begin is None or crossfade is None else crossfade.at_sample - begin.sample

    def _crossfade_ahead(self, position: SourcePosition) -> CrossfadeOrder | None:
        """The crossfade that ends the source of a position, in heard samples. None when it is past."""
        crossfade = self._crossfades.get(self._sources.file_of(position.source))
        if crossfade is None:
            return None
        at_sample = self._sources.heard_sample(position.source, crossfade.at_sample)
        if at_sample != crossfade.at_sample:
            crossfade = replace(crossfade, at_sample=at_sample)
        if crossfade.is_late:
            return _remaining_crossfade(crossfade, position)
        return crossfade if position.sample <= crossfade.at_sample else None

    def fading_samples(self, end: RenderState) -> dict[int, int]:
        """For each source that fades out at `end`, the first sample of the file that was not rendered yet."""
        return {
            self._sources.file_of(fade.source): self._sources.file_sample(fade.source, fade.sample_at(end.time))
            for fade in end.voices.fades
        }

    def marks(self, block: Block, gathered: Sequence[Mark]) -> list[Mark]:
        """The marks of a block in order: the gathered marks, those of crossfades that a cut began at the block's start,
        and those of crossfades that end in the block."""
        start, end_time, file_of = block.start, block.end_frame * FRAME_SAMPLES, self._sources.file_of
        fading = [
            Mark(MarkKind.FADING, start.frame, file_of(fade.source))
            for fade in start.voices.fades
            if fade.is_announced and fade.ramp.start == start.time
        ]
        faded = [
            Mark(MarkKind.FADED, -(-fade.ramp.end // FRAME_SAMPLES), file_of(fade.source))
            for fade in block.gathered.voices.fades
            if fade.is_announced and start.time < fade.ramp.end <= end_time
        ]
        return sorted([*fading, *gathered, *faded], key=lambda mark: mark.frame)

    def _crossfade_that_can_begin(self, position: SourcePosition) -> CrossfadeOrder | None:
        """The crossfade ahead. A late crossfade may begin at any time, so it is left out while the next source has no
        samples."""
        crossfade = self._crossfade_ahead(position)
        if crossfade is None or not crossfade.is_late or position.sample < crossfade.at_sample:
            return crossfade
        next_source = self._sources.next_of.get(self._sources.file_of(position.source))
        return crossfade if next_source is not None and self._sources.has_samples(next_source) else None

    def _begin_crossfade(self, crossfade: CrossfadeOrder, start: RenderState, gathered: Gathered) -> bool:
        """Begins the next source while the current source fades out. False when the next source has no samples: it is
        late, and joins at the end."""
        source = self._sources.file_of(self.position.source)
        next_source = self._sources.next_of.get(source)
        if next_source is None or not self._sources.has_samples(next_source):
            del self._crossfades[source]
            return False
        time = start.time + gathered.samples
        curve = _curve(crossfade)
        level_db = self._level_db(start, gathered.samples)
        out = Ramp(time, crossfade.samples, curve, falls=True, level=gathered.voices.gain_at(time))
        fade = Fade(self.position.source, crossfade.at_sample, out, is_announced=True, level_db=level_db)
        gathered.voices = gathered.voices.giving_way(fade, Ramp(time, crossfade.samples, curve, falls=False))
        gathered.marks.append(Mark(MarkKind.FADING, start.frame + gathered.samples // FRAME_SAMPLES, source))
        self.position = SourcePosition(next_source, FROM_START, has_begun=False)
        return True

    def _level_db(self, start: RenderState, samples: int) -> float:
        """Normalization's gain for the current source `samples` samples after `start`."""
        sources, effects = self._sources, start.filters.filters.effects
        source = sources.file_of(self.position.source)
        level = start.filters.level.towards(effects.target_lufs, source, sources.loudness_of)
        return level.later(samples).now_db

    def _fades_allow(self, voices: Voices, time: int) -> int:
        """The number of samples from `time` on for which the decoded samples of fading sources suffice."""
        if not voices.fades:
            return _UNLIMITED
        allowed = _MOST_SAMPLES
        for fade in voices.fades:
            store = self._sources.made(fade.source, fade.sample_at(time) + allowed)
            if store is None or store.is_finished or not self._sources.may_go_on(fade.source):
                continue
            available = store.end - fade.sample
            if available < fade.ramp.samples and fade.ramp.samples > GLIDE_SAMPLES:
                allowed = min(allowed, max(fade.ramp.start + available - time, 0))
        return allowed


def begins_with_tail(start: RenderState) -> bool:
    """Whether a sound was cut off exactly at `start`, and still fades out."""
    return any(fade.ramp.start == start.time for fade in start.voices.fades)


def _remaining_crossfade(crossfade: CrossfadeOrder, position: SourcePosition) -> CrossfadeOrder | None:
    """The rest of a crossfade that begins late, as soon as possible. None when it is too short."""
    at_sample = max(crossfade.at_sample, position.sample + (0 if position.has_begun else FRAME_SAMPLES))
    samples = crossfade.at_sample + crossfade.samples - at_sample
    is_enough = samples >= samples_of_ms(SHORTEST_LATE_MS) - FRAME_SAMPLES
    return replace(crossfade, at_sample=at_sample, samples=samples) if is_enough else None


def _curve(crossfade: CrossfadeOrder) -> Curve:
    return "linear" if crossfade.curve == "linear" else "equalPower"
