"""Where in a source a decoded frame belongs, counted in its own samples from the first one that is heard."""

from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream

from tonearm.core.frame import SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class SourcePositions:
    """Turns timestamps of a stream into sample positions.

    `grid` is set when the container's clock is coarser than a sample (milliseconds in Matroska) and all frames are
    equally long: (first frame's samples, every other frame's samples). Positions then snap to where frames can begin.
    """

    sample_rate_hz: int
    time_base: Fraction
    first_timestamp: int
    grid: tuple[int, int] | None

    @classmethod
    def of_stream(cls, stream: AudioStream, first_frames: list[AudioFrame]) -> "SourcePositions | None":
        """None when the container has no timestamps."""
        first = first_frames[0]
        if first.pts is None or not stream.time_base:
            return None
        time_base = Fraction(stream.time_base.numerator, stream.time_base.denominator)
        lengths = {frame.samples for frame in first_frames[1:]}
        is_coarse = time_base * first.sample_rate > 1
        grid = (first.samples, lengths.pop()) if is_coarse and len(lengths) == 1 else None
        return cls(first.sample_rate, time_base, first.pts, grid)

    def of_frame(self, frame: AudioFrame) -> int | None:
        """The position of the frame's first sample; None when it has no timestamp."""
        if frame.pts is None:
            return None
        position = round((frame.pts - self.first_timestamp) * self.time_base * self.sample_rate_hz)
        if self.grid is None:
            return position
        first_samples, frame_samples = self.grid
        if frame.pts == self.first_timestamp and frame.samples == first_samples:
            return 0
        return first_samples + round((position - first_samples) / frame_samples) * frame_samples

    def timestamp_at(self, position: int) -> int:
        """The stream's timestamp at a position."""
        return self.first_timestamp + int(position / self.sample_rate_hz / self.time_base)


def source_start_for(sample: int, sample_rate_hz: int, settle_samples: int) -> tuple[int, int]:
    """Where to begin in the source to get output from `sample` (at 48 kHz) on.

    Returns the source position to begin at, and how many output samples to drop then. Begun only where a source sample
    and an output sample fall together, the resampler gives exactly what it gives when it runs through; `settle_samples`
    of output are left for it to fill its filter.
    """
    if sample_rate_hz == SAMPLE_RATE_HZ:
        return sample, 0
    common = gcd(sample_rate_hz, SAMPLE_RATE_HZ)
    periods = max(sample - settle_samples, 0) * common // SAMPLE_RATE_HZ
    return periods * sample_rate_hz // common, sample - periods * SAMPLE_RATE_HZ // common


def cut(frame: AudioFrame, start: int, stop: int) -> AudioFrame:
    """The samples from `start` to `stop` of a frame, as a frame of its own."""
    width = 1 if frame.format.is_planar else frame.layout.nb_channels
    samples: Any = np.ascontiguousarray(frame.to_ndarray()[:, start * width : stop * width])
    part = AudioFrame.from_ndarray(samples, format=frame.format.name, layout=frame.layout.name)
    part.sample_rate = frame.sample_rate
    return part
