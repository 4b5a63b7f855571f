"""An effect of each kind, and filters with some of them on."""

from typing import Final

from tonearm.core.filters import (
    EFFECT_KINDS,
    ChannelMix,
    Compressor,
    Distortion,
    Echo,
    Effect,
    Effects,
    Filters,
    HighPass,
    Karaoke,
    LowPass,
    Rotation,
    Tremolo,
    Vibrato,
)

ONE_OF_EACH: Final[tuple[Effect, ...]] = (
    Karaoke(),
    LowPass(),
    LowPass(frequency_hz=800.0),
    HighPass(),
    ChannelMix(0.5, 0.5, 0.5, 0.5),
    Tremolo(),
    Vibrato(),
    Rotation(0.2),
    Distortion(sin_scale=2.0),
    Echo(130.0, 0.5, 0.5),
    Compressor(),
)


def filters_with(*effects: Effect, volume: float = 1.0) -> Filters:
    """With these effects on; of two of one kind the last one."""
    names = {kind: name for name, kind in EFFECT_KINDS.items()}
    return Filters(volume=volume, effects=Effects(**{names[type(effect)]: effect for effect in effects}))  # type: ignore[arg-type]
