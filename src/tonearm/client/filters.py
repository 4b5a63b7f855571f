"""Filters in the form that a program writes them, and presets by name.

The presets are those that music bots use with Lavalink. Names and values come from the presets of wavelink, poru and
lavalink-client, where these agree.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic.alias_generators import to_camel


def _bands(*gains: float) -> list[dict[str, float]]:
    """The gains of Lavalink's bands 0, 1, 2 and so on."""
    return [{"band": band, "gain": gain} for band, gain in enumerate(gains)]


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "flat": {},
        "bassboost": {"equalizer": _bands(0.2, 0.15, 0.1, 0.05, 0.0, -0.05)},
        "bassboost_low": {"equalizer": _bands(0.1, 0.075, 0.05)},
        "bassboost_high": {"equalizer": _bands(0.35, 0.3, 0.2, 0.1, 0.0, -0.05)},
        "treble": {"equalizer": _bands(*[0.0] * 9, 0.05, 0.1, 0.15, 0.2, 0.2, 0.2)},
        "nightcore": {"timescale": {"speed": 1.2, "pitch": 1.2}},
        "vaporwave": {
            "timescale": {"speed": 0.85, "pitch": 0.8},
            "equalizer": _bands(0.3, 0.3),
            "tremolo": {"depth": 0.3, "frequency": 14},
        },
        "doubletime": {"timescale": {"speed": 1.165}},
        "slowmotion": {"timescale": {"speed": 0.7, "pitch": 1.0, "rate": 0.8}},
        "chipmunk": {"timescale": {"speed": 1.05, "pitch": 1.35, "rate": 1.25}},
        "8d": {"rotation": {"rotationHz": 0.2}},
        "karaoke": {"karaoke": {}},
        "soft": {"lowPass": {"smoothing": 20}},
        "tremolo": {"tremolo": {"frequency": 10, "depth": 0.5}},
        "vibrato": {"vibrato": {"frequency": 10, "depth": 0.9}},
        "pop": {"equalizer": _bands(-0.02, -0.01, 0.08, 0.1, 0.15, 0.1, 0.03, -0.02, -0.035, -0.05)},
        "electronic": {
            "equalizer": _bands(0.375, 0.35, 0.125, 0, 0, -0.125, -0.125, 0, 0.25, 0.125, 0.15, 0.2, 0.25, 0.35, 0.4)
        },
        "loud": {"normalization": {"targetLufs": -14}, "compressor": {}},
    }
)


def preset_body(name: str) -> dict[str, Any]:
    """The request body of the preset `name`, which replaces all filters. Raises `ValueError` for an unknown name."""
    preset = PRESETS.get(name)
    if preset is None:
        raise ValueError(f"There is no preset {name!r}; there are {', '.join(PRESETS)}.")
    return {"reset": True, **preset}


def filter_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The request body for changed filters: `low_pass={"frequency_hz": 800}`, `eq={0: 6.0}` in dB by band,
    `volume=0.5`."""
    body: dict[str, Any] = {}
    for name, value in changes.items():
        if name == "eq" and isinstance(value, Mapping):
            body["eq"] = [{"band": band, "gain_db": gain_db} for band, gain_db in value.items()]
        elif isinstance(value, Mapping):
            body[to_camel(name)] = {to_camel(str(field)): item for field, item in value.items()}
        else:
            body[to_camel(name)] = value
    return body
