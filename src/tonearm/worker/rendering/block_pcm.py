"""Makes the PCM of a block: filters the sources' samples, applies normalization's gain, adds the overlays, and limits
the result."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from tonearm.core.filters import Filters
from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.worker.filters.blocks import FULL_SCALE, PCM_DTYPE, Planes, scale
from tonearm.worker.filters.chain import ChainState, apply, as_pcm, process
from tonearm.worker.filters.limiter import (
    LIMITER_START,
    LOOKAHEAD_SAMPLES,
    QUIET,
    Follows,
    Limits,
    limited,
    nothing_to_do_below,
    state_if_idle,
)
from tonearm.worker.filters.normalization import UNLEVELLED, Levels, levels
from tonearm.worker.mixing.voices import Fade, Voices, falling, mixed
from tonearm.worker.rendering.joined_music import JoinedMusic
from tonearm.worker.rendering.session_sources import SessionSources
from tonearm.worker.rendering.timeline import Gathered, RenderState
from tonearm.worker.sources.pcm_store import segments_between

# The filters take whole frames, also for the limiter's look-ahead.
_AHEAD_FRAMES: Final = -(-LOOKAHEAD_SAMPLES // FRAME_SAMPLES)
_CROSSFADING: Final = Voices((Fade(0, 0, falling(0), is_announced=True),))
_FULL_PCM: Final = FULL_SCALE - 1.0
_NO_CEILING_DB: Final = 200.0  # far above all sound: the limiter only releases its gain


class BlockPcm:
    """Makes the PCM of blocks, and the state of the filters after them. Repeated calls give the same results."""

    def __init__(self, sources: SessionSources, music: JoinedMusic) -> None:
        self._sources = sources
        self._music = music

    def limits(self, start: RenderState, frames: int) -> Limits:
        """The limiter's action in the next frames, or in fewer of them."""
        state, music = start.filters, self._music
        if (
            state.limiter.follows is Follows.UNKNOWN
            and not music.has_crossfades
            and not state.filters.has_effects
            and not start.voices.fades
            and start.overlays.is_empty
        ):
            return Limits(frames)
        filters, loudest = state.filters, self._loudest(start)
        voices, with_overlays = start.voices, not start.overlays.change_nothing
        is_idle, limiter = state.limiter.is_idle, filters.effects.limiter
        if not is_idle or _wants_limiter(filters, voices, with_overlays=with_overlays):
            is_quiet = is_idle and limiter is not None and loudest <= nothing_to_do_below(limiter.ceiling_db)
            return Limits(frames, True, not is_quiet, loudest)
        before = music.samples_before_crossfade(start.position) if music.has_crossfades else None
        if before is None or not _wants_limiter(filters, _CROSSFADING):
            return Limits(frames, loudest=loudest)
        if before >= FRAME_SAMPLES:
            return Limits(min(frames, before // FRAME_SAMPLES))
        return Limits(frames, is_on=True, looks_ahead=True)

    def _loudest(self, start: RenderState) -> float:
        """The level, in 16-bit units, that no sample from `start` on exceeds, until a new plan comes."""
        filters = start.filters
        is_plain = filters.is_volume_alone and filters.passes_by_filters_alone
        if not is_plain or start.voices.fades or self._music.has_crossfades:
            return math.inf
        return start.overlays.loudest(start.time, FULL_SCALE * filters.filters.volume)

    def only_filters_change(self, start: RenderState, gathered: Gathered, limits: Limits) -> bool:
        """Whether only the filters change the sources' sound: no gain, limiter, other voice or overlay does."""
        is_plain = gathered.voices.are_one and start.overlays.change_nothing
        return is_plain and start.filters.passes_by_filters_alone and not limits.is_on

    def music(self, start: RenderState, frames: int, gathered: Gathered, limits: Limits) -> tuple[bytes, ChainState]:
        """`frames` frames of music from `start` on, with overlays. `gathered` may have more samples for the limiter's
        look-ahead."""
        if self.only_filters_change(start, gathered, limits):
            return process(
                start.filters, bytes(_filled(self._sources.pcm_of(gathered.segments), frames * FRAME_SAMPLES))
            )
        sound = self._levelled(start, frames, gathered, looks_ahead=limits.looks_ahead)
        begins_anew = gathered.begins_anew(start)
        return self._finished(start, frames, gathered.voices, sound, limits, begins_anew=begins_anew)

    def overlays_alone(
        self, start: RenderState, frames: int, limits: Limits, before_pause: Callable[[], Gathered]
    ) -> tuple[bytes, ChainState]:
        """Frames in which the music stands still. Where the music fades out, `before_pause` returns its next frame,
        with which it continues after the pause."""
        overlays, filters = start.overlays, start.filters
        samples = frames * FRAME_SAMPLES + (LOOKAHEAD_SAMPLES if limits.looks_ahead else 0)
        planes: Planes = np.zeros((samples, CHANNELS), dtype=np.float32).T
        if overlays.gate is not None and overlays.gate.falls:
            planes[:, :FRAME_SAMPLES] = self._music_before_pause(start, before_pause())
        sound = _FilteredMusic(planes, filters, Levels(None, filters.level))
        return self._finished(start, frames, start.voices, sound, limits, begins_anew=False)

    def levelled_unheard(self, end: RenderState) -> RenderState:
        """The state after frames that were not filtered, with the gain that normalization would have there."""
        filters, position = end.filters, end.position
        if filters.passes_by_filters_alone:
            return end
        source = self._sources.file_of(position.source) if position.has_begun else 0
        target_lufs = filters.filters.effects.target_lufs
        level = filters.level.towards(target_lufs, source, self._sources.loudness_of).later(FRAME_SAMPLES)
        return end._replace(filters=filters.with_output(level, filters.limiter))

    def _music_before_pause(self, start: RenderState, gathered: Gathered) -> Planes:
        """One frame of music. It is not limited: the limiter works on the mix later."""
        if not gathered.samples:
            return np.zeros((CHANNELS, FRAME_SAMPLES), dtype=np.float32)
        sound = self._levelled(start, 1, gathered, looks_ahead=False)
        return sound.planes if sound.levels.factors is None else sound.planes * sound.levels.factors

    def _levelled(self, start: RenderState, frames: int, gathered: Gathered, *, looks_ahead: bool) -> "_FilteredMusic":
        """The filtered music, with more than these frames if the limiter looks ahead."""
        filters = start.filters
        pcm, normalized = self._sources.pcm_of(gathered.segments), Levels(None, UNLEVELLED)
        whole_frames = frames + (_AHEAD_FRAMES if looks_ahead else 0)
        samples = frames * FRAME_SAMPLES + (LOOKAHEAD_SAMPLES if looks_ahead else 0)
        if not filters.passes_by_filters_alone:
            normalized = self._levels(start, frames, gathered, whole_frames - frames, pcm)
            samples = whole_frames * FRAME_SAMPLES
        if filters.is_volume_alone and gathered.voices.are_one:
            # Interleaved, like the bytes: the conversion to two planes and back would take most of the time.
            planes = np.frombuffer(_filled(pcm, samples), PCM_DTYPE).astype(np.float32).reshape(-1, CHANNELS).T
            if filters.filters.volume != 1.0:
                planes *= np.float32(filters.filters.volume)
            return _FilteredMusic(planes, filters, normalized)
        whole = _filled(pcm, whole_frames * FRAME_SAMPLES)
        voices = mixed(whole, start.time, gathered.voices, self._sources.view, normalized.factors)
        planes, after = apply(filters, voices[:, : frames * FRAME_SAMPLES])
        if looks_ahead:
            planes = np.concatenate((planes, apply(after, voices[:, frames * FRAME_SAMPLES :])[0]), axis=1)
        return _FilteredMusic(planes, after, normalized)

    def _levels(
        self,
        start: RenderState,
        frames: int,
        gathered: Gathered,
        ahead_frames: int,
        pcm: bytes | memoryview,
    ) -> Levels:
        """Normalization's factors for these frames and `ahead_frames` more, and its level after the frames. Only the
        frames are measured, and only the first time: the look-ahead is measured later."""
        sources, level = self._sources, start.filters.level
        target_lufs = start.filters.filters.effects.target_lufs
        segments, loudness = gathered.segments, gathered.loudness
        if target_lufs is None:
            return levels(level, None, frames, ahead_frames, 0, (), sources.loudness_of)
        if loudness is None:
            for segment in segments_between(segments, 0, frames * FRAME_SAMPLES):
                end = segment.offset + segment.length
                sources.measure(segment, pcm[segment.offset * SAMPLE_BLOCK_BYTES : end * SAMPLE_BLOCK_BYTES])
            files = {sources.file_of(segment.source) for segment in segments}
            loudness = gathered.loudness = {file: sources.loudness_of(file).as_it_is() for file in files}
        source = sources.file_of(segments[0].source) if segments else 0
        begins = [(offset, sources.file_of(begun)) for offset, begun in gathered.begins(start)]
        goes_on = start.position.goes_on
        return levels(level, target_lufs, frames, ahead_frames, source, begins, loudness.__getitem__, goes_on=goes_on)

    def _finished(
        self,
        start: RenderState,
        frames: int,
        voices: Voices,
        sound: "_FilteredMusic",
        limits: Limits,
        *,
        begins_anew: bool,
    ) -> tuple[bytes, ChainState]:
        """The PCM of `frames` frames of a sound, and the state after them. `sound` is changed in place. `begins_anew`:
        the sound begins with the first sample."""
        filters, overlays = start.filters, start.overlays
        planes, after, normalized = sound
        if normalized.factors is not None:
            scale(planes, normalized.factors)
        mixes = not overlays.change_nothing
        if mixes:
            overlays.mix_into(planes, start.time, self._sources.view)
        limiter = None
        may_clip = limits.loudest > _FULL_PCM
        if limits.is_on:
            setting = filters.filters.effects.limiter
            is_wanted = _wants_limiter(filters.filters, voices, with_overlays=mixes)
            ceiling_db = setting.ceiling_db if setting is not None and is_wanted else _NO_CEILING_DB
            before = LIMITER_START if begins_anew and filters.limiter.is_idle else filters.limiter
            limiter = state_if_idle(planes, frames, ceiling_db, before, limits.loudest)
            may_clip &= limiter is None or ceiling_db > 0.0
            planes, ahead = planes[:, : frames * FRAME_SAMPLES], planes[:, frames * FRAME_SAMPLES :]
            if limiter is None:
                planes, limiter = limited(planes, ahead, ceiling_db, before, begins=overlays.begins)
        pcm = as_pcm(planes, may_clip=may_clip)
        if limiter is None:
            if filters.limiter.follows is Follows.UNKNOWN and filters.passes_by_filters_alone:
                return pcm, after
            limiter = QUIET
        return pcm, after.with_output(normalized.after, limiter)


class _FilteredMusic(NamedTuple):
    """Filtered music, the filters' state after the block's frames, and normalization's factors. The music may continue
    after these frames, for the limiter's look-ahead."""

    planes: Planes
    after: ChainState
    levels: Levels


def _filled(pcm: bytes | memoryview, samples: int) -> bytes | memoryview:
    """The first `samples` samples, filled up with silence."""
    size = samples * SAMPLE_BLOCK_BYTES
    return pcm[:size] if len(pcm) >= size else bytes(pcm).ljust(size, b"\0")


def _wants_limiter(filters: Filters, voices: Voices, *, with_overlays: bool = False) -> bool:
    """Whether the settings turn the limiter on while these voices play."""
    crossfades = any(fade.is_announced for fade in voices.fades)
    return filters.effects.limits(with_overlays=with_overlays, crossfades=crossfades)


def levelled_again(pcm: bytes, filters: Filters, gain_db: float, voices: Voices) -> bytes:
    """Filtered frames approximately as listeners received them: with normalization's gain, and limited by a limiter
    that begins with these frames."""
    limits = _wants_limiter(filters, voices)
    if not gain_db and not limits:
        return pcm
    planes: Planes = np.frombuffer(pcm, PCM_DTYPE).reshape(-1, CHANNELS).T.astype(np.float32)
    planes *= np.float32(10.0 ** (gain_db / 20.0))
    setting = filters.effects.limiter
    if limits and setting is not None:
        ahead = np.zeros((CHANNELS, LOOKAHEAD_SAMPLES), np.float32)
        planes, _ = limited(planes, ahead, setting.ceiling_db, LIMITER_START)
    return as_pcm(planes)
