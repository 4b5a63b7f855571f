"""What a call on a player's rules leads to: events to tell, sources to open or drop."""

from dataclasses import dataclass
from typing import TypeAlias

from tonearm.core.event import Event
from tonearm.core.track import Track

SourceId: TypeAlias = int  # 1, 2, 3 … in one player; every try to open a track has its own


@dataclass(frozen=True, slots=True)
class Open:
    """Open the track's URI after `delay_s` seconds and report about it under `source`."""

    source: SourceId
    track: Track
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing of `source` is wanted any more, however far it came."""

    source: SourceId


Action: TypeAlias = Open | Drop


@dataclass(frozen=True, slots=True)
class Outcome:
    """Both parts in the order in which they are to be done."""

    events: tuple[Event, ...] = ()
    actions: tuple[Action, ...] = ()
