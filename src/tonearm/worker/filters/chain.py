"""Runs PCM through a player's filters: those of `SLOTS` in order, then the volume, with a ramp where settings change.

`timescale` is not among them: it changes time, and is applied before sound is stored as samples of its source.
Normalization and limiter come after all of these. The filters' state is an immutable value, so PCM can be processed
again from any stored state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tonearm.core.filters import Effect, Filters
from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAME_SAMPLES, samples_of_ms
from tonearm.worker.filters.blocks import (
    PCM_DTYPE,
    FilterState,
    Kernel,
    Planes,
    half_cosine,
    interleaved,
)
from tonearm.worker.filters.limiter import QUIET, LimiterState
from tonearm.worker.filters.linear import EchoKernel, KaraokeKernel, equalizer, high_pass, low_pass
from tonearm.worker.filters.modes import ModalFilter
from tonearm.worker.filters.normalization import UNLEVELLED, Level
from tonearm.worker.filters.shaping import ChannelMixKernel, CompressorKernel, DistortionKernel
from tonearm.worker.filters.swinging import RotationKernel, TremoloKernel, VibratoKernel


@dataclass(frozen=True, slots=True)
class FilterSlot:
    """A place in the chain. `setting` picks the part of a player's filters that the place depends on (None: the filter
    is off). `kernel` makes the filter from this setting."""

    setting: Callable[[Filters], Any]
    kernel: Callable[[Any], Kernel]


SLOTS: Final = (
    FilterSlot(lambda filters: filters.effects.karaoke, KaraokeKernel),
    FilterSlot(lambda filters: None if filters.is_flat_equalizer else filters.gains_db, equalizer),
    FilterSlot(lambda filters: _unless_neutral(filters.effects.low_pass), low_pass),
    FilterSlot(lambda filters: filters.effects.high_pass, high_pass),
    FilterSlot(lambda filters: _unless_neutral(filters.effects.channel_mix), ChannelMixKernel),
    FilterSlot(lambda filters: _unless_neutral(filters.effects.tremolo), TremoloKernel),
    FilterSlot(lambda filters: _unless_neutral(filters.effects.vibrato), VibratoKernel),
    FilterSlot(lambda filters: _unless_neutral(filters.effects.rotation), RotationKernel),
    FilterSlot(lambda filters: _unless_neutral(filters.effects.distortion), DistortionKernel),
    FilterSlot(lambda filters: filters.effects.echo, EchoKernel),
    FilterSlot(lambda filters: filters.effects.compressor, CompressorKernel),
)


def _unless_neutral(effect: Effect | None) -> Effect | None:
    return None if effect is None or effect.changes_nothing else effect


RAMP_SAMPLES: Final = samples_of_ms(10)

# The slowest band, 25 Hz at +24 dB, settles with a time constant of 109 ms: to within 1 % after these 500 ms.
HISTORY_FRAMES: Final = 25

_LOWEST: Final = -32768.0
_HIGHEST: Final = 32767.0


# Named tuples: one of each is made for every block, and frozen dataclasses take longer to make.


class _Active(NamedTuple):
    """A filter that is on: its number among the slots, its setting, its kernel and the kernel's state."""

    slot: int
    setting: Any
    kernel: Kernel
    state: FilterState


