"""What the edge needs of the configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """`password` empty: everyone is let in. A socket that answers no ping for two intervals is cut."""

    password: str = ""
    ping_interval_s: float = 20.0
