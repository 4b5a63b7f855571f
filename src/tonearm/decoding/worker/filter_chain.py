"""Applies the filters of a player to PCM: equalizer, then volume, with a ramp where the settings change.

The state of the filters is an immutable value, so it can be kept for any frame and PCM can be processed again from it.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonearm.core.filters import Filters
from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAME_SAMPLES, samples_of_ms
from tonearm.decoding.worker.equalizer import Equalizer, Modes, Samples

RAMP_SAMPLES: Final = samples_of_ms(10)

# The slowest band, 25 Hz at +24 dB, settles with a time constant of 109 ms: to within 1 % after these 500 ms.
HISTORY_FRAMES: Final = 25

_LOWEST: Final = -32768.0
_HIGHEST: Final = 32767.0
_PCM: Final = np.dtype("<i2")

# Samples by channels, not yet rounded and not yet clipped.
Sound: TypeAlias = NDArray[np.float64] | NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """Settings and the state of their filters. A flat equalizer is None, and so is its state."""

    filters: Filters
    equalizer: Equalizer | None
    modes: Modes | None

    @classmethod
    def fresh(cls, filters: Filters, history: Samples | None = None) -> "_Stage":
        """The settings with the state that `history`, or silence, leaves behind."""
        if filters.is_flat_equalizer:
            return cls(filters, None, None)
        equalizer = Equalizer.of(filters.gains_db)
        return cls(filters, equalizer, equalizer.silence() if history is None else equalizer.modes_after(history))

    def with_volume_of(self, filters: Filters) -> "_Stage":
        """The same equalizer and state, with settings that differ only in volume."""
        return _Stage(filters, self.equalizer, self.modes)

    def equalized(self, samples: Samples) -> tuple[Sound, tuple["_Stage", ...]]:
        """`samples` equalized, before the volume is applied, and this stage after each frame."""
        if self.equalizer is None or self.modes is None:
            # float32 is exact for 16-bit samples at any volume, and takes half the time.
            return samples.astype(np.float32), (self,) * (len(samples) // FRAME_SAMPLES)
        planes, modes_after = self.equalizer.filtered(samples, self.modes)
        return planes.T, tuple(_Stage(self.filters, self.equalizer, modes) for modes in modes_after)


@dataclass(frozen=True, slots=True, eq=False)
class ChainState:
    """Settings, the state of the filters, and the previous settings while a ramp from those is due. Immutable."""

    _stage: _Stage
    _outgoing: _Stage | None = None

    @classmethod
    def steady(cls, filters: Filters, history_pcm: bytes = b"") -> "ChainState":
        """`filters` without a ramp, with the state that `history_pcm` (see `changed`), or silence, leaves behind."""
        return cls(_Stage.fresh(filters, _history(history_pcm) if history_pcm else None))

    @property
    def filters(self) -> Filters:
        """The settings in force, or those after the ramp that is due."""
        return self._stage.filters

    @property
    def changes_nothing(self) -> bool:
        """True when `process` returns the same bytes: all flat, volume 1, no ramp due."""
        return self._outgoing is None and self._stage.filters.changes_nothing

    def changed(self, filters: Filters, history_pcm: bytes) -> "ChainState":
        """The state with other settings from the next sample on, reached by a ramp of RAMP_SAMPLES.

        `history_pcm` is the unfiltered PCM just before (s16le stereo, any number of whole sample blocks; the last
        500 ms count). A new equalizer is run over it, so that it begins settled; an unchanged one keeps its state.
        If another ramp was due and has not begun, the new one starts from the settings before both.
        """
        if filters == self.filters:
            return self
        outgoing = self._outgoing or self._stage
        if filters == outgoing.filters:
            return ChainState(outgoing)
        for stage in (outgoing, self._stage):
            if stage.filters.gains_db == filters.gains_db:
                return ChainState(stage.with_volume_of(filters), outgoing)
        return ChainState(_Stage.fresh(filters, _history(history_pcm)), outgoing)

    def at_once(self, filters: Filters) -> "ChainState":
        """The state with other settings from the next sample on, without a ramp: for audio that begins there."""
        return ChainState(self._stage if filters == self.filters else _Stage.fresh(filters))


def process(state: ChainState, pcm: bytes) -> tuple[bytes, tuple[ChainState, ...]]:
    """`pcm` filtered from `state` on, and the state after each frame.

    `pcm` is s16le stereo of one or more whole frames; so is the result. Samples above full scale are clipped. The
    result does not depend on how the PCM is split into calls. Raises ValueError for a partial frame or no frame.
    """
    frames, rest = divmod(len(pcm), FRAME_BYTES)
    if rest or not frames:
        raise ValueError(f"the filters take whole frames of {FRAME_BYTES} bytes, not {len(pcm)} bytes")
    if state.changes_nothing:
        return pcm, (state,) * frames

    samples = np.frombuffer(pcm, dtype=_PCM).reshape(-1, CHANNELS)
    stage, outgoing = state._stage, state._outgoing
    sound, stages = stage.equalized(samples)
    volume = stage.filters.volume
    if outgoing is None:
        if volume != 1.0:
            sound *= volume
    else:
        before = sound[:RAMP_SAMPLES]
        if outgoing.equalizer is not stage.equalizer:
            before = outgoing.equalized(samples[:FRAME_SAMPLES])[0][:RAMP_SAMPLES]
        incoming = _incoming_shares()
        ramp = before * (outgoing.filters.volume * (1.0 - incoming))
        ramp += sound[:RAMP_SAMPLES] * (volume * incoming)
        sound *= volume
        sound[:RAMP_SAMPLES] = ramp
    return _as_pcm(sound), tuple(map(ChainState, stages))


def _as_pcm(sound: Sound) -> bytes:
    sound.clip(_LOWEST, _HIGHEST, out=sound)
    np.rint(sound, out=sound)
    samples = np.empty(sound.shape, dtype=_PCM)
    if sound.flags.c_contiguous:
        samples[...] = sound
    else:
        # One plane at a time takes a third of NumPy's time for the whole transposed array.
        for channel in range(CHANNELS):
            samples[:, channel] = sound[:, channel]
    return samples.tobytes()


def _history(pcm: bytes) -> Samples | None:
    """The last 500 ms of `pcm`, padded with silence before it to whole frames; None for no PCM."""
    pcm = pcm[-HISTORY_FRAMES * FRAME_BYTES :]
    if not pcm:
        return None
    silence = bytes(-len(pcm) % FRAME_BYTES)
    return np.frombuffer(silence + pcm, dtype=_PCM).reshape(-1, CHANNELS)


def _incoming_shares() -> NDArray[np.float64]:
    """The ramp from 0 to 1 as a column: half a cosine, which has no audible corners."""
    shares: NDArray[np.float64] = 0.5 - 0.5 * np.cos(np.pi * (np.arange(RAMP_SAMPLES) + 0.5) / RAMP_SAMPLES)
    return shares[:, np.newaxis]