class _ActiveFilters(NamedTuple):
    """Settings, and the filters that are on with their states."""

    filters: Filters
    active: tuple[_Active, ...]

    @classmethod
    def fresh(cls, filters: Filters, history: NDArray[np.int16] | None = None) -> "_ActiveFilters":
        """The settings with the state after `history`, or after silence."""
        active = []
        for number, slot in enumerate(SLOTS):
            setting = slot.setting(filters)
            if setting is not None:
                kernel = slot.kernel(setting)
                active.append(_Active(number, setting, kernel, kernel.silence()))
        stage = cls(filters, tuple(active))
        return stage if history is None or not active else stage.filtered(history.T)[1]

    def keeping(self, other: "_ActiveFilters") -> "_ActiveFilters":
        """These filters; a filter with the same setting in `other` has its state from there."""
        same = {active.slot: active for active in other.active}
        return _ActiveFilters(
            self.filters,
            tuple(
                same[active.slot] if active.slot in same and same[active.slot].setting == active.setting else active
                for active in self.active
            ),
        )

    def differs_in_volume_only(self, filters: Filters) -> bool:
        """Whether `filters` gives each filter the same setting as these do."""
        settings = {active.slot: active.setting for active in self.active}
        return all(slot.setting(filters) == settings.get(number) for number, slot in enumerate(SLOTS))

    def filtered(self, sound: Planes | NDArray[np.int16]) -> tuple[Planes, "_ActiveFilters"]:
        """Filters `sound`, 2 by n, without the volume. Returns planes that may be changed, and the filters
        afterwards."""
        if not self.active:
            # float32 is exact for 16-bit samples at any volume, and takes half the time.
            return sound.astype(np.float32), self
        planes: Any = sound
        after = []
        for active in self.active:
            # A linear filter takes any memory layout and type, and converts while it copies.
            if not isinstance(active.kernel, ModalFilter):
                planes = np.ascontiguousarray(planes, dtype=np.float32)
            planes, state = active.kernel.process(planes, active.state)
            after.append(_Active(active.slot, active.setting, active.kernel, state))
        return planes, _ActiveFilters(self.filters, tuple(after))


@dataclass(frozen=True, slots=True, eq=False)
class ChainState:
    """Settings, the filters' state, and the previous settings while a ramp from these is due. Immutable.

    `level` and `limiter` are the states of normalization and limiter, which come after `apply`.
    """

    _stage: _ActiveFilters
    _outgoing: _ActiveFilters | None = None
    level: Level = UNLEVELLED
    limiter: LimiterState = QUIET

    def with_output(self, level: Level, limiter: LimiterState) -> "ChainState":
        return ChainState(self._stage, self._outgoing, level, limiter)

    @classmethod
    def steady(cls, filters: Filters, history_pcm: bytes = b"") -> "ChainState":
        """`filters` without a ramp, with the state after `history_pcm` (see `changed`), or after silence."""
        return cls(_ActiveFilters.fresh(filters, _history(history_pcm) if history_pcm else None))

    @property
    def filters(self) -> Filters:
        """The settings in force; while a ramp is due, those after it."""
        return self._stage.filters

    @property
    def filters_before(self) -> Filters:
        return (self._outgoing or self._stage).filters

    @property
    def changes_nothing(self) -> bool:
        """True when `process` returns the same bytes: no filter is on, volume 1, no ramp due."""
        return self._outgoing is None and not self._stage.active and self._stage.filters.volume == 1.0

    @property
    def is_volume_alone(self) -> bool:
        """True when `apply` does nothing but multiply by the volume."""
        return self._outgoing is None and not self._stage.active

    @property
    def passes_by_filters_alone(self) -> bool:
        """True when normalization is off, and no gain of it remains to glide back from."""
        return self.level.target_lufs is None and not self._stage.filters.effects.normalizes

    def changed(self, filters: Filters, history_pcm: bytes) -> "ChainState":
        """The state with other settings from the next sample on, reached by a ramp of RAMP_SAMPLES.

        `history_pcm` is the unfiltered PCM just before (s16le stereo, whole pairs of samples; the last 500 ms count). A
        new or changed filter first processes it, so that the filter's start is not audible; an unchanged filter keeps
        its state. If another ramp was due and has not begun, the new ramp starts from the settings before both.
        """
        if filters == self.filters:
            return self
        outgoing = self._outgoing or self._stage
        if filters == outgoing.filters:
            return ChainState(outgoing, None, self.level, self.limiter)
        for stage in (outgoing, self._stage):
            if stage.differs_in_volume_only(filters):
                return ChainState(_ActiveFilters(filters, stage.active), outgoing, self.level, self.limiter)
        stage = _ActiveFilters.fresh(filters, _history(history_pcm)).keeping(outgoing)
        return ChainState(stage, outgoing, self.level, self.limiter)

    def at_once(self, filters: Filters) -> "ChainState":
        """The state with other settings from the next sample on, without a ramp: for audio that begins there."""
        stage = self._stage if filters == self.filters else _ActiveFilters.fresh(filters)
        return ChainState(stage, None, self.level, self.limiter)

    def anew(self, filters: Filters) -> "ChainState":
        """The state with these settings and no memory of earlier sound: for audio that begins in silence."""
        return ChainState(_ActiveFilters.fresh(filters), None, self.level, self.limiter)


