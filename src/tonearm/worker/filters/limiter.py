"""The limiter: keeps true peaks below a ceiling by a gain that falls before the peak.

It looks ahead in sound that is decoded already, so it adds no delay. While nothing reaches the ceiling, every bit stays
unchanged. Peaks between the samples count, too: see `TruePeakMeter`.

The gain is computed for every LIMITER_STEP_SAMPLES and interpolated linearly in between. At the start of a step it is
a moving average over the lowest gains that the next LOOKAHEAD_STEPS need at each of the steps before. So the gain is
low enough at each peak, and reaches it in a curve without corners.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.worker.filters.blocks import FULL_SCALE, Planes, interleaved, scale
from tonearm.worker.filters.loudness import HALF_TAPS, INTERPOLATION, TAPS

LIMITER_STEP_SAMPLES: Final = 16
LOOKAHEAD_STEPS: Final = 10  # 3.3 ms
# The samples after a block that the limiter reads: the steps of the look-ahead, one for the line between two steps, and
# those for the interpolation of the last sample.
LOOKAHEAD_SAMPLES: Final = (LOOKAHEAD_STEPS + 2) * LIMITER_STEP_SAMPLES
_STEPS_PER_FRAME: Final = FRAME_SAMPLES // LIMITER_STEP_SAMPLES
_RELEASE_MS: Final = 80.0
_RELEASE: Final = 1.0 - float(np.exp(-1000.0 * LIMITER_STEP_SAMPLES / SAMPLE_RATE_HZ / _RELEASE_MS))
_RELEASED: Final = 1.0 - 1e-4  # a gain of -0.001 dB becomes 0 dB

# Between samples a sound may be 3 dB louder than at them (a quarter of the rate, sampled at its 45 degrees), rarely
# more. Below this share of the ceiling the limiter looks for no peaks between samples.
_MAY_PEAK: Final = 0.6
_LIMITER_STEP_SHARES: Final = np.arange(LIMITER_STEP_SAMPLES) / LIMITER_STEP_SAMPLES


class Follows(Enum):
    """The sound before the next sound to limit."""

    SOUND = "sound"
    SILENCE = "silence"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class LimiterState:
    """The limiter's state. `held`: the gains before smoothing of the last LOOKAHEAD_STEPS steps, oldest first; all are
    1 when the limiter is idle. `before`: the last samples, HALF_TAPS of each channel, none of them above `loudest`."""

    held: tuple[float, ...]
    before: Planes
    loudest: float = math.inf
    follows: Follows = Follows.SOUND

    @property
    def is_idle(self) -> bool:
        return self.held == _IDLE


_IDLE: Final = (1.0,) * LOOKAHEAD_STEPS
_SILENT_HISTORY: Final = np.zeros((CHANNELS, HALF_TAPS), dtype=np.float32)
LIMITER_START: Final = LimiterState(_IDLE, _SILENT_HISTORY, 0.0, Follows.SILENCE)
QUIET: Final = LimiterState(_IDLE, _SILENT_HISTORY, 0.0, Follows.UNKNOWN)


class Limits(NamedTuple):
    """The limiter's action in the next `frames` frames. `is_on`: it is on, or still releasing. `looks_ahead`: it needs
    the samples after the frames. `loudest`: no sample of the frames and the look-ahead is above this, in 16-bit
    units."""

    frames: int
    is_on: bool = False
    looks_ahead: bool = False
    loudest: float = math.inf


def _idle_after(planes: Planes, frames: int, loudest: float) -> LimiterState:
    """The state after the first frames of `planes`, in which nothing was limited and no sample is above `loudest`."""
    end = frames * FRAME_SAMPLES
    return LimiterState(_IDLE, planes[:, end - HALF_TAPS : end].astype(np.float32), loudest)


def nothing_to_do_below(ceiling_db: float) -> float:
    """The sample value, in 16-bit units, up to which an idle limiter changes nothing."""
    return _MAY_PEAK * FULL_SCALE * math.pow(10.0, ceiling_db / 20.0)


def state_if_idle(
    planes: Planes, frames: int, ceiling_db: float, state: LimiterState, loudest: float = math.inf
) -> LimiterState | None:
    """The state after the first frames of `planes`, or None when `limited` may change them.

    `limited` changes nothing when no sample is near the ceiling, the look-ahead included. `loudest`: an upper bound of
    all samples; infinity where the caller has none.
    """
    if not state.is_idle:
        return None
    most = nothing_to_do_below(ceiling_db)
    if state.loudest > most and _loudest(state.before) > most:
        return None
    if loudest > most and (loudest := _loudest(planes)) > most:
        return None
    return _idle_after(planes, frames, loudest)


def limited(
    planes: Planes, ahead: Planes, ceiling_db: float, state: LimiterState, *, begins: bool = False
) -> tuple[Planes, LimiterState]:
    """`planes` (2 by n, whole frames) with no true peak above `ceiling_db`, and the state after them.

    `ahead` is the sound after them, 2 by up to LOOKAHEAD_SAMPLES; where it is shorter, silence is assumed to follow.
    `begins`: another sound begins with the first sample, and no earlier look-ahead covered it. Returns `planes` itself
    when there is nothing to do.
    """
    frames = planes.shape[1] // FRAME_SAMPLES
    ceiling = FULL_SCALE * 10.0 ** (ceiling_db / 20.0)
    sound = np.zeros((CHANNELS, HALF_TAPS + planes.shape[1] + LOOKAHEAD_SAMPLES), dtype=np.float32)
    # An unknown past is assumed to mirror the next samples: a jump would be a peak.
    sound[:, :HALF_TAPS] = planes[:, HALF_TAPS:0:-1] if state.follows is Follows.UNKNOWN else state.before
    sound[:, HALF_TAPS : HALF_TAPS + planes.shape[1]] = planes
    sound[:, HALF_TAPS + planes.shape[1] :][:, : ahead.shape[1]] = ahead[:, :LOOKAHEAD_SAMPLES]

    needed = _gains_needed(sound, frames * _STEPS_PER_FRAME + LOOKAHEAD_STEPS + 1, ceiling)
    if needed is None and state.is_idle:
        return planes, _idle_after(planes, frames, math.inf)
    if needed is None:
        needed = np.ones(frames * _STEPS_PER_FRAME + LOOKAHEAD_STEPS + 1)

    # The gain at the start of a step has to suit this step and the one before: both lines meet there.
    lowest_ahead = np.lib.stride_tricks.sliding_window_view(needed, LOOKAHEAD_STEPS + 1).min(axis=1).tolist()
    # A sound that begins loud is limited from its first sample on: no earlier sound leaves time for the gain to fall.
    held = list(state.held)
    if (state.follows is Follows.SILENCE or begins) and lowest_ahead[0] < min(held):
        held = [lowest_ahead[0]] * LOOKAHEAD_STEPS
    gain = held[-1]
    for lowest in lowest_ahead:
        gain = min(lowest, gain + (1.0 - gain) * _RELEASE)
        if gain > _RELEASED:
            gain = min(lowest, 1.0)
        held.append(gain)
    smooth = np.convolve(held, np.full(LOOKAHEAD_STEPS, 1.0 / LOOKAHEAD_STEPS), "valid")
    starts, ends = smooth[: frames * _STEPS_PER_FRAME], smooth[1 : frames * _STEPS_PER_FRAME + 1]
    gains = starts[:, np.newaxis] + (ends - starts)[:, np.newaxis] * _LIMITER_STEP_SHARES
    limited_planes = planes.copy(order="K")
    scale(limited_planes, gains.reshape(-1).astype(np.float32))
    before = sound[:, planes.shape[1] : planes.shape[1] + HALF_TAPS].copy()
    return limited_planes, LimiterState(tuple(held[frames * _STEPS_PER_FRAME :][:LOOKAHEAD_STEPS]), before)


def _loudest(planes: Planes) -> float:
    row = interleaved(planes)
    sound = planes if row is None else row
    return max(float(np.maximum.reduce(sound, axis=None)), -float(np.minimum.reduce(sound, axis=None)))


def _gains_needed(sound: NDArray[np.float32], steps: int, ceiling: float) -> NDArray[np.float64] | None:
    """The gain, up to 1, that the highest true peak of each of `steps` steps needs. None when all need 1."""
    in_steps = sound[:, HALF_TAPS : HALF_TAPS + steps * LIMITER_STEP_SAMPLES].reshape(
        CHANNELS, steps, LIMITER_STEP_SAMPLES
    )
    peaks = np.abs(in_steps).max(axis=(0, 2)).astype(np.float64)
    loud = np.flatnonzero(peaks > _MAY_PEAK * ceiling)
    if not len(loud):
        return None
    # The points between samples just before a loud step count, too.
    width = LIMITER_STEP_SAMPLES + TAPS
    windows = np.lib.stride_tricks.sliding_window_view(sound, width, axis=1)
    starts = loud * LIMITER_STEP_SAMPLES
    starts = starts[starts < windows.shape[1]]
    around = windows[:, starts]
    taps = np.lib.stride_tricks.sliding_window_view(around, TAPS, axis=2)
    between = np.abs(np.ascontiguousarray(taps) @ INTERPOLATION).max(axis=(0, 2, 3))
    peaks[loud[: len(starts)]] = np.maximum(peaks[loud[: len(starts)]], between)
    if peaks.max() <= ceiling:
        return None
    gains: NDArray[np.float64] = np.minimum(1.0, ceiling / np.maximum(peaks, 1.0))
    return gains
