"""Makes the PCM of a block: the sources' samples pass the filters, then normalization's gain and the overlays are
applied, and the limiter comes last."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from tonearm.core.filters import Filters
from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.worker.filters.blocks import FULL_SCALE, PCM_DTYPE, Planes, StatesOnDemand, scale
from tonearm.worker.filters.chain import ChainState, apply, as_pcm, process
from tonearm.worker.filters.limiter import (
    LIMITER_START,
    LOOKAHEAD_SAMPLES,
    QUIET,
    Follows,
    LimiterState,
    limited,
    nothing_to_do_below,
    states_if_idle,
)
from tonearm.worker.filters.normalization import UNLEVELLED, Levels, levels
from tonearm.worker.mixing.voices import Fade, Voices, falling, mixed
from tonearm.worker.rendering.joined_music import Gathered, JoinedMusic
from tonearm.worker.rendering.session_sources import SessionSources
from tonearm.worker.rendering.timeline import Checkpoint

# The filters take whole frames, also for the samples that the limiter looks ahead.
_AHEAD_FRAMES: Final = -(-LOOKAHEAD_SAMPLES // FRAME_SAMPLES)
_CROSSFADING: Final = Voices((Fade(0, 0, falling(0), is_announced=True),))
_FULL_PCM: Final = FULL_SCALE - 1.0
_NO_CEILING_DB: Final = 200.0  # far above all sound: the limiter only releases its gain


class Limits(NamedTuple):
    """What the limiter does in the next `frames` frames. `is_on`: it is on, or still releasing. `looks_ahead`: it needs
    the samples after them. `loudest`: no sample in them, and in the look-ahead, is above this, in 16-bit units."""

    frames: int
    is_on: bool = False
    looks_ahead: bool = False
    loudest: float = math.inf


class BlockPcm:
    """Makes the PCM of blocks, and the state of the filters after each of their frames."""

    def __init__(self, sources: SessionSources, music: JoinedMusic) -> None:
        self._sources = sources
        self._music = music

    def limits(self, start: Checkpoint, frames: int) -> Limits:
        """What the limiter does in the next frames, or fewer of them."""
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
        voices, with_overlays = start.voices.at(start.time), not start.overlays.change_nothing
        is_idle, limiter = state.limiter.is_idle, filters.effects.limiter
        if not is_idle or _wants_limiter(filters, voices, with_overlays=with_overlays):
            is_quiet = is_idle and limiter is not None and loudest <= nothing_to_do_below(limiter.ceiling_db)
            return Limits(frames, True, not is_quiet, loudest)
        crossfade = music.crossfade_ahead(start.position) if music.has_crossfades else None
        if crossfade is None or not _wants_limiter(filters, _CROSSFADING):
            return Limits(frames, loudest=loudest)
        frames_before = (crossfade.at_sample - start.position.sample) // FRAME_SAMPLES
        if frames_before > 0:
            return Limits(min(frames, frames_before))
        return Limits(frames, is_on=True, looks_ahead=True)

    def _loudest(self, start: Checkpoint) -> float:
        """No sample from `start` on is above it, as long as nothing is planned anew: in 16-bit units."""
        filters = start.filters
        is_plain = filters.is_volume_alone and filters.passes_by_filters_alone
        if not is_plain or start.voices.fades or self._music.has_crossfades:
            return math.inf
        return start.overlays.loudest(start.time, FULL_SCALE * filters.filters.volume)

    def only_filters_change(self, start: Checkpoint, gathered: Gathered, limits: Limits) -> bool:
        """Whether nothing but the filters is between the sources and what is heard: no gain, limiter, other voice or
        overlay."""
        is_plain = gathered.voices.are_one and start.overlays.change_nothing
        return is_plain and start.filters.passes_by_filters_alone and not limits.is_on

    def music(
        self, start: Checkpoint, frames: int, gathered: Gathered, limits: Limits
    ) -> tuple[bytes, Sequence[ChainState]]:
        """`frames` frames of music from `start` on, with overlays. `gathered` may hold more: the limiter looks ahead in
        it."""
        if self.only_filters_change(start, gathered, limits):
            return process(start.filters, b"".join(gathered.pieces)[: frames * FRAME_BYTES])
        begins = gathered.begins(start.frame, frames + (_AHEAD_FRAMES if limits.looks_ahead else 0))
        sound = self._levelled(start, frames, gathered, begins, looks_ahead=limits.looks_ahead)
        begins_anew = gathered.begins_anew(start)
        return self._finished(start, frames, gathered.voices, sound, limits, begins_anew=begins_anew)

    def overlays_alone(
        self, start: Checkpoint, frames: int, limits: Limits, before_pause: Callable[[], Gathered]
    ) -> tuple[bytes, Sequence[ChainState]]:
        """Frames in which the music stands. Where that fades out, `before_pause` gives the frame with which it would
        have gone on, and will."""
        overlays, filters = start.overlays, start.filters
        samples = frames * FRAME_SAMPLES + (LOOKAHEAD_SAMPLES if limits.looks_ahead else 0)
        planes: Planes = np.zeros((samples, CHANNELS), dtype=np.float32).T
        if overlays.gate is not None and overlays.gate.falls:
            planes[:, :FRAME_SAMPLES] = self._music_before_pause(start, before_pause())
        unchanged = Levels(None, (filters.level,) * frames)
        sound = _FilteredMusic(planes, (filters,) * frames, unchanged)
        return self._finished(start, frames, start.voices, sound, limits, begins_anew=False)

    def _music_before_pause(self, start: Checkpoint, gathered: Gathered) -> Planes:
        """One frame of music. It is not limited: what it is mixed with will be."""
        if not gathered.samples:
            return np.zeros((CHANNELS, FRAME_SAMPLES), dtype=np.float32)
        sound = self._levelled(start, 1, gathered, gathered.begins(start.frame, 1), looks_ahead=False)
        return sound.planes if sound.levels.factors is None else sound.planes * sound.levels.factors

    def _levelled(
        self,
        start: Checkpoint,
        frames: int,
        gathered: Gathered,
        begins: Sequence[tuple[int, int]],
        *,
        looks_ahead: bool,
    ) -> "_FilteredMusic":
        """The music behind its filters, and further than these frames if the limiter looks ahead. `begins`: which
        sources begin in it, and where."""
        filters = start.filters
        pcm = gathered.pieces[0] if len(gathered.pieces) == 1 else b"".join(gathered.pieces)
        if filters.passes_by_filters_alone:
            normalized = Levels(None, (UNLEVELLED,) * frames)
            samples = frames * FRAME_SAMPLES + (LOOKAHEAD_SAMPLES if looks_ahead else 0)
        else:
            whole_frames = frames + (_AHEAD_FRAMES if looks_ahead else 0)
            normalized = self._levels(start, frames, gathered, whole_frames, begins)
            samples = whole_frames * FRAME_SAMPLES
        if filters.is_volume_alone and gathered.voices.are_one:
            # Sample by sample, as the bytes are: turning them into two planes and back takes most of the time.
            planes = np.frombuffer(_filled(pcm, samples), PCM_DTYPE).astype(np.float32).reshape(-1, CHANNELS).T
            if filters.filters.volume != 1.0:
                planes *= np.float32(filters.filters.volume)
            return _FilteredMusic(planes, (filters,) * frames, normalized)
        whole = _filled(pcm, -(-samples // FRAME_SAMPLES) * FRAME_SAMPLES)
        voices = mixed(whole, start.time, gathered.voices, self._sources.view, normalized.factors)
        planes, states = apply(filters, voices)
        return _FilteredMusic(planes, states, normalized)

    def _levels(
        self,
        start: Checkpoint,
        frames: int,
        gathered: Gathered,
        whole_frames: int,
        begins: Sequence[tuple[int, int]],
    ) -> Levels:
        """What normalization multiplies `whole_frames` frames by, and its level after each one. The first `frames` are
        measured, since the others come again."""
        sources, filters, level = self._sources, start.filters.filters, start.filters.level
        target_lufs = filters.effects.target_lufs
        if target_lufs is None:
            return levels(level, None, whole_frames, 0, (), sources.loudness_of)
        for segment, piece in zip(gathered.segments, gathered.pieces, strict=False):
            length = min(segment.length, frames * FRAME_SAMPLES - segment.offset)
            sources.measure(segment, piece[: max(length, 0) * SAMPLE_BLOCK_BYTES])
        source = sources.file_of(gathered.segments[0].source) if gathered.segments else 0
        goes_on = start.position.goes_on
        return levels(level, target_lufs, whole_frames, source, begins, sources.loudness_of, goes_on=goes_on)

    def _finished(
        self,
        start: Checkpoint,
        frames: int,
        voices: Voices,
        sound: "_FilteredMusic",
        limits: Limits,
        *,
        begins_anew: bool,
    ) -> tuple[bytes, Sequence[ChainState]]:
        """The PCM of `frames` frames of a sound, which is changed, and the state after each one. `begins_anew`: it
        begins with the first sample."""
        filters, overlays = start.filters, start.overlays
        planes, states, normalized = sound
        if normalized.factors is not None:
            scale(planes, normalized.factors)
        mixes = not overlays.change_nothing
        if mixes:
            overlays.mix_into(planes, start.time, self._sources.view)
        limiter: Sequence[LimiterState] | None = None
        may_clip = limits.loudest > _FULL_PCM
        if limits.is_on:
            setting = filters.filters.effects.limiter
            is_wanted = _wants_limiter(filters.filters, voices, with_overlays=mixes)
            ceiling_db = setting.ceiling_db if setting is not None and is_wanted else _NO_CEILING_DB
            before = LIMITER_START if begins_anew and filters.limiter.is_idle else filters.limiter
            limiter = states_if_idle(planes, frames, ceiling_db, before, limits.loudest)
            may_clip &= limiter is None or ceiling_db > 0.0
            planes, ahead = planes[:, : frames * FRAME_SAMPLES], planes[:, frames * FRAME_SAMPLES :]
            if limiter is None:
                planes, limiter = limited(planes, ahead, ceiling_db, before, begins=overlays.begins)
        pcm = as_pcm(planes, may_clip=may_clip)
        if limiter is None:
            if filters.limiter.follows is Follows.UNKNOWN and filters.passes_by_filters_alone:
                return pcm, states[:frames]
            limiter = (QUIET,) * frames
        levels_after, limiter_after = normalized.after, limiter

        def after(frame: int) -> ChainState:
            return states[frame].with_output(levels_after[frame], limiter_after[frame])

        return pcm, StatesOnDemand(after, range(frames))


class _FilteredMusic(NamedTuple):
    """Music behind its filters, the states of these after each frame, and what normalization does to it. It may go on
    behind the frames that are made, for the limiter to look at."""

    planes: Planes
    states: Sequence[ChainState]
    levels: Levels


def _filled(pcm: bytes | memoryview, samples: int) -> bytes | memoryview:
    """The first `samples` samples; silence where there are fewer."""
    size = samples * SAMPLE_BLOCK_BYTES
    return pcm[:size] if len(pcm) >= size else bytes(pcm).ljust(size, b"\0")


def _wants_limiter(filters: Filters, voices: Voices, *, with_overlays: bool = False) -> bool:
    """Whether the settings have the limiter on while these voices sound."""
    crossfades = any(fade.is_announced for fade in voices.fades)
    return filters.effects.limits(with_overlays=with_overlays, crossfades=crossfades)


def levelled_again(pcm: bytes, filters: Filters, gain_db: float, voices: Voices) -> bytes:
    """Frames behind these filters as listeners got them, as near as that is known: with normalization's gain, and
    limited by a limiter that begins with them."""
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
