"""An effect of each kind, and filters with some of them on."""

from typing import Any, Final

from tonearm.core import filters

ONE_OF_EACH: Final[tuple[filters.Effect, ...]] = (
    filters.Karaoke(),
    filters.LowPass(),
    filters.LowPass(frequency_hz=800.0),
    filters.HighPass(),
    filters.ChannelMix(0.5, 0.5, 0.5, 0.5),
    filters.Tremolo(),
    filters.Vibrato(),
    filters.Rotation(0.2),
    filters.Distortion(sin_scale=2.0),
    filters.Echo(130.0, 0.5, 0.5),
    filters.Compressor(),
)


def filters_with(*effects: filters.Effect, volume: float = 1.0) -> filters.Filters:
    """With these effects on; of two of one kind the last one."""
    names = {kind: name for name, kind in filters.EFFECT_KINDS.items()}
    on: Any = {names[type(effect)]: effect for effect in effects}
    return filters.Filters(volume=volume, effects=filters.Effects(**on))
