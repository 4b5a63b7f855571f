"""What happens to a player, as values. Clients see their fields: `protocol.rendering` has the rule, and each event has
its model in `protocol.events`.

`position_ms` is the position in the current track's file when it happened.
"""

from dataclasses import dataclass
from enum import StrEnum

from tonearm.core.crossfade import CrossfadeSettings
from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.json_value import Json
from tonearm.core.play_queue import EndReason, LoopMode
from tonearm.core.track import Track


class PlayerState(StrEnum):
    """`loading`: waits for the source, before the first sound or in mid-track. `failed`: nothing is left to try."""

    LOADING = "loading"
    PLAYING = "playing"
    IDLE = "idle"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events. A client gets them with the name of their class as `op`."""


@dataclass(frozen=True, slots=True)
class TrackEvent(Event):
    """What happened to a track. `user_data` is the metadata that it showed then: its own, else the player's."""

    track: Track
    user_data: Json
    position_ms: int


@dataclass(frozen=True, slots=True)
class TrackStart(TrackEvent):
    """The track's first frame is about to be sent."""


@dataclass(frozen=True, slots=True)
class TrackEnd(TrackEvent):
    """The track is over, for `reason`, after `played_ms` of its file were sent; what was sought over does not count."""

    reason: EndReason
    played_ms: int


@dataclass(frozen=True, slots=True)
class TrackException(TrackEvent):
    """The track cannot be played, or not to its end. Its `TrackEnd` follows."""

    failure: PlayFailure


@dataclass(frozen=True, slots=True)
class TrackStuck(TrackEvent):
    """Nothing of the track could be sent for `threshold_ms`. `cause` says in a few words what the track waits for."""

    threshold_ms: int
    cause: str


@dataclass(frozen=True, slots=True)
class StreamTitle(Event):
    """From now on a stream plays something with this title."""

    track_id: str
    title: str


@dataclass(frozen=True, slots=True)
class PlayerUpdate(Event):
    """Where the player stands: after each change of state or pause, and every few seconds while it plays.

    `position_rate`: how fast the position moves while it plays.
    """

    state: PlayerState
    paused: bool
    position_ms: int
    position_rate: float = 1.0


@dataclass(frozen=True, slots=True)
class PlayerPause(Event):
    """The player was paused."""

    position_ms: int


@dataclass(frozen=True, slots=True)
class PlayerResume(Event):
    """The pause was cleared."""

    position_ms: int


@dataclass(frozen=True, slots=True)
class Seek(Event):
    """The current track goes on at `position_ms` instead of `from_ms`."""

    track_id: str
    from_ms: int
    position_ms: int


@dataclass(frozen=True, slots=True)
class SeekFailed(Event):
    """A seek was accepted while the track was loading, and its source cannot be sought: it plays from its start. `code`
    says why."""

    track_id: str
    code: str
    position_ms: int


@dataclass(frozen=True, slots=True)
class QueueUpdate(Event):
    """The queue has changed and has this many tracks now. `version` counts the changes of its order."""

    length: int
    version: int


@dataclass(frozen=True, slots=True)
class QueueDetails(Event):
    """Title, author or length of these waiting tracks are known now."""

    track_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopModeChange(Event):
    mode: LoopMode


@dataclass(frozen=True, slots=True)
class FiltersChange(Event):
    """All filters as they are now."""

    filters: Filters


@dataclass(frozen=True, slots=True)
class CrossfadeChange(Event):
    """The settings of crossfades as they are now."""

    crossfade: CrossfadeSettings


@dataclass(frozen=True, slots=True)
class MetadataChange(Event):
    """The player's metadata as it is now."""

    metadata: Json


@dataclass(frozen=True, slots=True)
class OverlayStart(Event):
    """The first frame with this overlay is about to be sent."""

    overlay_id: str


class OverlayEndReason(StrEnum):
    """`stopped`: a client took it away, or deleted the player."""

    FINISHED = "finished"
    STOPPED = "stopped"
    LOAD_FAILED = "loadFailed"


@dataclass(frozen=True, slots=True)
class OverlayEnd(Event):
    """The overlay is gone."""

    overlay_id: str
    reason: OverlayEndReason


@dataclass(frozen=True, slots=True)
class OverlayException(Event):
    """The overlay cannot be played, or not to its end. Its `OverlayEnd` follows."""

    overlay_id: str
    failure: PlayFailure


class DeleteReason(StrEnum):
    """Why a player was deleted without being asked for."""

    EXPIRED = "expired"  # for a long time it had no listener, no event client and no request


@dataclass(frozen=True, slots=True)
class ListenersChange(Event):
    """Listeners came or went, and there are this many now."""

    listeners: int


@dataclass(frozen=True, slots=True)
class PlayerDelete(Event):
    """The player is gone; its last event. `reason` is None when a client deleted it."""

    reason: DeleteReason | None = None
