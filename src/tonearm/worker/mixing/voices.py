"""The voices of a player's music: the current source, and sources that fade out under it.

A ramp is placed on the session's own time, in samples since frame 0. So a voice's state at any time follows from values
that never change, and rendering can restart anywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, samples_of_ms
from tonearm.worker.filters.blocks import PCM_DTYPE, Planes

# The curve of a fade. `equalPower`: sine and cosine; `cosine`: half a period, for cuts without a click.
Curve: TypeAlias = Literal["equalPower", "linear", "cosine"]

GLIDE_SAMPLES: Final = samples_of_ms(5)

# Reads a number of samples of a source from a given sample on, as s16le stereo; fewer at the source's end.
ReadPcm: TypeAlias = Callable[[int, int, int], bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Ramp:
    """A gain that goes from 0 to `level`, or with `falls` from `level` to 0, within `samples` from `start` on.

    `until`: the time at which another source replaces the rising sound.
    """

    start: int
    samples: int
    curve: Curve
    falls: bool
    level: float = 1.0
    until: int | None = None

    @property
    def end(self) -> int:
        return self.start + self.samples

    def gain_at(self, time: int) -> float:
        return float(self.gains(time, 1)[0])

    def later(self, samples: int) -> "Ramp":
        until = None if self.until is None else self.until + samples
        return replace(self, start=self.start + samples, until=until)

    def gains(self, time: int, count: int) -> NDArray[np.float32]:
        """The gains of `count` samples from `time` on. Before and after the ramp the gain is constant."""
        share = np.clip((np.arange(time, time + count) + 0.5 - self.start) / self.samples, 0.0, 1.0)
        if self.curve == "linear":
            gain = 1.0 - share if self.falls else share
        elif self.curve == "equalPower":
            gain = np.cos(0.5 * np.pi * share) if self.falls else np.sin(0.5 * np.pi * share)
        else:
            gain = 0.5 + 0.5 * np.cos(np.pi * share) if self.falls else 0.5 - 0.5 * np.cos(np.pi * share)
        return (self.level * gain).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Fade:
    """A source that fades out: its sample `sample` comes `after` samples after the start of the ramp, and silence comes
    before. `is_announced`: the node waits for a mark at the fade's end, because it is a crossfade. `end_sample`:
    samples of the source from there on do not count. `level_db`: the source's gain from normalization."""

    source: int
    sample: int
    ramp: Ramp
    is_announced: bool = False
    end_sample: int | None = None
    level_db: float = 0.0
    after: int = 0

    @property
    def start(self) -> int:
        return self.ramp.start + self.after

    def sample_at(self, time: int) -> int:
        return self.sample + max(time - self.start, 0)

    def cut_at(self, time: int) -> "Fade":
        """This voice, but silent within GLIDE_SAMPLES from `time` on, or earlier."""
        if self.ramp.end <= time + GLIDE_SAMPLES:
            return self
        ramp = falling(time, self.ramp.gain_at(time))
        return replace(self, sample=self.sample_at(time), ramp=ramp)


@dataclass(frozen=True, slots=True)
class Voices:
    """The changes to the current source's samples: `fades` are mixed under it, and `rises` are its own ramps.

    A source has several rises when it begins with a crossfade and glides to another timescale during it.
    """

    fades: tuple[Fade, ...] = ()
    rises: tuple[Ramp, ...] = ()

    def at(self, time: int) -> "Voices":
        """The voices without fades and rises that are over at `time`, or do not begin before it."""
        if self.are_one:
            return self
        rises = tuple(
            replace(rise, until=None)
            for rise in self.rises
            if rise.start < time < rise.end and (rise.until is None or rise.until >= time)
        )
        return Voices(tuple(fade for fade in self.fades if fade.ramp.start < time < fade.ramp.end), rises)

    def later(self, samples: int) -> "Voices":
        """The voices moved later by this many samples, because the music stood still."""
        if self.are_one:
            return self
        rises = tuple(rise.later(samples) for rise in self.rises)
        return Voices(tuple(replace(fade, ramp=fade.ramp.later(samples)) for fade in self.fades), rises)

    def giving_way(self, fade: Fade, rise: Ramp) -> "Voices":
        """The voices when a source begins with `rise`, and the source before, with its rises, continues as `fade`."""
        over = (old if old.until is not None else replace(old, until=rise.start) for old in self.rises)
        return Voices((*self.fades, fade), (*over, rise))

    def gain_at(self, time: int) -> float:
        gain = 1.0
        for rise in self.rises:
            gain *= rise.gain_at(time)
        return gain

    @property
    def are_one(self) -> bool:
        """True when the current source's samples stay unchanged."""
        return not self.fades and not self.rises


ONE_VOICE: Final = Voices()


def falling(time: int, level: float = 1.0) -> Ramp:
    """The ramp by which a sound that is cut at `time` fades out."""
    return Ramp(time, GLIDE_SAMPLES, "cosine", falls=True, level=level)


def rising(time: int) -> Ramp:
    """The ramp by which a sound fades in at `time` when it begins in its middle."""
    return Ramp(time, GLIDE_SAMPLES, "cosine", falls=False)


def mixed(
    pcm: bytes | memoryview, time: int, voices: Voices, read: ReadPcm, levels: NDArray[np.float32] | None = None
) -> Planes:
    """The current source's `pcm`, which begins at `time`, with all voices, 2 by n in 16-bit units, not clipped.

    `levels` are the factors that normalization will apply to the mix (None: 1), by the current source's loudness. The
    mix compensates for them, so that a source that fades out keeps its own gain.
    """
    samples = np.frombuffer(pcm, dtype=PCM_DTYPE).reshape(-1, CHANNELS)
    planes: Planes = samples.T.astype(np.float32, order="C")
    count = planes.shape[1]
    for rise in voices.rises:
        # A rise that begins within these samples belongs to the source that begins there, not to the one before.
        first = max(rise.start - time, 0)
        last = count if rise.until is None else min(rise.until - time, count)
        if last > first:
            planes[:, first:last] *= rise.gains(time + first, last - first)
    for fade in voices.fades:
        add_fade(planes, time, fade, read, levels)
    return planes


def add_fade(planes: Planes, time: int, fade: Fade, read: ReadPcm, levels: NDArray[np.float32] | None = None) -> None:
    """Adds a source that fades out to `planes`, which begin at `time`. For `levels` see `mixed`."""
    first = max(fade.start - time, 0)
    last = min(fade.ramp.end - time, planes.shape[1])
    if last <= first:
        return
    sample, count = fade.sample_at(time + first), last - first
    if fade.end_sample is not None:
        count = min(count, max(fade.end_sample - sample, 0))
    pcm = read(fade.source, sample, count)
    voice = np.frombuffer(pcm, dtype=PCM_DTYPE).reshape(-1, CHANNELS).T
    length = voice.shape[1]
    gains = fade.ramp.gains(time + first, length)
    if fade.level_db:
        gains = gains * np.float32(10.0 ** (fade.level_db / 20.0))
    if levels is not None:
        gains = gains / levels[first : first + length]
    planes[:, first : first + length] += voice * gains