def process(state: ChainState, pcm: bytes) -> tuple[bytes, ChainState]:
    """Filters `pcm` from `state` on. Returns the result and the state after it.

    Both are s16le stereo of one or more whole frames. Samples above full scale are clipped. The result does not depend
    on how the PCM is split into calls. Raises ValueError for a partial frame or no frame.
    """
    frames, rest = divmod(len(pcm), FRAME_BYTES)
    if rest or not frames:
        raise ValueError(f"the filters take whole frames of {FRAME_BYTES} bytes, not {len(pcm)} bytes")
    if state.changes_nothing:
        return pcm, state

    planes, after = apply(state, np.frombuffer(pcm, dtype=PCM_DTYPE).reshape(-1, CHANNELS).T)
    return as_pcm(planes, may_clip=not state.is_volume_alone or state.filters.volume > 1.0), after


def apply(state: ChainState, sound: Planes | NDArray[np.int16]) -> tuple[Planes, ChainState]:
    """Like `process`, but with 2 by n samples in 16-bit units, neither rounded nor clipped. `sound` stays unchanged."""
    stage, outgoing = state._stage, state._outgoing
    planes, after = stage.filtered(sound)
    volume = stage.filters.volume
    if outgoing is None:
        if volume != 1.0:
            planes *= volume
    else:
        before = planes[:, :RAMP_SAMPLES]
        if outgoing.active is not stage.active:
            before = outgoing.filtered(sound[:, :FRAME_SAMPLES])[0][:, :RAMP_SAMPLES]
        incoming = half_cosine(RAMP_SAMPLES)
        ramp = before * (outgoing.filters.volume * (1.0 - incoming))
        ramp += planes[:, :RAMP_SAMPLES] * (volume * incoming)
        planes *= volume
        planes[:, :RAMP_SAMPLES] = ramp
    return planes, ChainState(after)


def as_pcm(planes: Planes, *, may_clip: bool = True) -> bytes:
    """2 by n samples as s16le stereo, rounded and clipped in place. With `may_clip` False no sample may be above full
    scale."""
    row = interleaved(planes)
    sound = planes if row is None else row
    if may_clip:
        sound.clip(_LOWEST, _HIGHEST, out=sound)
    np.rint(sound, out=sound)
    if row is not None:
        return row.astype(PCM_DTYPE).tobytes()
    samples = np.empty((planes.shape[1], CHANNELS), dtype=PCM_DTYPE)
    # One plane at a time takes a third of NumPy's time for the whole transposed array.
    for channel in range(CHANNELS):
        samples[:, channel] = planes[channel]
    return samples.tobytes()


def _history(pcm: bytes) -> NDArray[np.int16] | None:
    """The last 500 ms of `pcm`, padded at the start with silence to whole frames; None for no PCM.

    A full history fades in, since it may begin in the middle of sound: an echo would repeat that start as a click.
    """
    pcm = pcm[-HISTORY_FRAMES * FRAME_BYTES :]
    if not pcm:
        return None
    silence = bytes(-len(pcm) % FRAME_BYTES)
    history = np.frombuffer(silence + pcm, dtype=PCM_DTYPE).reshape(-1, CHANNELS)
    if len(history) == HISTORY_FRAMES * FRAME_SAMPLES:
        history = history.copy()
        history[:RAMP_SAMPLES] = history[:RAMP_SAMPLES] * half_cosine(RAMP_SAMPLES)[:, np.newaxis]
    return history
