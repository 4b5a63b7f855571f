"""Normalization: the gain that brings each source to the same loudness.

The loudness comes from the source's tags, or is measured while the source plays. The measurement takes the source's own
sound, before all filters. So it belongs to the source, and each sample counts once, however often it is rendered.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, FRAME_MS, FRAME_SAMPLES, samples_of_ms
from tonearm.core.track_info import MeasuredLoudness
from tonearm.worker.filters.blocks import half_cosine
from tonearm.worker.filters.loudness import KNOWN_AFTER_MS, Meter, next_gain_db, wanted_gain_db

REPORT_EVERY_MS: Final = 2_000
# A tag may require more gain than a measurement: it covers the whole track.
_MOST_TAGGED_GAIN_DB: Final = 30.0
_GAIN_RAMP_SAMPLES: Final = samples_of_ms(10)
_RAMP: Final = half_cosine(_GAIN_RAMP_SAMPLES)


class SourceLoudness:
    """The loudness of one source: by its tags, or by measurement.

    The thread that opens the source sets `tagged_lufs` before the first sample; all else belongs to the rendering
    thread.
    """

    def __init__(self, measured: MeasuredLoudness | None = None) -> None:
        self.tagged_lufs: float | None = None
        # Made at the first measurement, since most sources are never measured.
        self._meter = None if measured is None else Meter.resumed(measured.lufs, measured.measured_ms)
        self._reported_ms = self._measured_ms
        self._measured_to = -1  # the first sample of the source that was not measured yet

    def measure(self, pcm: bytes | memoryview, sample: int, rate: float) -> None:
        """Measures PCM of the source's own sound that begins at its sample `sample`; `rate` is the number of source
        samples for each sample of PCM. Sound that was measured before is skipped, and so is a partial frame at the
        end."""
        skipped = max(0, math.ceil((self._measured_to - sample) / rate))
        planes = np.frombuffer(pcm, dtype="<i2").reshape(-1, CHANNELS).T
        length = (planes.shape[1] - skipped) // FRAME_SAMPLES * FRAME_SAMPLES
        if length <= 0:
            return
        self._meter = (self._meter or Meter.fresh()).fed(planes[:, skipped : skipped + length])
        self._measured_to = sample + round((skipped + length) * rate)

    def as_it_is(self) -> "SourceLoudness":
        """A copy that later measurements do not change, for sound that is rendered again."""
        return copy.copy(self)

    def take_measured(self) -> MeasuredLoudness | None:
        """The measurement so far, for the node to store; None while there is little new."""
        measured_ms = self._measured_ms
        if measured_ms < self._reported_ms + REPORT_EVERY_MS:
            return None
        self._reported_ms = measured_ms
        lufs = self._lufs
        return None if lufs == -math.inf else MeasuredLoudness(lufs, measured_ms)

    def first_gain_db(self, before_db: float, target_lufs: float) -> float:
        """The gain that the source begins with, after a gain of `before_db`. A source of unknown loudness is not
        amplified, since it may be as loud as any."""
        if self.tagged_lufs is not None:
            return min(max(target_lufs - self.tagged_lufs, -_MOST_TAGGED_GAIN_DB), _MOST_TAGGED_GAIN_DB)
        loudness = self._lufs
        if self._measured_ms >= KNOWN_AFTER_MS and loudness != -math.inf:
            return wanted_gain_db(loudness, target_lufs)
        return min(before_db, 0.0)

    def gains_db(self, gain_db: float, target_lufs: float, frames: int) -> list[float]:
        """The gain after each of `frames` frames, of which the first begins at `gain_db`."""
        if self.tagged_lufs is not None:
            return [gain_db] * frames
        loudness = self._lufs
        gains_db = []
        for _ in range(frames):
            gain_db = next_gain_db(loudness, self._measured_ms, gain_db, target_lufs, FRAME_MS)
            gains_db.append(gain_db)
        return gains_db

    @property
    def _measured_ms(self) -> int:
        return 0 if self._meter is None else self._meter.measured_ms

    @property
    def _lufs(self) -> float:
        return -math.inf if self._meter is None else self._meter.integrated_lufs


@dataclass(frozen=True, slots=True)
class Level:
    """The gain before a frame, with its source and target. With `target_lufs` None normalization is off.

    `before` is the factor from which a ramp leads to the gain. `ramped` is how many samples of the ramp are past; the
    ramp may be over.
    """

    source: int = 0
    gain_db: float = 0.0
    target_lufs: float | None = None
    before: float = 1.0
    ramped: int = _GAIN_RAMP_SAMPLES

    @property
    def is_ramping(self) -> bool:
        return self.ramped < _GAIN_RAMP_SAMPLES

    @property
    def factor(self) -> float:
        """The factor of the previous sample."""
        factor = math.pow(10.0, self.gain_db / 20.0)
        if not self.is_ramping:
            return factor
        share = float(_RAMP[self.ramped - 1]) if self.ramped else 0.0
        return self.before + (factor - self.before) * share

    @property
    def now_db(self) -> float:
        return 20.0 * math.log10(self.factor) if self.is_ramping else self.gain_db

    def towards(self, target_lufs: float | None, source: int, loudness_of: Callable[[int], SourceLoudness]) -> "Level":
        """The level at which a source continues after this level: its gain, and the ramp that leads there."""
        if target_lufs == self.target_lufs and (target_lufs is None or source in (0, self.source)):
            return self
        if target_lufs is None:
            return Level(before=self.factor, ramped=0)
        gain_db = loudness_of(source).first_gain_db(self.gain_db, target_lufs) if source else self.gain_db
        return Level(source, gain_db, target_lufs, self.factor, ramped=0)

    def later(self, samples: int) -> "Level":
        return replace(self, ramped=self.ramped + samples) if self.is_ramping else self


UNLEVELLED: Final = Level()


class Levels(NamedTuple):
    """The factors for the samples of some frames and of the look-ahead (None: all 1), and the level after the
    frames."""

    factors: NDArray[np.float32] | None
    after: Level


def levels(
    level: Level,
    target_lufs: float | None,
    frames: int,
    ahead_frames: int,
    source: int,
    begins: Sequence[tuple[int, int]],
    loudness_of: Callable[[int], SourceLoudness],
    *,
    goes_on: bool = True,
) -> Levels:
    """The factors for `frames` frames that begin at `level`, and for `ahead_frames` more.

    `source` is the source that plays at their start. `begins` lists the other sources that begin in the frames, or
    later in the same block, each with its offset in samples; their own gain applies from there on. A ramp leads from
    one gain to the next, unless nothing was heard before; `goes_on` is True when something was.
    """
    if target_lufs is None:
        if level.target_lufs is None:
            return Levels(None, UNLEVELLED)
        factors = np.ones((frames + ahead_frames) * FRAME_SAMPLES, np.float32)
        return Levels(_ramped(factors, level.factor), UNLEVELLED)
    begins_anew = bool(begins) and begins[0][0] == 0
    towards = level if begins_anew else level.towards(target_lufs, source, loudness_of)
    gain_db = towards.gain_db
    ends_db = [gain_db] * (frames + ahead_frames)
    # While another source begins, the gain stays constant, so that the source that fades out under it keeps its gain.
    if source and not begins:
        ends_db = loudness_of(source).gains_db(gain_db, target_lufs, frames + ahead_frames)
    steps_db = np.array([gain_db, *ends_db])
    factors = _lines(10.0 ** (steps_db / 20.0))
    after = Level(source, ends_db[frames - 1], target_lufs)
    if towards.is_ramping:
        factors = _ramped(factors, towards.before, towards.ramped)
    for offset, begun in begins:
        if offset >= len(factors):
            break
        before = float(factors[offset - 1]) if offset else level.factor
        gain_db = loudness_of(begun).first_gain_db(gain_db, target_lufs)
        factors[offset:] = 10.0 ** (gain_db / 20.0)
        if offset or level.source or goes_on:  # otherwise a sound that continues from file to file would click
            factors[offset:] = _ramped(factors[offset:], before)
        ramped = frames * FRAME_SAMPLES - offset
        if 0 < ramped < _GAIN_RAMP_SAMPLES:
            after = Level(begun, gain_db, target_lufs, before, ramped)
        elif ramped > 0:
            after = Level(begun, gain_db, target_lufs)
    return Levels(factors, after)


def _lines(points: NDArray[np.float64]) -> NDArray[np.float32]:
    """Straight lines from point to point, each one frame long."""
    shares = np.arange(1, FRAME_SAMPLES + 1) / FRAME_SAMPLES
    lines = points[:-1, np.newaxis] + np.diff(points)[:, np.newaxis] * shares
    return lines.reshape(-1).astype(np.float32)


def _ramped(factors: NDArray[np.float32], before: float, ramped: int = 0) -> NDArray[np.float32]:
    """`factors` with a ramp into them from the factor `before`; `ramped` samples of the ramp are past. Without a jump
    there is no ramp."""
    if abs(factors[0] / before - 1.0) > 0.001:
        length = min(_GAIN_RAMP_SAMPLES - ramped, len(factors))
        factors[:length] = before + (factors[:length] - before) * _RAMP[ramped : ramped + length]
    return factors
