"""The filters of a player, in the order in which the sound goes through them: one line for each.

`timescale` is not among them: it changes time, and is applied before sound is kept as samples of its source. Volume
and limiter come after all of these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tonearm.core.effects import Effect
from tonearm.core.filters import Filters
from tonearm.worker.filters.blocks import Kernel
from tonearm.worker.filters.compressor import CompressorKernel
from tonearm.worker.filters.echo import EchoKernel
from tonearm.worker.filters.linear import KaraokeKernel, equalizer, high_pass, low_pass
from tonearm.worker.filters.shaping import ChannelMixKernel, DistortionKernel
from tonearm.worker.filters.swinging import RotationKernel, TremoloKernel, VibratoKernel


@dataclass(frozen=True, slots=True)
class FilterSlot:
    """A place in the chain. `setting` gives the part of a player's filters that it depends on (None: the filter is
    off), `kernel` makes the filter from that."""

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
