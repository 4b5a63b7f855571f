"""Overlays: sounds over a player's music, and the level of the music under them.

They come after the filters and the volume, before the limiter. The overlays at a frame are an immutable value on the
session's own time, like the voices of the music, so that any recent frame can be rendered again.

An overlay without samples in time stands still and continues later: the music does not wait for it. Its last decoded
GLIDE_SAMPLES are not used before more samples or the end follow, so that it can always fade out.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, samples_of_ms
from tonearm.decoder.messages import OverlayOrder, OverlayPosition, Plan
from tonearm.worker.filters.blocks import FULL_SCALE, PCM_DTYPE, Planes, interleaved, scale
from tonearm.worker.mixing.voices import GLIDE_SAMPLES, Fade, Ramp, ReadPcm, add_fade, falling, rising

# The decoded samples that an overlay needs to continue after an underrun.
ENOUGH_SAMPLES: Final = samples_of_ms(200)
_NOT_BEGUN: Final = -1


class Supply(NamedTuple):
    """The decoded samples of an overlay: from `oldest` up to `end`. If it `is_finished`, no more samples follow."""

    oldest: int
    end: int
    is_finished: bool
    is_interrupted: bool


# None for a source that is not open yet.
SupplyOf: TypeAlias = Callable[[int], Supply | None]


@dataclass(frozen=True, slots=True)
class Duck:
    """The level of the music goes from `from_db` to `to_db` within `samples` from `start` on."""

    start: int = 0
    samples: int = 1
    from_db: float = 0.0
    to_db: float = 0.0

    @property
    def is_level(self) -> bool:
        return not self.from_db and not self.to_db

    def db_at(self, time: int) -> float:
        share = min(max((time - self.start) / self.samples, 0.0), 1.0)
        return self.from_db + (self.to_db - self.from_db) * share

    def towards(self, to_db: float, time: int, samples: int) -> "Duck":
        if to_db == self.to_db:
            return self
        return Duck(time, max(samples, GLIDE_SAMPLES), self.db_at(time), to_db)

    def gains(self, time: int, count: int) -> NDArray[np.float32] | float:
        if time >= self.start + self.samples or self.from_db == self.to_db:
            return 1.0 if self.to_db == 0.0 else float(10.0 ** (self.to_db / 20.0))
        share = np.clip((np.arange(time, time + count) - self.start) / self.samples, 0.0, 1.0)
        db = self.from_db + (self.to_db - self.from_db) * share
        return np.asarray(np.power(10.0, db / 20.0), dtype=np.float32)

    def without_way_back(self) -> "Duck":
        """This duck at its final level at once, if it was rising. For frames without music, in which no ramp is
        audible."""
        if self.to_db <= self.from_db:
            return self
        return Duck(from_db=self.to_db, to_db=self.to_db)

    def at(self, time: int) -> "Duck":
        return Duck() if self.to_db == 0.0 and time >= self.start + self.samples else self


@dataclass(frozen=True, slots=True)
class OverlayVoice:
    """One overlay. `sample` of its source comes at the time `since`; when the overlay moves, the next samples follow.

    `moves`: it plays, otherwise it waits for samples. It fades in by `rise` where it begins in the middle, and fades
    out by `fall` where it is cut off. `ends_at`: the end of its source, once that is known.
    """

    order: OverlayOrder
    sample: int = _NOT_BEGUN
    since: int = 0
    moves: bool = False
    rise: Ramp | None = None
    fall: Ramp | None = None
    ends_at: int | None = None

    @property
    def has_begun(self) -> bool:
        return self.sample != _NOT_BEGUN

    def sample_at(self, time: int) -> int:
        return self.sample + time - self.since if self.moves else self.sample

    def gain_at(self, time: int) -> float:
        return self.order.volume * (1.0 if self.rise is None else self.rise.gain_at(time))

    @property
    def end(self) -> int | None:
        """The time at which the overlay is over, when it plays and its end is known."""
        return self.since + self.ends_at - self.sample if self.moves and self.ends_at is not None else None

    def at(self, time: int) -> "OverlayVoice":
        """This voice without a rise that is over at `time`."""
        return self if self.rise is None or self.rise.end > time else replace(self, rise=None)

    def waiting(self, time: int) -> "OverlayVoice":
        return replace(self, sample=self.sample_at(time), since=time, moves=False)

    def tail(self, time: int) -> tuple[Fade, ...]:
        if not self.moves:
            return ()
        ramp = falling(time, self.gain_at(time))
        return (Fade(self.order.source, self.sample_at(time), ramp, end_sample=self.ends_at),)


@dataclass(frozen=True, slots=True)
class OverlayMix:
    """All overlays at one time, and their effect on the music.

    `over` are overlays that have ended, with their times, as long as plans contain them. `tails` fade out. `gate` is
    the fade of the music when it is paused, and when it continues. `begins`: an overlay begins exactly here.
    """

    voices: tuple[OverlayVoice, ...] = ()
    over: tuple[tuple[int, int], ...] = ()
    tails: tuple[Fade, ...] = ()
    duck: Duck = Duck()
    is_paused: bool = False
    gate: Ramp | None = None
    begins: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there are no overlays, and no remains of ended ones."""
        return self is NO_OVERLAYS or self == NO_OVERLAYS

    @property
    def sound(self) -> bool:
        """Whether any overlay is audible, so that frames are made even without music."""
        for voice in self.voices:
            if voice.sample != _NOT_BEGUN:
                return True
        return bool(self.tails)

    @property
    def change_nothing(self) -> bool:
        return not self.sound and self.duck.is_level and self.gate is None

    # Plans

    def ordered(self, order: Plan, time: int, *, music_sounds: bool) -> "OverlayMix":
        """These overlays from `time` on according to a plan, which may pause or resume the music. `music_sounds`: the
        music is audible, so it fades at a pause or a resumption."""
        if not order.overlays and self.is_empty:
            return self
        overlays = self._planned(order.overlays, time)
        if order.pauses == overlays.is_paused:
            return overlays
        fade = falling(time) if order.pauses else rising(time)
        return replace(overlays, is_paused=order.pauses, gate=fade if music_sounds else None)

    def _planned(self, orders: Sequence[OverlayOrder], time: int) -> "OverlayMix":
        """These overlays from `time` on: overlays without an order stop, new ones begin as soon as they have
        samples."""
        wanted = {order.source: order for order in orders}
        known = {voice.order.source for voice in self.voices}
        over = tuple(entry for entry in self.over if entry[0] in wanted)
        ended = {source for source, _ in over}
        stopped = [voice for voice in self.voices if voice.order.source not in wanted]
        voices = tuple(voice for voice in self.voices if voice.order.source in wanted)
        voices += tuple(OverlayVoice(order) for order in orders if order.source not in known | ended)
        tails = self.tails + tuple(tail for voice in stopped for tail in voice.tail(time))
        duck = self.duck
        if stopped:
            duck = duck.towards(_deepest_db(voices), time, max(voice.order.fade_samples for voice in stopped))
        return replace(self, voices=voices, over=over, tails=tails, duck=duck)

    def without_those_over(self, time: int) -> "OverlayMix":
        return replace(self, over=tuple(entry for entry in self.over if entry[1] > time))

    # Rendering

    def fitted(self, time: int, frames: int, due_frames: int, supply_of: SupplyOf) -> tuple["OverlayMix", int]:
        """These overlays for a block that begins at `time`, and the number of its frames that they are valid for.

        0 frames: the block has to wait for an overlay. `due_frames` frames are so urgent that they are made without
        waiting.
        """
        voices: list[OverlayVoice] = []
        over, tails, begins = self.over, self.tails, False
        fade_samples = 0  # of overlays that begin or end here
        for voice in self.voices:
            supply = supply_of(voice.order.source)
            fitted = voice if supply is None else _supplied(voice, supply, time)
            if fitted is None:
                over += ((voice.order.source, time),)
                fade_samples = max(fade_samples, voice.order.fade_samples)
                continue
            if fitted.moves:
                if not voice.has_begun and not voice.order.has_begun:
                    begins = True
                    fade_samples = max(fade_samples, voice.order.fade_samples)
                if fitted.ends_at is not None:
                    left = -(-(fitted.ends_at - fitted.sample_at(time)) // FRAME_SAMPLES)
                else:
                    assert supply is not None
                    left = (supply.end - GLIDE_SAMPLES - fitted.sample_at(time)) // FRAME_SAMPLES
                frames = min(frames, left)
            else:
                tails += voice.tail(time)
                fitted = fitted.waiting(time)
                frames = min(frames, max(due_frames, 0))
            voices.append(fitted)
        duck = self.duck.towards(_deepest_db(voices), time, fade_samples)
        if self.duck.is_level and not begins and len(over) == len(self.over):
            duck = Duck(from_db=duck.to_db, to_db=duck.to_db)  # all overlays went on where an earlier session ended
        return replace(self, voices=tuple(voices), over=over, tails=tails, duck=duck, begins=begins), frames

    def before_music(self) -> "OverlayMix":
        """These overlays where music begins without any music before."""
        duck = self.duck.without_way_back()
        return self if duck is self.duck else replace(self, duck=duck)

    def after(self, time: int, frames: int, *, was_paused: bool, has_music: bool) -> "OverlayMix":
        """These overlays, which were fitted to a block from `time` on, after `frames` of its frames. `was_paused`: the
        music stood still in these frames. `has_music`: they contained music."""
        samples = frames * FRAME_SAMPLES
        end = time + samples
        if self.is_empty:  # nearly always
            return self
        voices: list[OverlayVoice] = []
        over, fade_samples = self.over, 0
        for voice in self.voices:
            if voice.end is not None and voice.end <= end:
                over += ((voice.order.source, end),)
                fade_samples = max(fade_samples, voice.order.fade_samples)
                continue
            voices.append(voice.at(end))
        duck = self.duck
        if len(over) > len(self.over):
            duck = duck.towards(_deepest_db(voices), end, fade_samples)
        duck = duck.at(end) if has_music else duck.without_way_back()
        gate = self.gate
        if gate is not None and was_paused:
            gate = None if gate.falls else gate.later(samples)
        elif gate is not None and gate.end <= end:
            gate = None
        tails = tuple(tail for tail in self.tails if tail.ramp.end > end) if self.tails else ()
        return replace(self, voices=tuple(voices), over=over, tails=tails, duck=duck, gate=gate, begins=False)

    def positions(self, time: int, frames: int) -> tuple[OverlayPosition, ...]:
        """The positions of the overlays that have begun at `time`, the start of a block of `frames` frames to which
        they were fitted."""
        if not self.voices:
            return ()
        end = time + frames * FRAME_SAMPLES
        return tuple(
            [
                OverlayPosition(
                    voice.order.source,
                    voice.sample_at(time),
                    voice.moves,
                    (over_at := voice.end) is not None and over_at <= end,
                )
                for voice in self.voices
                if voice.sample != _NOT_BEGUN
            ]
        )

    def oldest_samples(self, time: int) -> list[tuple[int, int]]:
        """The first sample of each source that is needed to render from `time` on."""
        oldest = [(voice.order.source, voice.sample_at(time)) for voice in self.voices if voice.sample != _NOT_BEGUN]
        if self.tails:
            oldest += [(tail.source, tail.sample_at(time)) for tail in self.tails]
        return oldest

    def loudest(self, time: int, music: float) -> float:
        """The level that no sample exceeds after `mix_into`, when no sample of the music from `time` on exceeds
        `music`; both are in 16-bit units."""
        if self.tails:
            return math.inf
        highest_db = max(self.duck.db_at(time), self.duck.to_db)
        overlays = FULL_SCALE * sum([voice.order.volume for voice in self.voices])
        return music * math.pow(10.0, highest_db / 20.0) + overlays

    def mix_into(self, planes: Planes, time: int, read: ReadPcm) -> None:
        """Lowers the music in `planes`, which begin at `time`, and adds the overlays to it. In 16-bit units."""
        count = planes.shape[1]
        gains = self.duck.gains(time, count)
        if self.gate is not None:
            gains = gains * self.gate.gains(time, count)
        if not isinstance(gains, float) or gains != 1.0:
            scale(planes, gains)
        row = interleaved(planes)
        for voice in self.voices:
            if voice.moves:
                _add(planes, row, time, voice, read)
        for tail in self.tails:
            add_fade(planes, time, tail, read)


NO_OVERLAYS: Final = OverlayMix()


def _deepest_db(voices: Sequence[OverlayVoice]) -> float:
    return min((voice.order.duck_db for voice in voices if voice.has_begun), default=0.0)


def _supplied(voice: OverlayVoice, supply: Supply, time: int) -> OverlayVoice | None:
    """The voice at `time` with its decoded samples. None when no samples are left."""
    sample = voice.sample_at(time) if voice.has_begun else supply.oldest
    left = supply.end - sample
    if supply.is_finished:
        if left <= 0:
            return None
    elif left < GLIDE_SAMPLES + (FRAME_SAMPLES if voice.moves or not voice.has_begun else ENOUGH_SAMPLES):
        return voice.waiting(time)
    if voice.moves and (voice.ends_at is not None or not supply.is_finished):
        return voice
    rise, fall, ends_at = voice.rise, voice.fall, voice.ends_at
    if not voice.moves and (voice.has_begun or (sample and not voice.order.has_begun)):
        rise = rising(time)
    if supply.is_finished and ends_at is None:
        ends_at = supply.end
        end_sample = voice.order.end_sample
        if supply.is_interrupted or (end_sample is not None and ends_at >= end_sample):
            fall = falling(time + ends_at - sample - GLIDE_SAMPLES)
    return replace(voice, sample=sample, since=time, moves=True, rise=rise, fall=fall, ends_at=ends_at)


def _add(planes: Planes, row: Planes | None, time: int, voice: OverlayVoice, read: ReadPcm) -> None:
    """Adds an overlay to `planes`; `row` is the same samples in one row, when they are interleaved."""
    sample = voice.sample_at(time)
    count = planes.shape[1] if voice.ends_at is None else min(planes.shape[1], voice.ends_at - sample)
    part = np.frombuffer(read(voice.order.source, sample, count), PCM_DTYPE).astype(np.float32)
    length = len(part) // CHANNELS
    gains: NDArray[np.float32] | float = voice.order.volume
    for ramp in (voice.rise, voice.fall):
        if ramp is not None and ramp.start < time + length and ramp.end > time:
            gains = gains * ramp.gains(time, length)
    if not isinstance(gains, float):
        part *= np.repeat(gains, CHANNELS)
    elif gains != 1.0:
        part *= gains
    if row is None:
        planes[:, :length] += part.reshape(-1, CHANNELS).T
    else:
        row[: len(part)] += part
