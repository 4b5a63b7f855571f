"""What happens to a player, as values. `protocol.rendering` writes them for clients.

`position_ms` is the position in the current track's file when it happened.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

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
class TrackEvent:
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
class StreamTitle:
    """From now on a stream plays something with this title."""

    track_id: str
    title: str


@dataclass(frozen=True, slots=True)
class PlayerUpdate:
    """Where the player stands: after each change of state or pause, and every few seconds while it plays.

    `position_rate`: how fast the position moves while it plays.
    """

    state: PlayerState
    paused: bool
    position_ms: int
    position_rate: float = 1.0


@dataclass(frozen=True, slots=True)
class PlayerPause:
    """The player was paused."""

    position_ms: int


@dataclass(frozen=True, slots=True)
class PlayerResume:
    """The pause was cleared."""

    position_ms: int


@dataclass(frozen=True, slots=True)
class Seek:
    """The current track goes on at `position_ms` instead of `from_ms`."""

    track_id: str
    from_ms: int
    position_ms: int


@dataclass(frozen=True, slots=True)
class SeekFailed:
    """A seek was accepted while the track was loading, and its source cannot be sought: it plays from its start. `code`
    says why."""

    track_id: str
    code: str
    position_ms: int


@dataclass(frozen=True, slots=True)
class QueueUpdate:
    """The queue has changed and has this many tracks now. `version` counts the changes of its order."""

    length: int
    version: int


@dataclass(frozen=True, slots=True)
class QueueDetails:
    """Title, author or length of these waiting tracks are known now."""

    track_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopModeChange:
    mode: LoopMode


@dataclass(frozen=True, slots=True)
class FiltersChange:
    """All filters as they are now."""

    filters: Filters


@dataclass(frozen=True, slots=True)
class CrossfadeChange:
    """The settings of crossfades as they are now."""

    crossfade: CrossfadeSettings


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """The player's metadata as it is now."""

    metadata: Json


@dataclass(frozen=True, slots=True)
class OverlayStart:
    """The first frame with this overlay is about to be sent."""

    overlay_id: str


class OverlayEndReason(StrEnum):
    """`stopped`: a client took it away, or deleted the player."""

    FINISHED = "finished"
    STOPPED = "stopped"
    LOAD_FAILED = "loadFailed"


@dataclass(frozen=True, slots=True)
class OverlayEnd:
    """The overlay is gone."""

    overlay_id: str
    reason: OverlayEndReason


@dataclass(frozen=True, slots=True)
class OverlayException:
    """The overlay cannot be played, or not to its end. Its `OverlayEnd` follows."""

    overlay_id: str
    failure: PlayFailure


class DeleteReason(StrEnum):
    """Why a player was deleted without being asked for."""

    EXPIRED = "expired"  # for a long time it had no listener, no event client and no request


@dataclass(frozen=True, slots=True)
class ListenersChange:
    """Listeners came or went, and there are this many now."""

    listeners: int


@dataclass(frozen=True, slots=True)
class PlayerCreate:
    """The player was created. Only clients that follow all players get it: none can follow this one before."""


@dataclass(frozen=True, slots=True)
class PlayerDelete:
    """The player is gone; its last event. `reason` is None when a client deleted it."""

    reason: DeleteReason | None = None


Event: TypeAlias = (
    TrackStart
    | TrackEnd
    | TrackException
    | TrackStuck
    | StreamTitle
    | PlayerUpdate
    | PlayerPause
    | PlayerResume
    | Seek
    | SeekFailed
    | QueueUpdate
    | QueueDetails
    | LoopModeChange
    | FiltersChange
    | CrossfadeChange
    | OverlayStart
    | OverlayEnd
    | OverlayException
    | MetadataChange
    | ListenersChange
    | PlayerDelete
)
