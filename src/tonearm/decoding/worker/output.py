"""The last of what is done to a block: normalization's gain, the overlays and the limiter. Then it is PCM."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tonearm.core.filters import Filters
from tonearm.core.frame import CHANNELS, FRAME_SAMPLES
from tonearm.decoding.worker.filters.blocks import Planes, scale
from tonearm.decoding.worker.filters.chain import ChainState, as_pcm
from tonearm.decoding.worker.filters.limiter import BEGINNING, LOOKAHEAD_SAMPLES, QUIET, LimiterState, limited
from tonearm.decoding.worker.normalization import Levels
from tonearm.decoding.worker.voices import Fade, Voices, falling

# The filters take whole frames, also of what the limiter only looks at.
AHEAD_FRAMES: Final = -(-LOOKAHEAD_SAMPLES // FRAME_SAMPLES)
CROSSFADING: Final = Voices((Fade(0, 0, falling(0), is_announced=True),))
_NO_CEILING_DB: Final = 200.0  # far above all sound: the limiter only lets go of what it held


def wants_limiter(filters: Filters, voices: Voices, *, with_overlays: bool = False) -> bool:
    """Whether the settings have the limiter on while these voices sound."""
    effects = filters.effects
    if effects.limiter is None or effects.limiter.enabled != "auto":
        return effects.limiter is not None and bool(effects.limiter.enabled)
    if with_overlays or effects.compressor is not None or effects.normalizes:
        return True
    return any(fade.is_announced for fade in voices.fades)


def output(
    start: ChainState,
    planes: Planes,
    states: Sequence[ChainState],
    normalized: Levels,
    voices: Voices,
    *,
    frames: int,
    limits: bool,
    begins_anew: bool,
    mix_overlays: Callable[[Planes], None] | None = None,
    overlay_begins: bool = False,
) -> tuple[bytes, tuple[ChainState, ...]]:
    """The first `frames` frames of `planes` as PCM, and the state after each one. The limiter looks at the rest.

    `planes`, which is changed, and `states` come from the filters, which began with `start`. `begins_anew`: a sound
    begins with the first sample. `mix_overlays` adds the overlays, of which one may begin with the first sample, too.
    """
    if normalized.factors is not None:
        scale(planes, normalized.factors)
    if mix_overlays is not None:
        mix_overlays(planes)
    limiter: Sequence[LimiterState] = (QUIET,) * frames
    if limits:
        setting = start.filters.effects.limiter
        is_wanted = wants_limiter(start.filters, voices, with_overlays=mix_overlays is not None)
        ceiling_db = setting.ceiling_db if setting is not None and is_wanted else _NO_CEILING_DB
        before = BEGINNING if begins_anew and start.limiter.is_at_rest else start.limiter
        sound, ahead = planes[:, : frames * FRAME_SAMPLES], planes[:, frames * FRAME_SAMPLES :]
        planes, limiter = limited(sound, ahead, ceiling_db, before, begins=overlay_begins)
    if not limits and start.limiter is QUIET and start.passes_by_filters_alone:
        return as_pcm(planes), tuple(states[:frames])
    outputs = zip(states[:frames], normalized.after[:frames], limiter, strict=True)
    return as_pcm(planes), tuple(state.with_output(level, limits_after) for state, level, limits_after in outputs)


def levelled_again(pcm: bytes, state: ChainState, voices: Voices) -> bytes:
    """Filtered frames just before `state` as listeners got them, as near as that is known: with its gain, and limited
    by a limiter that begins with them."""
    gain_db = state.level.gain_db
    limits = wants_limiter(state.filters, voices)
    if not gain_db and not limits:
        return pcm
    planes: Planes = np.frombuffer(pcm, "<i2").reshape(-1, CHANNELS).T.astype(np.float32)
    planes *= np.float32(10.0 ** (gain_db / 20.0))
    setting = state.filters.effects.limiter
    if limits and setting is not None:
        ahead = np.zeros((CHANNELS, LOOKAHEAD_SAMPLES), np.float32)
        planes, _ = limited(planes, ahead, setting.ceiling_db, BEGINNING)
    return as_pcm(planes)
