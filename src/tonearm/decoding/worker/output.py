"""The sound of a block as listeners get it: the sources' samples through the filters, then the last of what is done to
them: normalization's gain, the overlays and the limiter. Then it is PCM."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tonearm.core.effects import NO_EFFECTS
from tonearm.core.filters import Filters
from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.decoding.worker.filters.blocks import Planes, scale
from tonearm.decoding.worker.filters.chain import ChainState, apply, as_pcm, process
from tonearm.decoding.worker.filters.limiter import BEGINNING, LOOKAHEAD_SAMPLES, QUIET, LimiterState, limited
from tonearm.decoding.worker.gathered import Gathered
from tonearm.decoding.worker.joined_music import JoinedMusic
from tonearm.decoding.worker.normalization import Levels, levels
from tonearm.decoding.worker.overlays import NO_OVERLAYS
from tonearm.decoding.worker.session_sources import SessionSources
from tonearm.decoding.worker.timeline import Block, Checkpoint
from tonearm.decoding.worker.voices import Fade, Voices, falling, mixed

# The filters take whole frames, also of what the limiter only looks at.
_AHEAD_FRAMES: Final = -(-LOOKAHEAD_SAMPLES // FRAME_SAMPLES)
_CROSSFADING: Final = Voices((Fade(0, 0, falling(0), is_announced=True),))
_NO_CEILING_DB: Final = 200.0  # far above all sound: the limiter only lets go of what it held


class BlockOutput:
    """Makes the PCM of blocks, and the state of the filters after each of their frames."""

    def __init__(self, sources: SessionSources, music: JoinedMusic) -> None:
        self._sources = sources
        self._music = music

    def limits(self, start: Checkpoint, frames: int) -> tuple[bool, int]:
        """Whether the limiter is on in the next frames, if only to let go, and for how many of them that holds."""
        state, music = start.filters, self._music
        if (
            state.limiter is QUIET
            and not music.has_crossfades
            and state.filters.effects is NO_EFFECTS
            and not start.voices.fades
            and start.overlays is NO_OVERLAYS
        ):
            return False, frames
        filters = state.filters
        voices, with_overlays = start.voices.at(start.time), not start.overlays.change_nothing
        if not state.limiter.is_at_rest or _wants_limiter(filters, voices, with_overlays=with_overlays):
            return True, frames
        crossfade = music.crossfade_ahead(start.position) if music.has_crossfades else None
        if crossfade is None or not _wants_limiter(filters, _CROSSFADING):
            return False, frames
        frames_before = (crossfade.at_sample - start.position.sample) // FRAME_SAMPLES
        return frames_before <= 0, frames if frames_before <= 0 else min(frames, frames_before)

    def music(self, block: Block, gathered: Gathered, *, limits: bool) -> tuple[bytes, tuple[ChainState, ...]]:
        """The frames of a block of music, with overlays. `gathered` may hold more than the block: the limiter looks
        ahead in it."""
        start, frames, overlays = block.start.filters, block.frames, block.start.overlays
        mixes = not overlays.change_nothing
        if start.passes_by_filters_alone and not limits and block.voices.are_one and not mixes:
            return process(start, b"".join(gathered.pieces)[: frames * FRAME_BYTES])
        begins = gathered.begins(block.start.frame, frames + (_AHEAD_FRAMES if limits else 0))
        planes, states, normalized = self._levelled(block, gathered, begins, limits=limits)
        begins_anew = bool(begins) and begins[0][0] == 0 and not block.voices.fades
        return self._finished(block, planes, states, normalized, limits=limits, begins_anew=begins_anew)

    def overlays_alone(
        self, block: Block, *, limits: bool, held: Callable[[], Gathered]
    ) -> tuple[bytes, tuple[ChainState, ...]]:
        """The frames of a block in which the music stands. Where that fades out, `held` gives the frame with which it
        would have gone on, and will."""
        start, overlays = block.start, block.start.overlays
        whole_frames = block.frames + (_AHEAD_FRAMES if limits else 0)
        planes: Planes = np.zeros((whole_frames * FRAME_SAMPLES, CHANNELS), dtype=np.float32).T
        if overlays.gate is not None and overlays.gate.falls:
            planes[:, :FRAME_SAMPLES] = self._music_before_hold(start, held())
        filters = start.filters
        unchanged = Levels(None, (filters.level,) * whole_frames)
        states = (filters,) * whole_frames
        pcm, limited = self._finished(block, planes, states, unchanged, limits=limits, begins_anew=False)
        return pcm, tuple(filters.with_limiter(state.limiter) for state in limited)

    def _music_before_hold(self, start: Checkpoint, gathered: Gathered) -> Planes:
        """One frame of music. It is not limited: what it is mixed with will be."""
        if not gathered.samples:
            return np.zeros((CHANNELS, FRAME_SAMPLES), dtype=np.float32)
        block = Block(start, 1, tuple(gathered.segments), (), gathered.voices)
        begins = gathered.begins(start.frame, 1)
        planes, _, normalized = self._levelled(block, gathered, begins, limits=False)
        return planes if normalized.factors is None else planes * normalized.factors

    def _levelled(
        self, block: Block, gathered: Gathered, begins: Sequence[tuple[int, int]], *, limits: bool
    ) -> tuple[Planes, Sequence[ChainState], Levels]:
        """The music behind its filters, further than the block if the limiter looks ahead, the states of these after
        each frame, and what normalization does to it. `begins`: which sources begin in it, and where."""
        start = block.start.filters
        whole_frames = block.frames + (_AHEAD_FRAMES if limits else 0)
        normalized = self._levels(block, gathered, whole_frames, begins)
        pcm = b"".join(gathered.pieces)[: whole_frames * FRAME_BYTES].ljust(whole_frames * FRAME_BYTES, b"\0")
        if start.is_volume_alone and block.voices.are_one:
            # Sample by sample, as the bytes are: turning them into two planes and back takes most of the time.
            planes = np.frombuffer(pcm, dtype="<i2").reshape(-1, CHANNELS).astype(np.float32).T
            if start.filters.volume != 1.0:
                planes *= np.float32(start.filters.volume)
            return planes, (start,) * whole_frames, normalized
        voices = mixed(pcm, block.start.time, block.voices, self._sources.read, normalized.factors)
        planes, states = apply(start, voices)
        return planes, states, normalized

    def _levels(self, block: Block, gathered: Gathered, frames: int, begins: Sequence[tuple[int, int]]) -> Levels:
        """What normalization multiplies the block's frames by, and its level after each one."""
        sources, filters, level = self._sources, block.start.filters.filters, block.start.filters.level
        normalization = filters.effects.normalization
        if normalization is None or normalization.mode == "off":
            return levels(level, None, frames, 0, (), sources.loudness_of)
        for segment, piece in zip(gathered.segments, gathered.pieces, strict=False):
            length = min(segment.length, block.frames * FRAME_SAMPLES - segment.offset)
            sources.measure(segment, piece[: max(length, 0) * SAMPLE_BLOCK_BYTES])
        source = sources.file_of(block.segments[0].source) if block.segments else 0
        return levels(level, normalization.target_lufs, frames, source, begins, sources.loudness_of)

    def _finished(
        self,
        block: Block,
        planes: Planes,
        states: Sequence[ChainState],
        normalized: Levels,
        *,
        limits: bool,
        begins_anew: bool,
    ) -> tuple[bytes, tuple[ChainState, ...]]:
        """The PCM of a block, and the state after each frame. `planes`, which is changed, and `states` come from the
        filters and may go on behind the block, for the limiter to look at. `begins_anew`: a sound begins with the first
        sample."""
        start, overlays, frames = block.start.filters, block.start.overlays, block.frames
        if normalized.factors is not None:
            scale(planes, normalized.factors)
        mixes = not overlays.change_nothing
        if mixes:
            overlays.mix_into(planes, block.start.time, self._sources.read)
        limiter: Sequence[LimiterState] = (QUIET,) * frames
        if limits:
            setting = start.filters.effects.limiter
            is_wanted = _wants_limiter(start.filters, block.voices, with_overlays=mixes)
            ceiling_db = setting.ceiling_db if setting is not None and is_wanted else _NO_CEILING_DB
            before = BEGINNING if begins_anew and start.limiter.is_at_rest else start.limiter
            sound, ahead = planes[:, : frames * FRAME_SAMPLES], planes[:, frames * FRAME_SAMPLES :]
            planes, limiter = limited(sound, ahead, ceiling_db, before, begins=overlays.begins)
        if not limits and start.limiter is QUIET and start.passes_by_filters_alone:
            return as_pcm(planes), tuple(states[:frames])
        outputs = zip(states[:frames], normalized.after[:frames], limiter, strict=True)
        return as_pcm(planes), tuple(state.with_output(level, limits_after) for state, level, limits_after in outputs)


