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
from tonearm.worker.filters.channel_mix import ChannelMixKernel
from tonearm.worker.filters.compressor import CompressorKernel
from tonearm.worker.filters.distortion import DistortionKernel
from tonearm.worker.filters.echo import EchoKernel
from tonearm.worker.filters.equalizer import equalizer
from tonearm.worker.filters.high_pass import high_pass
from tonearm.worker.filters.karaoke import KaraokeKernel
from tonearm.worker.filters.low_pass import low_pass
from tonearm.worker.filters.rotation import RotationKernel
from tonearm.worker.filters.tremolo import TremoloKernel
from tonearm.worker.filters.vibrato import VibratoKernel


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the chain: what of a player's filters it depends on (None: it is off), and its kernel then."""

    setting: Callable[[Filters], Any]
    kernel: Callable[[Any], Kernel]


SLOTS: Final = (
    Slot(lambda filters: filters.effects.karaoke, KaraokeKernel),
    Slot(lambda filters: None if filters.is_flat_equalizer else filters.gains_db, equalizer),
    Slot(lambda filters: _unless_neutral(filters.effects.low_pass), low_pass),
    Slot(lambda filters: filters.effects.high_pass, high_pass),
    Slot(lambda filters: _unless_neutral(filters.effects.channel_mix), ChannelMixKernel),
    Slot(lambda filters: _unless_neutral(filters.effects.tremolo), TremoloKernel),
    Slot(lambda filters: _unless_neutral(filters.effects.vibrato), VibratoKernel),
    Slot(lambda filters: _unless_neutral(filters.effects.rotation), RotationKernel),
    Slot(lambda filters: _unless_neutral(filters.effects.distortion), DistortionKernel),
    Slot(lambda filters: filters.effects.echo, EchoKernel),
    Slot(lambda filters: filters.effects.compressor, CompressorKernel),
)


def _unless_neutral(effect: Effect | None) -> Effect | None:
    return None if effect is None or effect.changes_nothing else effect