def _wants_limiter(filters: Filters, voices: Voices, *, with_overlays: bool = False) -> bool:
    """Whether the settings have the limiter on while these voices sound."""
    effects = filters.effects
    if effects.limiter is None or effects.limiter.enabled != "auto":
        return effects.limiter is not None and bool(effects.limiter.enabled)
    if with_overlays or effects.compressor is not None or effects.normalizes:
        return True
    return any(fade.is_announced for fade in voices.fades)


def levelled_again(pcm: bytes, state: ChainState, voices: Voices) -> bytes:
    """Filtered frames just before `state` as listeners got them, as near as that is known: with its gain, and limited
    by a limiter that begins with them."""
    gain_db = state.level.gain_db
    limits = _wants_limiter(state.filters, voices)
    if not gain_db and not limits:
        return pcm
    planes: Planes = np.frombuffer(pcm, "<i2").reshape(-1, CHANNELS).T.astype(np.float32)
    planes *= np.float32(10.0 ** (gain_db / 20.0))
    setting = state.filters.effects.limiter
    if limits and setting is not None:
        ahead = np.zeros((CHANNELS, LOOKAHEAD_SAMPLES), np.float32)
        planes, _ = limited(planes, ahead, setting.ceiling_db, BEGINNING)
    return as_pcm(planes)
